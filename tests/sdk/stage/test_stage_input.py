from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest
from duplex_sdk.audio.chunk import PcmChunk
from duplex_sdk.stage import (
    Array,
    PipelineConfig,
    StageConfig,
    StageInputContext,
    StageOutput,
    StagePrompt,
    UnitRequest,
    pass_on,
    sentences,
    whole,
)
from hypothesis import given
from hypothesis import strategies as st
from patience import PATIENCE_S

STAGE = StageConfig("words", model="m:C")


def context() -> StageInputContext:
    return StageInputContext(STAGE)


def output(**fields: object) -> StageOutput:
    return StageOutput("s", "r", 0, 1, **fields)  # type: ignore[arg-type]


class TestPassOn:
    def test_it_hands_on_everything_a_stage_may_need(self) -> None:
        audio = PcmChunk(bytes(8), 8000)
        arrays = {"h": Array(bytes(4), "float32", (1,))}
        given_out = output(
            audio=audio, text="t", token_ids=(1,), arrays=arrays, data={"k": 1}, end_of_turn=True
        )
        (prompt,) = pass_on(given_out, context())
        assert prompt == StagePrompt(
            kind="stage",
            audio=audio,
            text="t",
            token_ids=(1,),
            arrays=arrays,
            data={"k": 1},
            final=True,
        )

    def test_an_output_with_nothing_to_hand_on_makes_no_prompt(self) -> None:
        assert not pass_on(output(user_text="heard", again_ms=5, listen=True), context())

    def test_the_bare_end_of_a_turn_is_handed_on(self) -> None:
        (prompt,) = pass_on(output(end_of_turn=True), context())
        assert prompt.final


class TestWhole:
    def test_it_waits_for_the_end_of_the_turn(self) -> None:
        where = context()
        assert not whole(output(text="one ", audio=PcmChunk(bytes(4), 8000)), where)
        assert not whole(output(text="two", token_ids=(1,), data={"a": 1}), where)
        (prompt,) = whole(
            output(audio=PcmChunk(bytes(8), 8000), token_ids=(2,), data={"a": 2}, end_of_turn=True),
            where,
        )
        assert prompt.text == "one two"
        assert prompt.token_ids == (1, 2)
        assert prompt.data == {"a": 2}
        assert prompt.audio == PcmChunk(bytes(12), 8000)
        assert prompt.final
        assert where.memo == {}

    def test_turns_do_not_mix(self) -> None:
        where = context()
        whole(output(text="first", end_of_turn=True), where)
        (prompt,) = whole(output(text="second", end_of_turn=True), where)
        assert prompt.text == "second"


class TestSentences:
    def feed(self, *pieces: str) -> list[tuple[str | None, bool]]:
        where = context()
        prompts: list[StagePrompt] = []
        for piece in pieces[:-1]:
            prompts.extend(sentences(output(text=piece), where))
        prompts.extend(sentences(output(text=pieces[-1], end_of_turn=True), where))
        return [(prompt.text, prompt.final) for prompt in prompts]

    def test_a_sentence_leaves_when_the_next_one_begins(self) -> None:
        where = context()
        assert not sentences(output(text="Hello the"), where)
        assert not sentences(output(text="re."), where)
        (prompt,) = sentences(output(text=" How"), where)
        assert (prompt.text, prompt.final) == ("Hello there.", False)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("One. Two! Three", ["One.", "Two!", "Three"]),
            ("It costs 3.50 today. Fine", ["It costs 3.50 today.", "Fine"]),
            ("Dr. Smith met Mr. Jones. They left", ["Dr. Smith met Mr. Jones.", "They left"]),
            ('He said "no." Then left', ['He said "no."', "Then left"]),
            ("你好。再见", ["你好。", "再见"]),
            ("Line\nNext", ["Line", "Next"]),
        ],
    )
    def test_where_sentences_end(self, text: str, expected: list[str]) -> None:
        said = self.feed(text)
        assert [sentence for sentence, _ in said] == expected
        assert [final for _, final in said] == [False] * (len(expected) - 1) + [True]

    def test_the_end_of_a_turn_without_a_rest_is_still_said(self) -> None:
        assert self.feed("Done. ", "") == [("Done.", False), (None, True)]

    def test_a_turn_without_text_ends_with_a_bare_final(self) -> None:
        assert self.feed("") == [(None, True)]

    def test_data_travels_with_the_next_prompt(self) -> None:
        where = context()
        assert not sentences(output(data={"mood": "gay"}), where)
        prompts = sentences(output(text="One. Two. ", end_of_turn=True), where)
        assert [prompt.data for prompt in prompts] == [{"mood": "gay"}, {}]

    @given(st.lists(st.text(alphabet="ab .!?\n。", max_size=12), min_size=1, max_size=8))
    def test_nothing_is_lost_and_the_cut_does_not_depend_on_the_pieces(
        self, pieces: list[str]
    ) -> None:
        said = self.feed(*pieces)
        letters = [c for text, _ in said for c in (text or "") if not c.isspace()]
        assert letters == [c for c in "".join(pieces) if not c.isspace()]
        assert [final for _, final in said].count(True) == 1
        whole_text = self.feed("".join(pieces))
        assert [text for text, _ in said if text] == [text for text, _ in whole_text if text]


class TestPipelines:
    @pytest.mark.parametrize(
        "change",
        [
            {"id": ""},
            {"backends": ()},
            {"model": None},
            {"max_batch": 0},
            {"replicas": 0},
            {"gather_ms": -1.0},
            {"period_ms": 0},
        ],
    )
    def test_a_stage_nobody_could_run_is_refused(self, change: dict[str, object]) -> None:
        fields: dict[str, object] = {"id": "x", "model": "m:C", **change}
        with pytest.raises(ValueError, match=r"stage"):
            StageConfig(**fields)  # type: ignore[arg-type]

    def test_a_vllm_stage_needs_no_model(self) -> None:
        assert StageConfig("llm", backends=("vllm",)).model is None

    def test_stage_ids_are_unique_and_there_is_one(self) -> None:
        with pytest.raises(ValueError, match="unique"):
            PipelineConfig((STAGE, STAGE))
        with pytest.raises(ValueError, match="at least one"):
            PipelineConfig(())


class TestCrossing:
    def test_units_and_outputs_survive_the_trip_to_another_process(self) -> None:
        prompt = StagePrompt(
            audio=PcmChunk(bytes(8), 16000), messages=({"role": "user", "content": "x"},)
        )
        unit = UnitRequest("s", "r", 0, 1, 7, prompt)
        packed = msgspec.msgpack.encode(unit)
        assert msgspec.msgpack.decode(packed, type=UnitRequest) == unit
        made = output(
            audio=PcmChunk(bytes(8), 24000),
            marks=((3, 10.5),),
            arrays={"h": Array(bytes(4), "float32", (1,))},
            data={"k": b"bytes"},
        )
        packed = msgspec.msgpack.encode(made)
        assert msgspec.msgpack.decode(packed, type=StageOutput) == made

    @pytest.mark.parametrize("module", ["duplex_sdk.stage", "duplex_sdk.stage.worker"])
    def test_the_contract_is_light_to_import(self, module: str) -> None:
        code = (
            f"import sys, {module}\n"
            "heavy = {'numpy', 'asyncio', 'duplex_sdk.plugin', 'duplex_sdk.session'}\n"
            "print(sorted(heavy & set(sys.modules)))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.stdout.strip(), done.stderr) == ("[]", "")
