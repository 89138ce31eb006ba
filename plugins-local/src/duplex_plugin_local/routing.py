"""What one stage of the ``local`` model hands to the next. Runs in the engine, pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from duplex_sdk.stage import Json, StageInputContext, StageOutput, StagePrompt, sentences

from .chat_messages import chat_messages, spoken_instructions
from .conversation import text_of

__all__ = [
    "RECOGNISER",
    "REHEARSE",
    "REPLY",
    "SPEECH",
    "next_prompts",
    "next_prompts_by_chat",
    "wants_text_only",
]

RECOGNISER = "recogniser"
REPLY = "reply"
SPEECH = "speech"
# In the data of what is worked out ahead and never shown: the turn may not be over.
REHEARSE = "rehearse"


def next_prompts(output: StageOutput, context: StageInputContext) -> Sequence[StagePrompt]:
    """The next stage's prompts.

    The recogniser asks for a reply only at the end of a turn: partial transcripts are for the
    client. What it heard becomes the last message of the conversation; a turn that brought no
    audio comes with its conversation in ``data``. The reply goes to the voice sentence by sentence,
    of a rehearsed one only the first.
    """
    if context.stage.id == RECOGNISER:
        return _to_reply(output, context)
    if REHEARSE in output.data:
        return _first_sentence(output, context)
    return sentences(output, context)


def next_prompts_by_chat(output: StageOutput, context: StageInputContext) -> Sequence[StagePrompt]:
    """The same where a language model is the reply stage itself.

    It is given the whole conversation with the instructions, and asked once: what might be the end
    of a turn is not worth an answer of its.
    """
    prompts = next_prompts(output, context)
    if context.stage.id != RECOGNISER:
        return prompts
    instructions = spoken_instructions(context.config)
    return tuple(
        msgspec.structs.replace(
            prompt, text=None, messages=tuple(chat_messages(instructions, prompt.messages))
        )
        for prompt in prompts
        if REHEARSE not in prompt.data
    )


def wants_text_only(config: Mapping[str, Json]) -> bool:
    """Whether a session asks for answers without audio."""
    modalities = config.get("output_modalities")
    return modalities is not None and "audio" not in modalities


def _to_reply(output: StageOutput, context: StageInputContext) -> Sequence[StagePrompt]:
    if output.text is None and not output.end_of_turn:
        return ()
    if output.text is None:
        messages = tuple(output.data.get("messages", ()))
    else:
        messages = _with_turn(context.messages, output.text)
    return (
        StagePrompt(
            kind="stage",
            final=output.end_of_turn,
            text=output.text,
            messages=messages,
            data={REHEARSE: True} if REHEARSE in output.data else {},
        ),
    )


def _with_turn(
    conversation: Sequence[Mapping[str, Json]], text: str
) -> tuple[Mapping[str, Json], ...]:
    """The conversation, ending with this turn exactly once.

    The committed turn may stand in it already, with or without its transcript.
    """
    last = conversation[-1] if conversation else {}
    there = last.get("role") == "user" and text_of(last) in ("", text)
    earlier = conversation[:-1] if there else conversation
    return (*earlier, {"role": "user", "content": text})


def _first_sentence(output: StageOutput, context: StageInputContext) -> Sequence[StagePrompt]:
    if wants_text_only(context.config):
        return ()
    # Cut as the whole reply will be, without leaving a trace in what is remembered of this turn.
    alone = StageInputContext(context.stage, context.config)
    first = sentences(msgspec.structs.replace(output, end_of_turn=True), alone)[0]
    return (msgspec.structs.replace(first, final=False),)
