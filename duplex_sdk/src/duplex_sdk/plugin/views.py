"""What the engine shows a plugin of a session: read-only, a snapshot of the moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from duplex_sdk.stage import Json, StageConfig

    from .fence import DuplexFence

__all__ = ["OutputContext", "SessionView"]


class SessionView(msgspec.Struct, frozen=True, kw_only=True):
    """One session as its plugin sees it.

    Attributes:
        session_id: names it.
        config: the public session object.
        runtime: what the plugin's config hooks made.
        conversation: ``{"role", "content"}`` mappings, without the turn under way.
    """

    session_id: str
    config: Mapping[str, Json] = {}
    runtime: Mapping[str, Json] = {}
    conversation: Sequence[Mapping[str, Json]] = ()


class OutputContext(msgspec.Struct, frozen=True, kw_only=True):
    """Where a stage output stands.

    Attributes:
        stage: the stage that made it.
        stage_id: its position, from 0.
        is_last: no stage follows.
        fence: the session's fence now.
        session: the session now.
        response_id: the response that is open, None: none.
        auto_responds: the session answers unasked.
    """

    stage: StageConfig
    stage_id: int
    is_last: bool
    fence: DuplexFence
    session: SessionView
    response_id: str | None = None
    auto_responds: bool = False
