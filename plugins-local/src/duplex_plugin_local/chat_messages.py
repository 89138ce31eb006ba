"""The conversation as a language model is given it, whoever serves that model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from duplex_sdk.stage import Json

from .conversation import text_of

__all__ = ["chat_messages", "spoken_instructions"]

_STYLE = "Your answer is spoken aloud: a few short sentences, no lists, no markup."
_NOT_UNDERSTOOD = "(I said something that was not understood.)"


def spoken_instructions(config: Mapping[str, Json]) -> str:
    """The session's instructions, and that the answer will be heard."""
    given = config.get("instructions")
    return f"{given}\n{_STYLE}" if given else f"You are a friendly voice assistant. {_STYLE}"


def chat_messages(
    instructions: str, conversation: Sequence[Mapping[str, Json]]
) -> list[dict[str, str]]:
    """The conversation in the plain form that every model takes, instructions first.

    It ends with words to be answered: a last turn of which nothing was recognised says so.
    """
    messages = [{"role": "system", "content": instructions}]
    for message in conversation:
        role, text = str(message.get("role")), text_of(message)
        if not text and message is conversation[-1] and role == "user":
            text = _NOT_UNDERSTOOD
        if text and role in ("system", "user", "assistant"):
            messages.append({"role": role, "content": text})
    return messages
