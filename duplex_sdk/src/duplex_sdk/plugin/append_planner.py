"""How a unit of input becomes the prompt of stage 0."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from duplex_sdk.stage import StagePrompt

if TYPE_CHECKING:
    from duplex_sdk.stage import Json

    from .buffer import AppendPiece
    from .fence import DuplexFence
    from .views import SessionView

__all__ = ["AppendPlanner", "AppendRequest", "DuplexAppendPlan"]


class AppendRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One unit to be planned.

    Attributes:
        fence: what it is bound to.
        request_id: the stage request it extends or opens.
        seq: number of the append in its epoch, from 1.
        turn_seq: number in its turn, from 1.
        unit: the input.
        session: the session now.
        sampling: one mapping per stage.
    """

    fence: DuplexFence
    request_id: str
    seq: int
    turn_seq: int
    unit: AppendPiece
    session: SessionView
    sampling: tuple[Mapping[str, Json], ...] = ()


class DuplexAppendPlan(msgspec.Struct, frozen=True):
    """What stage 0 is to do with a unit."""

    prompt: StagePrompt


class AppendPlanner(ABC):  # noqa: B024 -- a role of which every part has a default
    """Input side of a plugin. Everything has a default.

    Attributes:
        early_input: in turn mode too, units go to the stage as they fill, before the commit.
        silence_continuation_samples: length of the silent units that let a speaking model go on.
            None: one unit for a model-native plugin, else 0, which means none.
    """

    early_input: bool = False
    silence_continuation_samples: int | None = None

    def plan_append(self, request: AppendRequest) -> DuplexAppendPlan:
        """Make a prompt of a unit. An exception fails that append.

        By default the prompt is the unit as it is; one of kind ``conversation`` also gets the
        conversation as messages.
        """
        unit = request.unit
        messages = request.session.conversation if unit.kind == "conversation" else ()
        prompt = StagePrompt(
            kind=unit.kind,
            audio=unit.audio,
            padding=unit.padding,
            final=unit.final,
            respond=unit.respond,
            is_speech=unit.is_speech,
            force_listen=unit.force_listen,
            images=unit.images,
            messages=tuple(messages),
        )
        return DuplexAppendPlan(prompt)

    async def prepare_append_plan(self, request: AppendRequest) -> DuplexAppendPlan:
        """Like :meth:`plan_append`, and may wait for work done elsewhere on owned data."""
        return self.plan_append(request)
