"""Models that take one request per turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from duplex_sdk.plugin import DuplexCapabilities
from duplex_sdk.protocol.duplex import Commit
from duplex_sdk.session import effects, inputs
from duplex_sdk.testing.scripted.model import Scripted
from duplex_sdk.testing.session_lab import SessionLab


class Ephemeral(Scripted):
    """Forgets its request after each turn."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        known = super().capabilities(max_sessions=max_sessions)
        return replace(known, supports_core_resumable_request=False)


def test_a_request_is_released_with_its_turn() -> None:
    lab = SessionLab(Ephemeral({"script": {"turns": "commit"}}))
    released: list[tuple[str, ...]] = []

    def release(effect: effects.ReleaseRequests) -> Any:
        released.append(effect.request_ids)
        return inputs.RequestsAborted(effect.op)

    lab.faults[effects.ReleaseRequests] = release
    for _ in range(5):
        lab.speak(300)
        lab.send(Commit(response_create=True))
        lab.run(5000)
    used = [submission.context.request_id for submission in lab.submitted]
    assert len(set(used)) == 5
    assert released == [(each,) for each in used]
    submitted, reserved = lab.session.state.requests.ids()
    assert submitted == ()
    assert len(reserved) <= 1
    assert lab.types().count("response.done") == 5
