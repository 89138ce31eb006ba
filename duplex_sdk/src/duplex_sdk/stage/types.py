"""What a stage is given and what it gives: plain data, all of it fit to cross a process.

Nothing here is a tensor or an object of a library: samples, bytes, text and small mappings only.
Everything is immutable; a mapping handed to a stage is read-only, whether or not it is a ``dict``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Literal, TypeAlias, TypedDict, TypeVar, Unpack

import msgspec

from duplex_sdk.audio.chunk import PcmChunk

__all__ = [
    "Array",
    "Image",
    "Json",
    "OutputFields",
    "StageError",
    "StageOutput",
    "StagePrompt",
    "StageSession",
    "StageUnit",
    "ToolCall",
    "UnitRequest",
]

# None, bool, int, float, str, bytes, and lists and dicts of these: what msgpack carries. Spelt out
# as a recursive alias it would make authors copy every dict[str, int], because dict is invariant.
Json: TypeAlias = Any

S = TypeVar("S")


class Image(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One camera frame, encoded as ``mime`` says (``image/jpeg``, ``image/png``)."""

    mime: str
    data: bytes


class Array(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Numbers between stages, such as hidden states or codes; ``data`` is C-ordered."""

    data: bytes
    dtype: str
    shape: tuple[int, ...]


class StagePrompt(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The work of one unit.

    Attributes:
        kind: ``audio``: input of a client; ``conversation``: answer ``messages``, no new audio;
            ``discard``: forget the input of the unfinished turn; ``stage``: comes from the stage
            before; ``tick``: the stage itself asked for it with ``StageOutput.again_ms``.
        audio: samples at the model's input rate; None when the unit brings none.
        padding: how many samples at the end of ``audio`` are zeros that a commit added.
        final: the turn's input ends with this unit.
        respond: an answer is wanted; looked at only with ``final``.
        is_speech: a detector's word for the audio; None when none ran.
        force_listen: the client asks the model to listen in this unit.
        images: frames that belong to this unit.
        text: words for the model.
        token_ids: the same as tokens of the stage's model.
        messages: ``{"role", "content"}`` mappings, for a chat model.
        arrays: numbers of the stage before.
        data: the plugin's own.
    """

    kind: Literal["audio", "conversation", "discard", "stage", "tick"] = "audio"
    audio: PcmChunk | None = None
    padding: int = 0
    final: bool = False
    respond: bool = True
    is_speech: bool | None = None
    force_listen: bool = False
    images: tuple[Image, ...] = ()
    text: str | None = None
    token_ids: tuple[int, ...] = ()
    messages: tuple[Mapping[str, Json], ...] = ()
    arrays: Mapping[str, Array] = {}
    data: Mapping[str, Json] = {}


class StageSession(msgspec.Struct, frozen=True, array_like=True):
    """What a stage knows of one session.

    Attributes:
        session_id: names it.
        config: the public session object: voice, instructions, tools, ``extra_body`` and so on.
        runtime: what the plugin's configuration hooks made.
        sampling: this stage's sampling parameters.
        seed: for the model's random numbers; the same run gives the same tokens.
    """

    session_id: str
    config: Mapping[str, Json] = {}
    runtime: Mapping[str, Json] = {}
    sampling: Mapping[str, Json] = {}
    seed: int = 0


class StageError(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A failure and how far it reaches.

    Attributes:
        code: a code of the wire's error table.
        message: one sentence for a person.
        scope: ``event``: one error, nothing ends; ``response``: the answer fails; ``session``: the
            session ends.
    """

    code: str
    message: str
    scope: Literal["event", "response", "session"] = "response"


class ToolCall(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The model calls a tool; ``arguments`` is JSON text; an empty ``call_id`` is filled in."""

    name: str
    arguments: str
    call_id: str = ""


class StageOutput(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One thing a stage produced. Make it with ``StageUnit.output``, which fills the identity.

    Attributes:
        session_id: whose it is.
        request_id: the request of the unit.
        epoch: the epoch of the unit; outputs of older epochs are dropped after a cancel.
        turn_id: the turn of the unit.
        audio: new samples only, at the plugin's output rate.
        text: new text only.
        marks: ``(characters, ms)`` pairs inside this output. None: the text so far ends where the
            audio so far ends. Empty: unaligned.
        user_text: what the model heard: a new piece, or with ``user_text_final`` the whole turn.
        user_text_final: see ``user_text``.
        listen: the model chose to listen in this unit.
        end_of_turn: the model's turn is over.
        tool_call: the model calls a tool.
        error: something failed.
        token_ids: tokens for the next stage.
        segment_end: the last output between two inputs of a resumable request.
        arrays: numbers for the next stage.
        data: the plugin's own.
        again_ms: step this session again, so many ms from now, with a tick. 0: as soon as the
            others had their turn.
    """

    session_id: str
    request_id: str
    epoch: int
    turn_id: int
    audio: PcmChunk | None = None
    text: str | None = None
    marks: tuple[tuple[int, float], ...] | None = None
    user_text: str | None = None
    user_text_final: bool = False
    listen: bool = False
    end_of_turn: bool = False
    tool_call: ToolCall | None = None
    error: StageError | None = None
    token_ids: tuple[int, ...] = ()
    segment_end: bool = False
    arrays: Mapping[str, Array] = {}
    data: Mapping[str, Json] = {}
    again_ms: float | None = None


class OutputFields(TypedDict, total=False):
    """What ``StageUnit.output`` takes: the fields of ``StageOutput`` without its identity."""

    audio: PcmChunk | None
    text: str | None
    marks: tuple[tuple[int, float], ...] | None
    user_text: str | None
    user_text_final: bool
    listen: bool
    end_of_turn: bool
    tool_call: ToolCall | None
    error: StageError | None
    token_ids: tuple[int, ...]
    segment_end: bool
    arrays: Mapping[str, Array]
    data: Mapping[str, Json]
    again_ms: float | None


class UnitRequest(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One unit on its way to a stage: identity and prompt, without the model's state.

    ``seq`` counts the units of a session in a stage; it names a unit when its credit returns.
    """

    session_id: str
    request_id: str
    epoch: int
    turn_id: int
    seq: int
    prompt: StagePrompt


class StageUnit(msgspec.Struct, Generic[S], frozen=True):
    """One unit of one session, as a model sees it.

    Attributes:
        state: what ``StageModel.open`` returned for this session.
        session_id: whose it is.
        request_id: the request it belongs to.
        epoch: rises with each cancel.
        turn_id: counts the turns of a session.
        seq: counts the units of a session in this stage; a tick carries that of the unit before it.
        prompt: the work.
    """

    state: S
    session_id: str
    request_id: str
    epoch: int
    turn_id: int
    seq: int
    prompt: StagePrompt

    def output(self, **fields: Unpack[OutputFields]) -> StageOutput:
        """An output of this unit: the identity is filled in, the fields are those given."""
        return StageOutput(self.session_id, self.request_id, self.epoch, self.turn_id, **fields)

    def failed(
        self, code: str, message: str, scope: Literal["event", "response", "session"] = "response"
    ) -> StageOutput:
        """An output that reports a failure of this unit."""
        return self.output(error=StageError(code, message, scope))
