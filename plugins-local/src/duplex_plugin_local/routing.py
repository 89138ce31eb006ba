"""What one stage of the ``local`` model hands to the next. Runs in the engine, pure."""

from __future__ import annotations

from collections.abc import Sequence

from duplex_sdk.stage import StageInputContext, StageOutput, StagePrompt, sentences

__all__ = ["RECOGNISER", "REPLY", "SPEECH", "next_prompts"]

RECOGNISER = "recogniser"
REPLY = "reply"
SPEECH = "speech"


def next_prompts(output: StageOutput, context: StageInputContext) -> Sequence[StagePrompt]:
    """The next stage's prompts.

    The recogniser asks for a reply only at the end of a turn: partial transcripts are for the
    client. What it heard becomes the last message of the conversation; a turn that brought no
    audio comes with its conversation in ``data``. The reply goes to the voice sentence by sentence.
    """
    if context.stage.id != RECOGNISER:
        return sentences(output, context)
    if not output.end_of_turn:
        return ()
    if output.text is None:
        messages = tuple(output.data.get("messages", ()))
    else:
        messages = (*context.messages, {"role": "user", "content": output.text})
    return (StagePrompt(kind="stage", final=True, text=output.text, messages=messages),)
