"""A whole deployment on a bench: the table of sessions, its clients, and one virtual clock."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from duplex_sdk.session import effects
from duplex_sdk.session.inputs import Fault
from duplex_sdk.session.session_table import SessionTable
from duplex_sdk.session.table_messages import (
    AbandonPreparation,
    AnswerCaller,
    CleanupTried,
    CloseAsked,
    ControlAnswered,
    DetachAsked,
    DiscardSession,
    FeedSession,
    ForgetSession,
    OpenAsked,
    PreparationFailed,
    PrepareSession,
    ResumeAsked,
    RetryCleanup,
    SessionClosing,
    SessionEnded,
    SessionPrepared,
    StartSession,
    Ticked,
    TouchAsked,
    WakeTableAt,
)
from duplex_sdk.testing.invariants import TableWatch, Tally

from .talker import Talker

if TYPE_CHECKING:
    from collections.abc import Callable

    from duplex_sdk.plugin import DuplexSessionRuntimeConfig
    from duplex_sdk.session.table_messages import TableInput

    from .kinds import Kind

__all__ = ["World"]

_CALLED_OFF = Fault("timeout", "the preparation was called off")
_RETRY_S = 1.0


class World:
    """The table's shell, and the clients whose sessions it keeps.

    Args:
        kinds: what the session of each client is.
        limits: of the deployment.
        seed: of all ids.
        policy: ``playback_commit_policy`` of the sessions.
        tally: where it is counted how often each law had something to look at.
        note: told of every step of a session, as a line to be read.

    Attributes:
        now: the virtual clock, seconds.
        admits: preparations go well; else they fail.
        hesitates: preparations do not end by themselves.
        cleans: cleanups that are tried again go well.
    """

    def __init__(
        self,
        kinds: tuple[Kind, ...],
        limits: DuplexSessionRuntimeConfig,
        *,
        seed: int,
        policy: str,
        tally: Tally | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self.now = 0.0
        self.admits = True
        self.hesitates = False
        self.cleans = True
        self.table = SessionTable(max_sessions=max(1, len(kinds) - 1), retry_s=_RETRY_S)
        self._tally: Tally = Counter() if tally is None else tally
        self._watch = TableWatch(self.table, self._tally)
        self._kinds = kinds
        self._limits = limits
        self._seed = seed
        self._policy = policy
        self._note = note
        self._asked = 0
        self._ids: list[str] = [""] * len(kinds)
        self._talkers: dict[str, Talker] = {}
        self._gone: list[Talker] = []
        self._preparing: list[str] = []
        self._mailbox: deque[TableInput] = deque()
        self._wake_at: float | None = None
        self._performers: dict[type[Any], Callable[[Any], None]] = {
            PrepareSession: self._prepare,
            AbandonPreparation: self._abandon,
            DiscardSession: lambda effect: None,
            StartSession: self._start,
            FeedSession: lambda fed: self._talkers[fed.session_id].lab.feed(fed.item),
            AnswerCaller: self._answer,
            RetryCleanup: lambda retry: self._tell(CleanupTried(retry.session_id, self.cleans)),
            ForgetSession: self._forget,
            WakeTableAt: self._wake,
        }

    def begin(self) -> None:
        """Every client asks for its first session."""
        for who in range(len(self._kinds)):
            self.open(who)

    def release(self) -> None:
        """Free what sessions still hold of models; of those that ended it is nothing."""
        for talker in (*self._talkers.values(), *self._gone):
            talker.lab.stages.close()

    def talker(self, who: int) -> Talker | None:
        """The client ``who`` with its session, while that lives."""
        return self._talkers.get(self._ids[who])

    # what callers ask of the table

    def open(self, who: int) -> None:
        """The client asks for a session of its own; it gives up the one it had."""
        self._asked += 1
        self._ids[who] = f"client-{who}-{self._asked}"
        self._tell(OpenAsked(self._control(), self._ids[who], by_update=bool(self._asked % 2)))

    def open_again(self, who: int) -> None:
        """Ask for an id that may be in use."""
        self._tell(OpenAsked(self._control(), self._ids[who]))

    def close(self, who: int) -> None:
        """Ask for the end of the client's session."""
        self._tell(CloseAsked(self._control(), self._ids[who]))

    def detach(self, who: int, *, stale: bool) -> None:
        """The client's connection is gone."""
        expected = self._generation(who) - stale
        self._tell(DetachAsked(self._control(), self._ids[who], expected))

    def resume(self, who: int, *, stale: bool, twice: bool) -> None:
        """A new connection takes the session; ``twice``: it repeats the question."""
        expected, control = self._generation(who) - stale, self._control()
        for _ in range(1 + twice):
            self._tell(ResumeAsked(control, self._ids[who], expected))

    def race(self, who: int) -> None:
        """Two that know the same generation resume, one asks again, one thinks it was detached."""
        expected, first, second = self._generation(who), self._control(), self._control()
        for control in (first, second, first):
            self._tell(ResumeAsked(control, self._ids[who], expected))
        self._tell(DetachAsked(self._control(), self._ids[who], expected))

    def touch(self, who: int, *, stale: bool) -> None:
        """Show interest."""
        expected = self._generation(who) - 1 if stale else None
        self._tell(TouchAsked(self._control(), self._ids[who], "heartbeat", expected))

    def end_preparations(self) -> None:
        """What was being prepared is ready, or failed."""
        preparing, self._preparing = self._preparing, []
        for session_id in preparing:
            self._prepared(session_id)

    def _control(self) -> str:
        self._asked += 1
        return f"k{self._asked}"

    def _generation(self, who: int) -> int:
        talker = self.talker(who)
        return 0 if talker is None else talker.generation

    # time

    def run(self, ms: float) -> None:
        """Let time pass for everybody."""
        for talker in tuple(self._talkers.values()):
            talker.lab.run(ms)
        self.now += ms / 1000
        if self._wake_at is not None and self._wake_at <= self.now:
            self._wake_at = None
            self._tell(Ticked())

    def jump(self, ms: float) -> None:
        """The clock of everybody moves on at once."""
        for talker in self._talkers.values():
            talker.lab.now += ms / 1000
        self.now += ms / 1000
        self.run(0)

    # the table's shell

    def _tell(self, item: TableInput) -> None:
        self._mailbox.append(item)
        if len(self._mailbox) > 1:
            return
        while self._mailbox:
            head = self._mailbox[0]
            self._watch.before(head)
            asked = self.table.handle(head, self.now)
            self._watch.after(asked)
            for effect in asked:
                self._performers[type(effect)](effect)
            self._mailbox.popleft()

    def _prepare(self, effect: PrepareSession) -> None:
        if self.hesitates:
            self._preparing.append(effect.session_id)
        else:
            self._prepared(effect.session_id)

    def _prepared(self, session_id: str) -> None:
        if self.admits:
            self._tell(SessionPrepared(session_id))
        else:
            fault = Fault("failed_precondition", "on purpose")
            self._tell(PreparationFailed(session_id, fault))

    def _abandon(self, effect: AbandonPreparation) -> None:
        if effect.session_id in self._preparing:
            self._preparing.remove(effect.session_id)
            self._tell(PreparationFailed(effect.session_id, _CALLED_OFF))

    def _start(self, effect: StartSession) -> None:
        session_id = effect.session_id
        who = int(session_id.split("-")[1])
        note = self._note
        talker = Talker(
            self._kinds[who],
            self._limits,
            seed=self._seed + self._asked,
            policy=self._policy,
            tally=self._tally,
            note=None if note is None else lambda line: note(f"client {who} {line}"),
        )
        self._talkers[session_id] = talker
        faults = talker.lab.faults
        faults[effects.AnswerControl] = lambda answer: self._tell(
            ControlAnswered(
                answer.control_id,
                session_id,
                answer.generation,
                answer.public_session,
                answer.fault,
            )
        )
        faults[effects.MarkClosing] = lambda _: self._tell(SessionClosing(session_id))
        faults[effects.Ended] = lambda ended: self._tell(
            SessionEnded(session_id, ended.released, ended.request_ids)
        )

    def _answer(self, effect: AnswerCaller) -> None:
        talker = self._talkers.get(effect.session_id)
        if talker is None or effect.generation is None or effect.fault is not None:
            return
        talker.generation = effect.generation
        talker.hear()
        if effect.operation == "detach":
            talker.line.break_off()
        elif effect.operation == "resume":
            talker.line.come_back(self.now)

    def _forget(self, effect: ForgetSession) -> None:
        gone = self._talkers.pop(effect.session_id, None)
        if gone is not None:
            self._gone.append(gone)

    def _wake(self, effect: WakeTableAt) -> None:
        self._wake_at = effect.at

    # the end

    def come_to_an_end(self) -> None:
        """Everybody falls silent, then closes; nothing may be left.

        Raises:
            AssertionError: something is, or a ledger does not add up.
        """
        self.admits = self.cleans = True
        self.hesitates = False
        self.end_preparations()
        for talker in tuple(self._talkers.values()):
            talker.come_to_rest()
        for who in range(len(self._kinds)):
            self.close(who)
        for session_id in tuple(self._talkers):
            self._tell(CloseAsked(self._control(), session_id))
        for _ in range(4):
            self.run(10_000)
        for talker in self._gone:
            talker.let_all_go()
            # A session that is over stays silent, and asks for no time.
            talker.lab.run(30_000)
            talker.watch.at_rest()
            assert talker.lab.session.closed, "80: a session has no end"
        self._watch.at_the_end()
