from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from duplex_sdk.audio.chunk import PcmChunk
from duplex_sdk.stage import Array, StageOutput, ToolCall

RATE = 8000


def silence(count: int, rate: int = RATE) -> PcmChunk:
    return PcmChunk(bytes(count * 4), rate)


def only_output(rig: Any, make: Callable[[Any], Any]) -> StageOutput:
    rig.model.on_unit = lambda unit, now: make(unit)
    rig.open("a")
    rig.unit("a")
    (output,) = rig.run()
    return output


class TestFailures:
    def test_an_exception_fails_the_unit_behind_what_it_said(self, rig: Any) -> None:
        def speak_then_break(unit: Any, now: float) -> Any:
            yield unit.output(text="so far")
            raise RuntimeError("no more")

        rig.model.on_unit = speak_then_break
        rig.open("a")
        seq = rig.unit("a")
        result = rig.step()
        said, failed = result.outputs
        assert said.text == "so far"
        assert (failed.error.code, failed.error.scope) == ("runtime_append_failed", "response")
        assert failed.error.message == "RuntimeError: no more"
        assert result.failed == []
        assert [each for _, _, each in result.taken] == [seq]

    def test_the_session_goes_on_after_a_failed_unit(self, rig: Any) -> None:
        rig.model.on_unit = lambda unit, now: 1 / 0
        rig.open("a")
        rig.unit("a")
        rig.step()
        rig.model.on_unit = lambda unit, now: [unit.output(text="fine")]
        rig.unit("a")
        assert [output.text for output in rig.run()] == ["fine"]

    def test_system_exit_counts_as_an_exception(self, rig: Any) -> None:
        def leave(unit: Any) -> Any:
            raise SystemExit(2)

        assert only_output(rig, leave).error is not None

    def test_a_failed_unit_leaves_its_neighbours_alone(self, rig: Any) -> None:
        rig.model.on_unit = lambda unit, now: (
            1 / 0 if unit.session_id == "a" else [unit.output(text="b")]
        )
        rig.open("a", "b")
        rig.unit("a")
        rig.unit("b")
        by_session = {output.session_id: output for output in rig.run()}
        assert by_session["a"].error is not None
        assert by_session["b"].text == "b"

    def test_an_exception_out_of_a_batch_ends_all_its_sessions(
        self, batch_rig: Callable[..., Any]
    ) -> None:
        rig = batch_rig()

        def speak_then_break(units: Any, now: float) -> Any:
            yield units[0].output(text="lost")
            raise RuntimeError("corrupt")

        rig.model.on_batch = speak_then_break
        rig.open("a", "b", "c")
        seqs = [rig.unit("a"), rig.unit("b")]
        result = rig.step()
        assert sorted(who for who, _ in result.failed) == ["a", "b"]
        assert {error.scope for _, error in result.failed} == {"session"}
        assert result.outputs == []
        assert sorted(seq for _, _, seq in result.taken) == seqs
        rig.host.close("a")
        assert rig.model.names().count("close") == 1

    @pytest.mark.parametrize("produced", [None, "text", 7, {"a": 1}])
    def test_something_that_is_no_list_of_outputs_fails_the_unit(
        self, rig: Any, produced: object
    ) -> None:
        error = only_output(rig, lambda unit: produced).error
        assert error is not None
        assert error.scope == "response"

    def test_none_out_of_a_batch_fails_each_unit_but_no_session(
        self, batch_rig: Callable[..., Any]
    ) -> None:
        rig = batch_rig()
        rig.model.on_batch = lambda units, now: None
        rig.open("a", "b")
        rig.unit("a")
        rig.unit("b")
        result = rig.step()
        assert [output.error.scope for output in result.outputs] == ["response", "response"]
        assert result.failed == []

    def test_an_output_itself_instead_of_a_list_fails_the_unit(self, rig: Any) -> None:
        assert only_output(rig, lambda unit: unit.output(text="x")).error is not None

    def test_an_output_of_nobody_in_the_batch_fails_each_unit_once(
        self, batch_rig: Callable[..., Any]
    ) -> None:
        rig = batch_rig()
        rig.model.on_batch = lambda units, now: [
            msgspec.structs.replace(units[0].output(text="whose?"), session_id="stranger"),
            object(),
        ]
        rig.open("a", "b")
        rig.unit("a")
        rig.unit("b")
        outputs = rig.run()
        assert sorted(output.session_id for output in outputs) == ["a", "b"]
        assert all(output.error is not None for output in outputs)

    def test_a_bad_output_of_one_session_fails_only_that_one(
        self, batch_rig: Callable[..., Any]
    ) -> None:
        rig = batch_rig()
        rig.model.on_batch = lambda units, now: [
            units[0].output(audio=silence(10, 16000)),
            units[1].output(text="fine"),
        ]
        rig.open("a", "b")
        rig.unit("a")
        rig.unit("b")
        by_session = {output.session_id: output for output in rig.run()}
        assert by_session["a"].error is not None
        assert by_session["b"].text == "fine"

    def test_a_failure_the_model_reports_passes_as_it_is(self, rig: Any) -> None:
        output = only_output(rig, lambda unit: [unit.failed("busy", "later", "event")])
        assert (output.error.code, output.error.scope) == ("busy", "event")


class TestIdentity:
    @pytest.mark.parametrize(
        "change",
        [
            {"session_id": "b"},
            {"request_id": "other"},
            {"epoch": 1},
            {"turn_id": 2},
            {"epoch": "0"},
            {"session_id": 5},
        ],
    )
    def test_a_foreign_identity_is_refused(self, rig: Any, change: dict[str, Any]) -> None:
        output = only_output(
            rig, lambda unit: [msgspec.structs.replace(unit.output(text="x"), **change)]
        )
        assert output.error is not None
        assert output.session_id == "a"

    def test_an_older_turn_of_the_same_session_may_speak(self, rig: Any) -> None:
        units: list[Any] = []
        rig.model.on_unit = lambda unit, now: units.append(unit) or []
        rig.open("a")
        rig.unit("a", turn_id=1)
        rig.step()
        rig.model.on_unit = lambda unit, now: [units[0].output(text="late")]
        rig.unit("a", turn_id=2)
        (output,) = rig.run()
        assert (output.text, output.turn_id) == ("late", 1)

    def test_another_request_of_the_same_session_may_be_answered(self, rig: Any) -> None:
        units: list[Any] = []
        rig.model.on_unit = lambda unit, now: units.append(unit) or []
        rig.open("a")
        rig.unit("a", request_id="first")
        rig.step()
        rig.model.on_unit = lambda unit, now: [units[0].output(text="x"), unit.output(text="y")]
        rig.unit("a", request_id="second")
        assert [(each.request_id, each.text) for each in rig.run()] == [
            ("first", "x"),
            ("second", "y"),
        ]


class TestFields:
    @pytest.mark.parametrize(
        "fields",
        [
            {"text": b"bytes"},
            {"user_text": 5},
            {"audio": b"\0\0\0\0"},
            {"audio": PcmChunk(b"\0\0\0", RATE)},
            {"audio": PcmChunk(bytes(4), 16000)},
            {"audio": PcmChunk(bytes(4), "8000")},  # type: ignore[arg-type]
            {"audio": PcmChunk(memoryview(bytes(4)), RATE)},  # type: ignore[arg-type]
            {"marks": ((1, 2, 3),)},
            {"marks": ((1, -5.0),)},
            {"marks": ("ab",)},
            {"marks": {"a": 1}},
            {"error": "broken"},
            {"tool_call": {"name": "x"}},
            {"token_ids": 5},
            {"data": None},
            {"arrays": {"h": np.zeros(3)}},
            {"arrays": [1]},
            {"again_ms": -1},
            {"again_ms": float("nan")},
            {"again_ms": True},
            {"again_ms": "10"},
        ],
    )
    def test_a_wrong_value_fails_the_unit(self, rig: Any, fields: dict[str, Any]) -> None:
        output = only_output(rig, lambda unit: [unit.output(**fields)])
        assert output.error is not None
        assert output.error.code == "runtime_append_failed"

    def test_right_values_pass_untouched(self, rig: Any) -> None:
        fields = {
            "audio": silence(80),
            "text": "hello",
            "marks": ((5, 10.0),),
            "user_text": "hi",
            "tool_call": ToolCall("f", "{}"),
            "token_ids": (1, 2),
            "arrays": {"h": Array(bytes(8), "float32", (2,))},
            "data": {"k": [1]},
        }
        output = only_output(rig, lambda unit: [unit.output(**fields)])
        assert {name: getattr(output, name) for name in fields} == fields

    def test_samples_that_are_no_numbers_become_zero_and_are_counted(self, rig: Any) -> None:
        bad = np.array([0.5, np.nan, np.inf, -np.inf, -0.5], dtype=np.float32)
        rig.model.on_unit = lambda unit, now: [unit.output(audio=PcmChunk.of(bad, RATE))]
        rig.open("a")
        rig.unit("a")
        result = rig.step()
        (output,) = result.outputs
        assert output.audio is not None
        assert output.audio.numpy().tolist() == [0.5, 0.0, 0.0, 0.0, -0.5]
        assert result.report is not None
        assert result.report.nan_samples == 3
        rig.model.on_unit = lambda unit, now: []
        rig.unit("a")
        assert rig.step().report.nan_samples == 0

    @pytest.mark.parametrize(
        ("bits", "count"),
        [
            (0x7F800000, 1),
            (0xFF800000, 1),
            (0x7F800001, 1),
            (0xFFFFFFFF, 1),
            (0x7F7FFFFF, 0),
            (0xFF000000, 0),
            (0x3F80FF7F, 0),
            (0x80000000, 0),
        ],
    )
    def test_every_pattern_that_is_no_number_is_found_and_no_number_is_touched(
        self, rig: Any, bits: int, count: int
    ) -> None:
        data = np.array([0, bits, 0], dtype="<u4").tobytes()
        rig.model.on_unit = lambda unit, now: [unit.output(audio=PcmChunk(data, RATE))]
        rig.open("a")
        rig.unit("a")
        result = rig.step()
        assert result.report.nan_samples == count
        assert result.outputs[0].audio.data == (bytes(12) if count else data)


class TestLongAudio:
    def cut(self, rig: Any, count: int, **fields: Any) -> list[StageOutput]:
        samples = np.arange(count, dtype=np.float32) / count
        rig.model.on_unit = lambda unit, now: (
            [unit.output(audio=PcmChunk.of(samples, RATE), **fields)]
            if unit.prompt.kind == "audio"
            else []
        )
        rig.open("a")
        rig.unit("a")
        outputs = rig.run()
        joined = b"".join(output.audio.data for output in outputs if output.audio)
        assert joined == samples.tobytes()
        return outputs

    def test_one_second_stays_whole(self, rig: Any) -> None:
        assert len(self.cut(rig, RATE)) == 1

    def test_more_is_cut_into_pieces_of_at_most_a_second(self, rig: Any) -> None:
        outputs = self.cut(rig, 2 * RATE + 1)
        assert [output.audio.count for output in outputs if output.audio] == [RATE, RATE, 1]

    def test_text_goes_with_the_first_piece_and_the_end_with_the_last(self, rig: Any) -> None:
        outputs = self.cut(
            rig, 2 * RATE + 1, text="hello", end_of_turn=True, again_ms=5, data={"k": 1}
        )
        assert [output.text for output in outputs] == ["hello", None, None]
        assert [output.end_of_turn for output in outputs] == [False, False, True]
        assert [output.again_ms for output in outputs] == [None, None, 5]
        assert [output.data for output in outputs] == [{"k": 1}, {}, {}]

    def test_text_without_marks_still_ends_with_the_whole_audio(self, rig: Any) -> None:
        outputs = self.cut(rig, 2 * RATE, text="hello")
        assert outputs[0].marks == ((5, 2000.0),)
        assert outputs[1].marks == ()

    def test_marks_that_were_given_stay(self, rig: Any) -> None:
        outputs = self.cut(rig, 2 * RATE, text="hello", marks=((5, 1500.0),))
        assert outputs[0].marks == ((5, 1500.0),)
