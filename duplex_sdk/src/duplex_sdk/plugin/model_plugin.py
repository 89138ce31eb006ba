"""The one class a model provides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .append_planner import AppendPlanner
from .output_interpreter import OutputInterpreter
from .session_policy import SessionPolicy
from .stage_policy import StagePolicy

if TYPE_CHECKING:
    from duplex_sdk.stage import Json

__all__ = ["DuplexModelPlugin"]


class DuplexModelPlugin(AppendPlanner, OutputInterpreter, SessionPolicy, StagePolicy):
    """The light half of a plugin: one object per server.

    Only :meth:`capabilities` and :meth:`pipeline` must be written. All methods are called on the
    engine's loop, those of one session one after the other; none may block or read a clock. A
    plugin never encodes audio: the engine does, one stream per response.

    Attributes:
        plugin_id: the descriptor's name; the loader sets it.
        options: what was given for the options the descriptor declares.
    """

    plugin_id: str = ""

    def __init__(self, options: Mapping[str, Json]) -> None:
        self.options = options
