"""Laws of clients that go away for a while, or for good."""

from __future__ import annotations

from duplex_sdk.plugin import DuplexSessionRuntimeConfig
from duplex_sdk.protocol.duplex import SessionExpired

from .breach import require
from .lab import ModelLab, completed, no_errors
from .subject import Subject

__all__ = ["LeaseLaws"]

AWAY_S = 12.0
GRACE_S = 30.0
LIMITS = DuplexSessionRuntimeConfig(disconnect_grace_s=GRACE_S)


class LeaseLaws:
    """A session outlives its connection as long as its lease says, and no longer."""

    def test_a_session_waits_for_its_client(self, conformance: Subject) -> None:
        """The connection breaks in mid-answer; who comes back goes on where it was."""
        conformance.needs("session_resume")
        with ModelLab(conformance, limits=LIMITS) as lab:
            lab.begin_turn(0)
            lab.wait(0.05)
            lab.detach()
            lab.run(AWAY_S * 1000)
            lab.resume()
            lab.take_turn(1)
            require(
                not lab.stages.failures,
                f"after {AWAY_S:.0f} s without a client: {lab.failed}",
                "no input for a while is nothing to fail of: take up the next unit as if no time"
                " had passed",
            )
            no_errors(lab)
            require(
                conformance.native or completed(lab.statuses, 2),
                f"the answer before the break and the one after it ended {lab.statuses}",
                "an answer goes on while nobody listens, and the state lives as long as the"
                " session: no input for a while means nothing",
            )

    def test_an_abandoned_session_is_released(self, conformance: Subject) -> None:
        """Whose client never comes back ends, in mid-answer, and frees its rows."""
        conformance.needs("session_lease")
        with ModelLab(conformance, limits=LIMITS) as lab:
            lab.begin_turn(0)
            lab.wait(0.05)
            lab.detach()
            lab.run((GRACE_S + 10) * 1000)
            require(
                any(isinstance(event, SessionExpired) for event in lab.events),
                f"{GRACE_S + 10:.0f} s after its client went the session said {lab.types()[-3:]}",
                "the call under way when the session expired must return",
            )
            require(
                not lab.stages.open_count and not lab.stages.close_failures,
                f"an expired session is still open in {lab.stages.open_count} stages, and"
                f" {lab.stages.close_failures} close() calls raised",
                "close() is called for each open(), in whatever state the session is then",
            )
            lab.watched.at_rest()
