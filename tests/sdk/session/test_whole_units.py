"""Where input is streamed a model gets units of its own length, whatever was kept back."""

from __future__ import annotations

import pytest
from duplex_sdk.protocol.duplex import AppendAudio, Commit, CreateResponse
from duplex_sdk.testing.session_lab import SessionLab, tone
from duplex_sdk.testing.simulation import SCRIPTED_KINDS


@pytest.mark.parametrize("final", [True, False])
def test_input_kept_back_over_an_answer_is_cut_into_units(final: bool) -> None:
    kind = SCRIPTED_KINDS["sustained early"]
    lab = SessionLab(kind.plugin(), kind.session)
    lab.send(CreateResponse())
    lab.send(AppendAudio(audio=tone(130), is_speech=True))
    lab.send(AppendAudio(audio=tone(130), is_speech=True))
    lab.send(Commit(final=final, response_create=False))
    lab.run(20_000)
    heard = [each.prompt.audio for each in lab.submitted if each.prompt.audio is not None]
    assert {chunk.duration_ms for chunk in heard} == {80}
    assert len(heard) == 4
