"""What a caller asks without a session."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from duplex_sdk.stage import Image, StagePrompt

from duplex_server.engine.turn_requests import AddRequest

if TYPE_CHECKING:
    from duplex_sdk.audio import PcmChunk
    from duplex_sdk.stage import Json

    from duplex_server.engine.turn_requests import AnswerSink

__all__ = ["Messages", "Question"]

Messages: TypeAlias = "str | Sequence[Mapping[str, Json]]"
_SEEDS = 2**31


@dataclass(frozen=True, slots=True)
class Question:
    """A conversation to be answered.

    Attributes:
        messages: ``{"role", "content"}`` mappings, the last one being what is answered; or one
            text by the user.
        audio: what is answered instead, the user's spoken turn, at the model's input rate;
            ``messages`` is then what was said before it, perhaps nothing.
        goes_on: the spoken turn is not over; the rest of it comes as it is spoken.
        images: encoded frames that belong to it.
        config: how to answer, in the words of a public session object: ``instructions``,
            ``output_modalities``, ``voice`` and so on.
        runtime: what the model's plugin made of it.
        sampling: one mapping per stage; empty: what the stages have.
        seed: for the model's random numbers; None: another one each time.
    """

    messages: Messages = ()
    audio: PcmChunk | None = None
    goes_on: bool = False
    images: tuple[Image, ...] = ()
    config: Mapping[str, Json] = field(default_factory=dict)
    runtime: Mapping[str, Json] = field(default_factory=dict)
    sampling: tuple[Mapping[str, Json], ...] = ()
    seed: int | None = None

    def __post_init__(self) -> None:
        """Refuse an empty conversation.

        Raises:
            ValueError: there is neither a message nor sound.
        """
        if not self.messages and self.audio is None:
            raise ValueError("nothing is asked")

    def request(self, sink: AnswerSink) -> AddRequest:
        """The engine's request for it, under a fresh id."""
        said = self.messages
        messages = ({"role": "user", "content": said},) if isinstance(said, str) else tuple(said)
        return AddRequest(
            f"turn-{secrets.token_hex(16)}",
            StagePrompt(
                kind="conversation" if self.audio is None else "audio",
                audio=self.audio,
                messages=messages,
                images=self.images,
                final=not self.goes_on,
            ),
            sink,
            config=self.config,
            runtime=self.runtime,
            sampling=self.sampling,
            seed=secrets.randbelow(_SEEDS) if self.seed is None else self.seed,
        )
