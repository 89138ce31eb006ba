"""Which voice a session really has: the plugin knows."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from duplex_sdk.plugin import DuplexConfigError

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexModelPlugin, DuplexSessionConfig

__all__ = ["voice_in_use"]


def voice_in_use(
    plugin: DuplexModelPlugin, config: DuplexSessionConfig, session_id: str
) -> str | None:
    """The voice that a session with this config has, as its client is told of it.

    Raises:
        DuplexConfigError: the plugin could not say.
    """
    try:
        return plugin.voice_in_use(MappingProxyType(config.for_stages(session_id)))
    except Exception as error:
        raise DuplexConfigError(
            "runtime_signal_failed", f"the model could not name the voice: {error!r}"
        ) from error
