"""Commands that meet work under way: nothing is lost, doubled or left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from duplex_sdk.plugin import DuplexDataPlane
from duplex_sdk.protocol.duplex import (
    AppendAudio,
    BargeIn,
    CancelInput,
    CancelResponse,
    ClearInput,
    ClearOutputAudio,
    CloseSession,
    Commit,
    CreateItem,
    CreateResponse,
    Heartbeat,
    UpdateSession,
)
from duplex_sdk.session import effects, inputs
from duplex_sdk.testing.session_lab import SessionLab, tone

NO = inputs.Fault("runtime_append_failed", "no")
ITEM = {"role": "user", "content": [{"type": "input_text", "text": "hello"}]}


def of(lab: SessionLab, wire_type: str) -> list[dict[str, Any]]:
    return [r for r in (e.to_realtime() for e in lab.events) if r["type"] == wire_type]


def codes(lab: SessionLab) -> list[str]:
    return [e["error"]["code"] for e in of(lab, "error")]


def statuses(lab: SessionLab) -> list[str]:
    return [d["response"]["status"] for d in of(lab, "response.done")]


def texts(lab: SessionLab) -> list[str]:
    return [r["transcript"] for r in of(lab, "response.output_audio_transcript.done")]


class Gate:
    """Keeps effects of one kind back until it is opened."""

    def __init__(self, lab: SessionLab, kind: type[Any]) -> None:
        self._lab, self._kind = lab, kind
        self._kept: list[Any] = []
        lab.faults[kind] = self._keep

    def _keep(self, effect: Any) -> None:
        self._kept.append(effect)

    def open(self) -> None:
        del self._lab.faults[self._kind]
        for effect in self._kept:
            self._lab.carry_out(effect)

    def fail(self, outcome: Callable[[Any], inputs.Input]) -> None:
        del self._lab.faults[self._kind]
        for effect in self._kept:
            self._lab.feed(outcome(effect))


def heard(make_lab: Any) -> SessionLab:
    lab: SessionLab = make_lab(script={"turns": "commit", "answers": [{"heard": True}]})
    return lab


# clear


def test_audio_behind_a_clear_that_waits_is_not_cleared(make_lab: Any) -> None:
    lab = heard(make_lab)
    gate = Gate(lab, effects.DecodeAudio)
    lab.send(
        AppendAudio(audio=tone(400)),
        Commit(),
        AppendAudio(audio=tone(200)),
        ClearInput(),
        AppendAudio(audio=tone(300)),
    )
    gate.open()
    lab.send(Commit(response_create=True))
    lab.run(2600)
    assert texts(lab)[0].startswith("heard 300 ms")


def test_clear_drops_audio_that_is_still_being_decoded(make_lab: Any) -> None:
    lab = heard(make_lab)
    gate = Gate(lab, effects.DecodeAudio)
    lab.send(AppendAudio(audio=tone(400)), AppendAudio(audio=tone(400)), ClearInput())
    gate.open()
    assert lab.session.input_bytes == 0
    lab.send(Commit(event_id="c"))
    assert codes(lab) == ["input_audio_buffer_commit_empty"]


# cancel


def test_cancel_takes_the_answer_of_a_commit_that_waits_behind_the_response(
    make_lab: Any,
) -> None:
    lab = heard(make_lab)
    lab.speak(500)
    lab.send(Commit(response_create=True))
    lab.run(500)
    gate = Gate(lab, effects.DecodeAudio)
    lab.send(AppendAudio(audio=tone(900)), Commit(response_create=True), CancelResponse())
    gate.open()
    lab.run(3000)
    assert statuses(lab) == ["cancelled"]
    assert len(of(lab, "input_audio_buffer.committed")) == 2


def test_cancel_then_create_behind_a_hung_decode_is_a_new_answer(make_lab: Any) -> None:
    lab = heard(make_lab)
    gate = Gate(lab, effects.DecodeAudio)
    lab.send(
        AppendAudio(audio=tone(900)),
        Commit(response_create=True),
        CancelResponse(),
        CreateResponse(),
    )
    assert statuses(lab) == ["cancelled"]
    gate.open()
    lab.run(2600)
    assert statuses(lab) == ["cancelled", "completed"]
    assert texts(lab)[0].startswith("heard 900 ms")


def test_clear_of_output_ends_an_answer_that_is_still_being_prepared(make_lab: Any) -> None:
    lab = heard(make_lab)
    gate = Gate(lab, effects.DecodeAudio)
    lab.send(AppendAudio(audio=tone(900)), Commit(response_create=True), ClearOutputAudio())
    done = of(lab, "response.done")[0]
    assert done["response"]["status_details"]["reason"] == "output_audio_buffer_clear"
    assert of(lab, "output_audio_buffer.cleared")[0]["response_id"] == done["response_id"]
    gate.open()
    lab.run(2600)
    assert statuses(lab) == ["cancelled"]
    lab.send(CreateResponse())
    lab.run(2600)
    assert texts(lab)[0].startswith("heard 900 ms")


def test_clear_of_output_removes_what_waits_for_a_client_that_never_acks(make_lab: Any) -> None:
    answer = {"ms": 5000, "delay_ms": 0}
    lab = make_lab(script={"turns": "commit", "pace": "burst", "answers": [answer]})
    lab.reading = False
    lab.speak(500)
    lab.send(Commit(response_create=True))
    lab.run(100)
    lab.send(ClearOutputAudio(), ClearOutputAudio())
    lab.reading = True
    lab.read_all()
    assert of(lab, "response.output_audio.delta") == []
    assert statuses(lab) == ["completed"]
    assert len(of(lab, "output_audio_buffer.cleared")) == 2
    assert lab.session.epoch == 1
    assert lab.session.public_session["playback"]["sent_ms"] == 0


def test_abort_is_asked_for_behind_the_ending_and_before_new_work(manual_lab: SessionLab) -> None:
    manual_lab.speak(500)
    manual_lab.send(Commit(response_create=True))
    manual_lab.run(500)
    asked = manual_lab.session.handle(inputs.CommandReceived(CancelResponse()), manual_lab.now)
    kinds = [type(effect) for effect in asked if not isinstance(effect, effects.WakeAt)]
    assert kinds[0] is effects.DropQueuedAudio
    assert kinds[-1] is effects.AbortRequests
    assert set(kinds[1:-1]) == {effects.Emit}


def test_a_unit_taken_after_its_epoch_is_compensated(manual_lab: SessionLab) -> None:
    manual_lab.speak(500)
    gate = Gate(manual_lab, effects.SubmitUnit)
    manual_lab.send(Commit(response_create=True), CancelResponse())
    assert statuses(manual_lab) == ["cancelled"]
    assert manual_lab.aborted == []
    gate.fail(lambda effect: inputs.UnitSubmitted(effect.op))
    assert len(manual_lab.aborted) == 1
    manual_lab.run(3000)
    assert statuses(manual_lab) == ["cancelled"]


@pytest.mark.parametrize("command", [BargeIn(), CancelInput()])
def test_input_is_gone_after_an_interruption_with_work_under_way(
    manual_lab: SessionLab, command: Any
) -> None:
    gate = Gate(manual_lab, effects.DecodeAudio)
    manual_lab.send(AppendAudio(audio=tone(400)), Commit(event_id="c"))
    manual_lab.send(AppendAudio(audio=tone(400)), command)
    gate.open()
    assert codes(manual_lab) == ["commit_aborted"]
    assert manual_lab.session.input_bytes == 0
    assert manual_lab.session.pending_turns == 0
    assert manual_lab.session.waiting_commands == 0


# commit


def test_a_commit_that_asks_while_a_response_runs_waits_for_its_end(make_lab: Any) -> None:
    lab = heard(make_lab)
    lab.speak(800)
    lab.send(CreateItem(item=ITEM), CreateResponse())
    lab.send(Commit(response_create=True))
    assert codes(lab) == []
    committed = of(lab, "input_audio_buffer.committed")[0]
    assert committed["event"]["response_create_deferred"] is True
    lab.run(6000)
    assert statuses(lab) == ["completed", "completed"]
    assert texts(lab)[1].startswith("heard 800 ms")


def test_a_silent_commit_of_nothing_says_that_it_was_empty(manual_lab: SessionLab) -> None:
    manual_lab.send(Commit(is_speech=False))
    event = of(manual_lab, "input_audio_buffer.committed")[0]["event"]
    assert (event["is_speech"], event["empty"]) == (False, True)


# failures


def test_a_failed_answer_does_not_taint_the_turn_that_follows(manual_lab: SessionLab) -> None:
    manual_lab.speak(500)
    gate = Gate(manual_lab, effects.PlanAppend)
    manual_lab.send(Commit(response_create=True))
    manual_lab.speak(900)
    gate.fail(lambda effect: inputs.AppendPlanned(effect.op, fault=NO))
    assert codes(manual_lab) == ["runtime_append_failed"]
    assert statuses(manual_lab) == ["failed"]
    manual_lab.send(Commit(response_create=True))
    manual_lab.run(2600)
    assert statuses(manual_lab) == ["failed", "completed"]


def test_an_auto_responding_session_tries_a_failed_unit_again(make_lab: Any) -> None:
    lab = make_lab(
        {"auto_response": True}, script={"turns": "commit", "answers": [{"heard": True}]}
    )
    gate = Gate(lab, effects.PlanAppend)
    lab.speak(80)
    gate.fail(lambda effect: inputs.AppendPlanned(effect.op, fault=NO))
    assert codes(lab) == ["runtime_append_failed"]
    lab.speak(420)
    lab.send(UpdateSession(session={"instructions": "B"}), Commit())
    lab.run(2600)
    assert codes(lab) == ["runtime_append_failed"]
    assert texts(lab)[0].startswith("heard 500 ms")


def test_an_update_is_aborted_only_by_audio_it_waited_for(make_lab: Any) -> None:
    lab = make_lab({"auto_response": True}, script={"turns": "commit"})
    before = lab.session.public_session
    gate = Gate(lab, effects.PlanAppend)
    lab.speak(80)
    lab.send(UpdateSession(session={"instructions": "B"}, event_id="u"))
    gate.fail(lambda effect: inputs.AppendPlanned(effect.op, fault=NO))
    error = of(lab, "error")[-1]["error"]
    assert (error["code"], error["event_id"]) == ("session_update_aborted", "u")
    assert of(lab, "session.updated") == []
    assert lab.session.public_session["instructions"] == before["instructions"]
    lab.send(UpdateSession(session={"instructions": "B"}))
    assert len(of(lab, "session.updated")) == 1


def test_an_update_waits_for_the_units_before_it(make_lab: Any) -> None:
    lab = make_lab({"auto_response": True}, script={"turns": "commit"})
    gate = Gate(lab, effects.SubmitUnit)
    lab.speak(80)
    lab.send(UpdateSession(session={"instructions": "B"}), Heartbeat())
    assert of(lab, "session.updated") == []
    assert len(of(lab, "session.heartbeat_ack")) == 1
    gate.open()
    assert len(of(lab, "session.updated")) == 1


def test_output_of_a_completed_turn_opens_feeds_and_ends_nothing(make_lab: Any) -> None:
    from duplex_sdk.stage import StageOutput

    lab = make_lab(script={"turns": "commit"})
    lab.speak(500)
    lab.send(Commit(response_create=True))
    lab.run(2600)
    lab.speak(500)
    lab.send(Commit(response_create=True))
    lab.run(300)
    request = lab.submitted[-1].context
    late = StageOutput(
        session_id=request.session_id,
        request_id=request.request_id,
        epoch=0,
        turn_id=0,
        text="late",
        end_of_turn=True,
    )
    lab.feed(inputs.StageOutputReceived(late, 0))
    lab.run(2600)
    assert texts(lab) == ["turn 1", "turn 2"]
    assert statuses(lab) == ["completed", "completed"]


# transcripts


def test_the_words_of_a_cancelled_turn_are_not_given_to_the_next(manual_lab: SessionLab) -> None:
    manual_lab.speak(500)
    gate = Gate(manual_lab, effects.SubmitUnit)
    manual_lab.send(Commit(response_create=True), CancelResponse())
    gate.fail(lambda effect: inputs.UnitSubmitted(effect.op, NO))
    manual_lab.speak(500)
    manual_lab.send(Commit(response_create=True))
    manual_lab.run(2600)
    told = of(manual_lab, "conversation.item.input_audio_transcription.completed")
    items = [c["item_id"] for c in of(manual_lab, "input_audio_buffer.committed")]
    assert [t["item_id"] for t in told] == items[1:]


def test_the_words_of_two_items_answered_as_one_come_with_the_last(
    manual_lab: SessionLab,
) -> None:
    for _ in range(2):
        manual_lab.speak(500)
        manual_lab.send(Commit())
    manual_lab.send(CreateResponse())
    manual_lab.run(2600)
    manual_lab.speak(500)
    manual_lab.send(Commit(response_create=True))
    manual_lab.run(2600)
    told = of(manual_lab, "conversation.item.input_audio_transcription.completed")
    items = [c["item_id"] for c in of(manual_lab, "input_audio_buffer.committed")]
    assert [t["item_id"] for t in told] == items[1:]


def test_a_hint_of_the_client_is_told_once_and_the_models_words_do_not_move_on(
    manual_lab: SessionLab,
) -> None:
    for hint in ("hi there", None):
        manual_lab.send(_append(hint))
        manual_lab.send(Commit(response_create=True))
        manual_lab.run(2600)
    told = of(manual_lab, "conversation.item.input_audio_transcription.completed")
    assert [t["transcript"] for t in told] == ["hi there", "input 2"]


def _append(transcript: str | None) -> AppendAudio:
    import base64

    from duplex_sdk.protocol.duplex import decode_command

    frame: dict[str, Any] = {
        "type": "input_audio_buffer.append",
        "audio": base64.b64encode(tone(500)).decode(),
    }
    if transcript is not None:
        frame["transcript"] = transcript
    command = decode_command(frame)
    assert isinstance(command, AppendAudio)
    return command


# close


def test_a_close_discards_what_waits_and_gives_every_byte_back(manual_lab: SessionLab) -> None:
    gate = Gate(manual_lab, effects.DecodeAudio)
    manual_lab.send(AppendAudio(audio=tone(400)), Commit(), AppendAudio(audio=tone(400)))
    manual_lab.send(CloseSession())
    assert manual_lab.types()[-1] == "session.closed"
    gate.open()
    assert manual_lab.session.input_bytes == 0
    assert manual_lab.session.pending_turns == 0
    assert of(manual_lab, "input_audio_buffer.committed") == []


def test_a_close_tells_the_data_plane_that_its_requests_are_over(manual_lab: SessionLab) -> None:
    closed: list[str] = []

    class Watching(DuplexDataPlane):
        def close_stream(self, request_id: str, *, state: Any) -> None:
            closed.append(request_id)

    manual_lab.plugin.data_plane = Watching()
    manual_lab.speak(500)
    manual_lab.send(Commit(response_create=True))
    manual_lab.run(500)
    manual_lab.send(CloseSession())
    assert closed == [manual_lab.submitted[0].context.request_id]
