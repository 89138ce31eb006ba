"""The three stages for requests that need no session."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from duplex_plugin_local import plugin
from duplex_plugin_local.model import INPUT_RATE
from duplex_plugin_local.speech import say
from duplex_sdk.audio import PcmChunk, resample
from duplex_server.entrypoints import AnswerPiece, Omni, Question, TurnModel


@pytest.fixture(scope="module")
def omni():
    with TurnModel.load(plugin).omni() as running:
        yield running


def spoken(text: str) -> PcmChunk:
    return resample(PcmChunk.of(*say(text)), INPUT_RATE)


def words_of(pieces: list[AnswerPiece]) -> str:
    return "".join(piece.text for piece in pieces)


def test_a_written_question_is_answered_aloud(omni: Omni) -> None:
    pieces = list(omni.generate("What is two plus three?"))
    assert words_of(pieces) == "2 plus 3 is 5."
    assert sum(piece.audio.duration_ms for piece in pieces if piece.audio is not None) > 300


def test_who_wants_words_alone_gets_them_without_the_voice(omni: Omni) -> None:
    question = Question("What is two plus three?", config={"output_modalities": ["text"]})
    pieces = list(omni.generate(question))
    aloud = words_of(list(omni.generate("What is two plus three?")))
    assert words_of(pieces) == aloud
    assert all(piece.audio is None for piece in pieces)


def test_the_conversation_before_is_known(omni: Omni) -> None:
    said = (
        {"role": "user", "content": "What is two plus three?"},
        {"role": "assistant", "content": "Two plus three is five."},
        {"role": "user", "content": "Can you repeat that?"},
    )
    assert "five" in words_of(list(omni.generate(Question(said)))).lower()


def test_a_spoken_question_is_heard_and_answered_in_its_conversation(omni: Omni) -> None:
    aloud = spoken("What is two plus three?")
    pieces = list(omni.generate(Question(audio=aloud)))
    assert words_of(pieces) == "2 plus 3 is 5."
    said = (
        {"role": "user", "content": "What is two plus three?"},
        {"role": "assistant", "content": "2 plus 3 is 5."},
    )
    again = spoken("Can you repeat that?")
    assert "5" in words_of(list(omni.generate(Question(said, again))))


async def test_a_question_is_heard_while_it_is_asked() -> None:
    whole = spoken("What is two plus three?")
    unit = INPUT_RATE // 5 * 4

    async def rest() -> AsyncIterator[PcmChunk]:
        for start in range(unit, len(whole.data), unit):
            yield PcmChunk(whole.data[start : start + unit], INPUT_RATE)

    question = Question(audio=PcmChunk(whole.data[:unit], INPUT_RATE), goes_on=True)
    async with TurnModel.load(plugin).async_omni() as omni:
        pieces = [piece async for piece in omni.generate(question, rest())]
    assert words_of(pieces) == "2 plus 3 is 5."
