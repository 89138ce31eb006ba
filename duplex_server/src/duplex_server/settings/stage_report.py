"""How every stage will be run, and which source said so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from duplex_sdk.stage import StageConfig

from duplex_server.stages import Deployment

from .deployed_stages import deployed_stages
from .report import SettingLine, shown
from .resolve import ResolvedSettings

__all__ = ["stage_lines"]

_PLAIN = ("replicas", "memory_bytes", "period_ms", "max_batch", "gather_ms")
_MAPPINGS = ("options", "sampling", "vllm")


def stage_lines(resolved: ResolvedSettings) -> Iterator[SettingLine]:
    """All settings of all stages; loads the plugin's light half.

    Raises:
        SettingsError: a stage can't be run like that.
        DuplexError: the plugin can't be loaded.
    """
    deployment = resolved.deployment
    for stage in deployed_stages(resolved):
        for path, value in _values(stage, deployment):
            full = f"stages.{stage.id}.{path}"
            yield SettingLine(full, shown(value), _origin(resolved, full, path, deployment))


def _values(stage: StageConfig, deployment: Deployment) -> Iterator[tuple[str, Any]]:
    yield "backend", stage.backends[0]
    yield "device", stage.device
    for name in _PLAIN:
        yield name, getattr(stage, name)
    given = deployment.stages.get(stage.id, {})
    for name in ("workers", "worker_python"):
        if name in given:
            yield name, given[name]
    for name in _MAPPINGS:
        mapping: Mapping[str, Any] = getattr(stage, name)
        for key, value in mapping.items():
            yield f"{name}.{key}", value


def _origin(resolved: ResolvedSettings, full: str, path: str, deployment: Deployment) -> str:
    origins = resolved.origins
    general = {
        "device": "device",
        "backend": "worker_python" if deployment.worker_python is not None else "",
    }
    if _is_given(full, deployment):
        # Or only a part of it was named, or all it stands in.
        return str(resolved.origin_of(full))
    for known in (full, general.get(path, "")):
        if known in origins:
            return str(origins[known])
    return f"plugin {resolved.spec.name}"


def _is_given(full: str, deployment: Deployment) -> bool:
    _, stage_id, mapping, *key = full.split(".", 3)
    given = deployment.stages.get(stage_id, {}).get(mapping)
    return bool(key) and isinstance(given, Mapping) and key[0] in given
