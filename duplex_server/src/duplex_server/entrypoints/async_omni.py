"""``AsyncOmni``: a pipeline for requests without a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duplex_server.engine.async_omni_engine import AsyncOmniEngine

from .omni_base import AsyncOmniBase

if TYPE_CHECKING:
    from duplex_server.engine.omni_engine_base import OmniEngineBase

__all__ = ["AsyncOmni"]


class AsyncOmni(AsyncOmniBase):
    """Runs a pipeline in this process; the arguments are those of ``AsyncOmniEngine``."""

    def _create_engine(self, **engine_arguments: Any) -> OmniEngineBase:
        return AsyncOmniEngine(**engine_arguments)
