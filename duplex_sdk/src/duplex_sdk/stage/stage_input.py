"""Ready-made ways from one stage's outputs to the next stage's prompts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from duplex_sdk.audio.chunk import PcmChunk

from .stage_config import StageConfig
from .types import Json, StageOutput, StagePrompt

__all__ = ["StageInputContext", "pass_on", "sentences", "whole"]


@dataclass(frozen=True, slots=True)
class StageInputContext:
    """What a ``stage_input`` function knows besides the output.

    Attributes:
        stage: the stage that made the output.
        config: the public session object.
        messages: the conversation before this turn.
        memo: what the function remembers between outputs; one per request and stage, gone after a
            cancel.
    """

    stage: StageConfig
    config: Mapping[str, Json] = field(default_factory=dict)
    messages: Sequence[Mapping[str, Json]] = ()
    memo: dict[str, Json] = field(default_factory=dict)


def pass_on(output: StageOutput, context: StageInputContext) -> Sequence[StagePrompt]:
    """Hand on audio, text, tokens, arrays and data as they come; ``final`` at the end of the turn.

    An output that holds none of these and ends nothing makes no prompt.
    """
    has_content = (
        output.audio is not None
        or bool(output.text)
        or bool(output.token_ids)
        or bool(output.arrays)
        or bool(output.data)
    )
    if not has_content and not output.end_of_turn:
        return ()
    prompt = StagePrompt(
        kind="stage",
        audio=output.audio,
        final=output.end_of_turn,
        text=output.text,
        token_ids=output.token_ids,
        arrays=output.arrays,
        data=output.data,
    )
    return (prompt,)


def whole(output: StageOutput, context: StageInputContext) -> Sequence[StagePrompt]:
    """One prompt per turn, at its end: text, tokens, audio joined, the latest arrays and data."""
    pieces: list[StageOutput] = context.memo.setdefault("outputs", [])
    pieces.append(output)
    if not output.end_of_turn:
        return ()
    del context.memo["outputs"]
    arrays = {name: array for piece in pieces for name, array in piece.arrays.items()}
    data = {name: value for piece in pieces for name, value in piece.data.items()}
    prompt = StagePrompt(
        kind="stage",
        audio=PcmChunk.join(piece.audio for piece in pieces),
        final=True,
        text="".join(piece.text for piece in pieces if piece.text) or None,
        token_ids=tuple(token for piece in pieces for token in piece.token_ids),
        arrays=arrays,
        data=data,
    )
    return (prompt,)


# An end is punctuation and what follows it: a space, so that "3.5" stays whole, or anything else
# after a full stop of a script without spaces. So the last sentence waits for more text; a line
# break ends one by itself.
_SENTENCE_END = re.compile(
    r"[.!?…]+[\"')\]»”’]*(?=\s)|[。！？]+[」』”]*(?=[^。！？」』”])|\n"  # noqa: RUF001
)
_ABBREVIATION = re.compile(r"(?:^|\s)(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|e\.g|i\.e|[A-Z])\.$")


def sentences(output: StageOutput, context: StageInputContext) -> Sequence[StagePrompt]:
    """One prompt per finished sentence of the text, the last one of a turn ``final``.

    ``data`` travels with the next prompt made. Audio, tokens and arrays are not handed on.
    """
    text: str = context.memo.get("text", "") + (output.text or "")
    data: dict[str, Json] = {**context.memo.get("data", {}), **output.data}
    cut = _split(text)
    rest = cut.pop()
    if output.end_of_turn:
        cut = [*cut, rest.strip()] if rest.strip() or not cut else cut
        rest = ""
    if cut:
        context.memo.update(text=rest, data={})
    else:
        context.memo.update(text=rest, data=data)
    last = len(cut) - 1
    return tuple(
        StagePrompt(
            kind="stage",
            text=sentence or None,
            final=output.end_of_turn and index == last,
            data=data if index == 0 else {},
        )
        for index, sentence in enumerate(cut)
    )


def _split(text: str) -> list[str]:
    """Finished sentences without surrounding space, then the unfinished rest as it is."""
    parts: list[str] = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        sentence = text[start : match.end()]
        if _ABBREVIATION.search(sentence) and match.group() == ".":
            continue
        if sentence.strip():
            parts.append(sentence.strip())
        start = match.end()
    parts.append(text[start:])
    return parts
