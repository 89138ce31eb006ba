"""Where input is streamed a model gets units of its own length, whatever was kept back."""

from __future__ import annotations

from duplex_sdk.protocol.duplex import AppendAudio, Commit, CreateResponse
from duplex_sdk.session import effects, inputs
from duplex_sdk.testing.session_lab import SessionLab, tone
from duplex_sdk.testing.simulation import SCRIPTED_KINDS


def test_input_kept_back_over_an_answer_is_cut_into_units() -> None:
    kind = SCRIPTED_KINDS["sustained early"]
    lab = SessionLab(kind.plugin(), kind.session)
    lab.send(CreateResponse())
    lab.send(AppendAudio(audio=tone(130), is_speech=True))
    lab.send(AppendAudio(audio=tone(130), is_speech=True))
    lab.send(Commit(final=False, response_create=False))
    lab.run(20_000)
    heard = [each.prompt.audio for each in lab.submitted if each.prompt.audio is not None]
    assert {chunk.duration_ms for chunk in heard} == {80}
    assert len(heard) == 4


def test_units_that_failed_go_again_as_units_and_before_any_silence() -> None:
    kind = SCRIPTED_KINDS["native auto"]
    lab = SessionLab(kind.plugin(), kind.session)
    fault = inputs.Fault("runtime_append_failed", "on purpose")
    lab.faults[effects.PlanAppend] = lambda effect: inputs.AppendPlanned(effect.op, fault=fault)
    lab.send(CreateResponse(), AppendAudio(audio=tone(300)))
    del lab.faults[effects.PlanAppend]
    lab.send(CreateResponse())
    lab.run(20_000)
    heard = [each.prompt.audio for each in lab.submitted if each.prompt.audio is not None]
    assert {chunk.duration_ms for chunk in heard} == {lab.capabilities.chunk_period_ms}
    assert any(chunk.numpy().any() for chunk in heard[:4])
