from __future__ import annotations

import asyncio
import logging
import time
import typing
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, cast

import pytest
from duplex_sdk.plugin import (
    AppendRequest,
    DuplexAppendPlan,
    DuplexFence,
    DuplexStagePort,
    DuplexStageRequestContext,
    DuplexStageSubmission,
    DuplexStageSubmissionResult,
)
from duplex_sdk.plugin.buffer import AppendPiece
from duplex_sdk.plugin.views import SessionView
from duplex_sdk.protocol.duplex import Heartbeat, SessionHeartbeatAck
from duplex_sdk.session.effects import (
    AbortRequests,
    AnswerControl,
    ConfigureInput,
    DecodeAudio,
    Effect,
    Emit,
    Ended,
    MarkClosing,
    PlanAppend,
    RegisterRequest,
    ReleaseRequests,
    ReleaseStages,
    SubmitUnit,
    WakeAt,
)
from duplex_sdk.session.inputs import (
    AppendPlanned,
    AudioDecoded,
    CloseRequested,
    CommandReceived,
    Input,
    InputConfigured,
    LeaseTouched,
    OutputRefused,
    RequestsAborted,
    StageFailed,
    StageOutputReceived,
    StagesIdle,
    StagesReleased,
    TimerFired,
    UnitSubmitted,
)
from duplex_sdk.stage import Json, StageOutput, StagePrompt
from duplex_sdk.testing.seeded_ids import SeededIds
from duplex_server.runtime.detection import Detection
from duplex_server.runtime.input_room import InputRoom, RoomLimits
from duplex_server.runtime.lateness import Lateness
from duplex_server.runtime.offload import Offload
from duplex_server.runtime.output_buffer import DuplexOutputBuffer, OutputLimits
from duplex_server.runtime.services import EngineServices, RunnerOwner
from duplex_server.runtime.session_runner import PERFORMERS, DuplexSessionRunner
from duplex_server.runtime.stage_outputs import MOST_PER_TURN
from duplex_server.runtime.timers import Timers
from duplex_server.stages import RequestCancelledError, StageUnavailableError
from patience import eventually

HEARTBEAT = CommandReceived(Heartbeat())
SUBMISSION = DuplexStageSubmission(
    context=DuplexStageRequestContext(
        request_id="r", session_id="s", fence=DuplexFence("s"), sampling_params=({},)
    ),
    prompt=StagePrompt(),
    already_submitted=False,
)
REQUEST = AppendRequest(
    fence=DuplexFence("s"),
    request_id="r",
    seq=1,
    turn_seq=1,
    unit=AppendPiece(audio=None),
    session=SessionView(session_id="s"),
)


class Scripted:
    """A session that answers each kind of input with effects given beforehand."""

    held_input_bytes = 0
    ignores_idle = False
    accepted_seq = 0

    def input_load(self) -> tuple[int, int, int]:
        return 0, 0, 0

    def __init__(self) -> None:
        self.seen: list[Input] = []
        self.answers: dict[type[Any], Any] = {}

    def handle(self, item: Input, now: float) -> tuple[Effect, ...]:
        self.seen.append(item)
        answer = self.answers.get(type(item), ())
        if isinstance(answer, Exception):
            raise answer
        return cast("tuple[Effect, ...]", answer)


class Port(DuplexStagePort):
    """A stage port whose calls do what the test says."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.act: dict[str, Callable[[], Any]] = {}

    stage_count = 1

    async def _do(self, name: str) -> None:
        self.calls.append(name)
        result = self.act.get(name, lambda: None)()
        if result is not None:
            await result

    def sampling_defaults(self) -> tuple[Mapping[str, Json], ...]:
        return ({},)

    def ensure_request(self, context: DuplexStageRequestContext) -> None:
        self.act.get("ensure", lambda: None)()

    async def submit(self, submission: DuplexStageSubmission) -> DuplexStageSubmissionResult:
        await self._do("submit")
        return DuplexStageSubmissionResult("r", 0, 0)

    async def cleanup(self, request_ids: Iterable[str], *, abort: bool = False) -> None:
        await self._do("cleanup")

    async def abort_requests(
        self, request_ids: Iterable[str], *, heard_ms: float = 0.0, epoch: int | None = None
    ) -> None:
        await self._do("abort")

    async def release_session(self, session_id: str) -> None:
        await self._do("release")


class Ear:
    """Decodes nothing, cheaply or on a thread."""

    def __init__(self) -> None:
        self.cheap = True
        self.work: Callable[[], None] = lambda: None

    def is_cheap(self, effect: DecodeAudio) -> bool:
        return self.cheap

    def hear(self, effect: DecodeAudio) -> AudioDecoded:
        return self.decode(effect)

    def decode(self, effect: DecodeAudio) -> AudioDecoded:
        self.work()
        return AudioDecoded(effect.op)

    def is_cheap_to_configure(self, effect: ConfigureInput) -> bool:
        return self.cheap

    def configure(self, effect: ConfigureInput) -> InputConfigured:
        self.work()
        return InputConfigured(effect.op)


class Plugin:
    def __init__(self) -> None:
        self.act: Callable[[], Any] = lambda: None

    def plan_append(self, request: AppendRequest) -> DuplexAppendPlan:
        return DuplexAppendPlan(StagePrompt())

    async def prepare_append_plan(self, request: AppendRequest) -> DuplexAppendPlan:
        result = self.act()
        if result is not None:
            await result
        return self.plan_append(request)


class Owner(RunnerOwner):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def control_answered(self, session_id: str, answer: AnswerControl) -> None:
        self.heard.append(f"answered {answer.control_id}")

    def session_closing(self, session_id: str) -> None:
        self.heard.append("closing")

    def session_ended(self, session_id: str, released: bool, request_ids: tuple[str, ...]) -> None:
        self.heard.append(f"ended {released}")


class Link:
    units = None

    def __init__(self, limits: OutputLimits) -> None:
        self.output = DuplexOutputBuffer(limits)
        self.room = InputRoom(RoomLimits(1000, 100, 4))

    def close(self) -> None:
        self.output.close()
        self.room.close()


class Bench:
    """A runner with everything around it under the test's hand."""

    def __init__(self, limits: OutputLimits | None = None, call_timeout_s: float = 10.0) -> None:
        loop = asyncio.get_running_loop()
        self.session, self.port, self.ear, self.owner = Scripted(), Port(), Ear(), Owner()
        self.plugin = Plugin()
        self.link = Link(limits or OutputLimits())
        self.offload = Offload(loop)
        self.timers = Timers(loop)
        services = EngineServices(
            loop=loop,
            clock=time.monotonic,
            timers=self.timers,
            offload=self.offload,
            detection=Detection(loop),
            port=self.port,
            plugin=cast("Any", self.plugin),
            ids=SeededIds(1),
            lateness=Lateness(),
            call_timeout_s=call_timeout_s,
        )
        self.runner = DuplexSessionRunner(
            cast("Any", self.session),
            session_id="s",
            link=cast("Any", self.link),
            ear=cast("Any", self.ear),
            services=services,
            owner=self.owner,
            stage_output_limit=1000,
        )

    def does(self, call: str, act: Callable[[], Any]) -> None:
        """What a call of the stages, or of the plugin, does from now on."""
        if call == "plan":
            self.plugin.act = act
        else:
            self.port.act[call] = act

    def on(self, kind: type[Any], *effects: Effect) -> None:
        self.session.answers[kind] = effects

    async def outcome(self, kind: type[Any], count: int = 1) -> list[Any]:
        """The inputs of this kind, once there are so many and a moment longer."""
        await eventually(lambda: len(self.of(kind)) >= count)
        await asyncio.sleep(0.03)
        return self.of(kind)

    def of(self, kind: type[Any]) -> list[Any]:
        return [item for item in self.session.seen if isinstance(item, kind)]

    def close(self) -> None:
        self.runner.stop()
        self.offload.close()
        self.timers.close()


@pytest.fixture
async def bench() -> AsyncIterator[Callable[..., Bench]]:
    benches: list[Bench] = []

    def make(*args: Any, **fields: Any) -> Bench:
        benches.append(Bench(*args, **fields))
        return benches[-1]

    yield make
    for each in benches:
        each.close()


OPS: dict[str, tuple[Effect, type[Any], str]] = {
    "plan": (PlanAppend(7, REQUEST), AppendPlanned, "plan"),
    "submit": (SubmitUnit(7, SUBMISSION), UnitSubmitted, "submit"),
    "abort": (AbortRequests(7, ("r",), 0.0, 1), RequestsAborted, "abort"),
    "cleanup after an abort": (AbortRequests(7, ("r",), 0.0, 1), RequestsAborted, "cleanup"),
    "cleanup": (ReleaseRequests(7, ("r",)), RequestsAborted, "cleanup"),
    "release": (ReleaseStages(7, ("r",), ()), StagesReleased, "release"),
}
"""Work that waits on the loop: what asks for it, its outcome, and the call that does it."""

THREADED: dict[str, tuple[Effect, type[Any]]] = {
    "decode": (DecodeAudio(7, b"", "pcm16", 16_000), AudioDecoded),
    "configure": (ConfigureInput(7, None), InputConfigured),
}
"""Work that takes a thread, where it is not cheap."""


def test_every_effect_that_takes_time_has_its_work_here() -> None:
    timed = {kind for kind in typing.get_args(Effect) if "op" in kind.__struct_fields__}
    assert timed == {type(each[0]) for each in (*OPS.values(), *THREADED.values())}


def test_every_effect_has_a_performer() -> None:
    assert {*PERFORMERS, Emit} == {*typing.get_args(Effect)}


@pytest.mark.parametrize("name", OPS)
async def test_an_op_that_succeeds_has_one_outcome(bench: Callable[..., Bench], name: str) -> None:
    effect, outcome, _ = OPS[name]
    subject = bench()
    subject.on(CommandReceived, effect)
    subject.runner.feed(HEARTBEAT)
    (seen,) = await subject.outcome(outcome)
    assert (seen.op, seen.fault) == (7, None)


@pytest.mark.parametrize("name", OPS)
async def test_an_op_that_raises_has_one_outcome(bench: Callable[..., Bench], name: str) -> None:
    effect, outcome, call = OPS[name]
    subject = bench()
    subject.does(call, lambda: 1 // 0)
    subject.on(CommandReceived, effect)
    subject.runner.feed(HEARTBEAT)
    (seen,) = await subject.outcome(outcome)
    assert seen.op == 7
    assert seen.fault is not None


@pytest.mark.parametrize("name", OPS)
async def test_an_op_that_hangs_is_given_up_once(bench: Callable[..., Bench], name: str) -> None:
    effect, outcome, call = OPS[name]
    subject = bench(call_timeout_s=0.02)
    hang = asyncio.get_running_loop().create_future()
    subject.does(call, lambda: hang)
    subject.on(CommandReceived, effect)
    subject.runner.feed(HEARTBEAT)
    (seen,) = await subject.outcome(outcome)
    assert (seen.op, seen.fault.code) == (7, "timeout")
    assert hang.cancelled()


@pytest.mark.parametrize(
    ("error", "level", "traced"),
    [
        (RequestCancelledError("the request was aborted"), logging.DEBUG, False),
        (StageUnavailableError("no replica is ready"), logging.WARNING, False),
        (ZeroDivisionError("a bug"), logging.WARNING, True),
    ],
)
async def test_what_a_failed_op_logs_tells_outcomes_from_bugs(
    bench: Callable[..., Bench],
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    level: int,
    traced: bool,
) -> None:
    caplog.set_level(logging.DEBUG, logger="duplex_server")

    def fail() -> None:
        raise error

    subject = bench()
    subject.does("submit", fail)
    subject.on(CommandReceived, SubmitUnit(7, SUBMISSION))
    subject.runner.feed(HEARTBEAT)
    assert [each.fault is None for each in subject.of(UnitSubmitted)] == [False]
    assert [(each.levelno, each.exc_info is not None) for each in caplog.records] == [
        (level, traced)
    ]


@pytest.mark.parametrize("name", OPS)
async def test_an_op_that_waits_holds_nothing_up(bench: Callable[..., Bench], name: str) -> None:
    effect, outcome, call = OPS[name]
    subject = bench()
    gate = asyncio.get_running_loop().create_future()
    subject.does(call, lambda: gate)
    subject.on(CommandReceived, effect)
    subject.runner.feed(HEARTBEAT)
    subject.on(CommandReceived)
    subject.runner.feed(HEARTBEAT)
    assert len(subject.of(CommandReceived)) == 2
    assert subject.of(outcome) == []
    gate.set_result(None)
    assert len(await subject.outcome(outcome)) == 1


async def test_a_unit_was_accepted_before_its_stage_can_be_idle(
    bench: Callable[..., Bench],
) -> None:
    subject = bench()
    loop = asyncio.get_running_loop()
    credit = loop.create_future()

    async def submit() -> None:
        await credit
        # As a quick stage does: its step comes with the next turn of the loop.
        loop.call_soon(subject.runner.stages_idle, 0)

    subject.port.act["submit"] = submit
    subject.on(CommandReceived, SubmitUnit(7, SUBMISSION))
    subject.runner.feed(HEARTBEAT)
    credit.set_result(None)
    await subject.outcome(StagesIdle)
    assert [type(item) for item in subject.session.seen[1:]] == [UnitSubmitted, StagesIdle]


@pytest.mark.parametrize("name", OPS)
async def test_an_op_whose_task_is_cancelled_has_one_outcome(
    bench: Callable[..., Bench], name: str
) -> None:
    effect, outcome, call = OPS[name]
    subject = bench()
    begun: list[asyncio.Task[Any] | None] = []

    async def wait() -> None:
        begun.append(asyncio.current_task())
        await asyncio.get_running_loop().create_future()

    # The first step of such work is done at once; a moment makes a task of it.
    subject.does(call, lambda: asyncio.create_task(wait()))
    subject.on(CommandReceived, effect)
    subject.runner.feed(HEARTBEAT)
    for _ in range(3):
        await asyncio.sleep(0)
    (work,) = begun
    assert work is not None
    work.cancel()
    (seen,) = await subject.outcome(outcome)
    assert seen.op == 7
    assert seen.fault is not None


@pytest.mark.parametrize("name", THREADED)
async def test_threaded_work_that_hangs_is_given_up_and_its_late_result_dropped(
    bench: Callable[..., Bench], name: str
) -> None:
    effect, outcome = THREADED[name]
    subject = bench(call_timeout_s=0.02)
    subject.ear.cheap = False
    subject.ear.work = lambda: time.sleep(0.08)
    subject.on(CommandReceived, effect)
    subject.runner.feed(HEARTBEAT)
    await asyncio.sleep(0.15)
    (seen,) = await subject.outcome(outcome)
    assert (seen.op, seen.fault.code) == (7, "timeout")


@pytest.mark.parametrize("name", THREADED)
async def test_threaded_work_that_breaks_has_its_outcome(
    bench: Callable[..., Bench], name: str
) -> None:
    effect, outcome = THREADED[name]
    subject = bench()
    subject.ear.work = lambda: 1 // 0
    for cheap in (True, False):
        subject.ear.cheap = cheap
        subject.on(CommandReceived, effect)
        subject.runner.feed(HEARTBEAT)
    seen = await subject.outcome(outcome, 2)
    assert len(seen) == 2
    assert all(each.op == 7 and each.fault is not None for each in seen)


async def test_planning_has_its_outcome(bench: Callable[..., Bench]) -> None:
    subject = bench()
    subject.on(CommandReceived, PlanAppend(4, REQUEST))
    subject.runner.feed(HEARTBEAT)
    (planned,) = await subject.outcome(AppendPlanned)
    assert (planned.op, planned.plan) == (4, DuplexAppendPlan(StagePrompt()))


async def test_a_request_that_cannot_be_registered_fails_the_session(
    bench: Callable[..., Bench],
) -> None:
    subject = bench()
    subject.port.act["ensure"] = lambda: 1 // 0
    subject.on(CommandReceived, RegisterRequest(SUBMISSION.context))
    subject.runner.feed(HEARTBEAT)
    assert len(subject.of(StageFailed)) == 1


async def test_what_arrives_inside_a_step_waits_and_urgent_things_go_first(
    bench: Callable[..., Bench],
) -> None:
    subject = bench()

    def arrive() -> None:
        subject.runner.feed(StagesIdle(0, 0))
        subject.runner.feed(LeaseTouched("c", "heartbeat"))

    subject.port.act["ensure"] = arrive
    subject.on(CommandReceived, RegisterRequest(SUBMISSION.context), WakeAt(None))
    subject.runner.feed(HEARTBEAT)
    assert [type(item) for item in subject.session.seen] == [
        CommandReceived,
        LeaseTouched,
        StagesIdle,
    ]


async def test_refused_events_come_back_at_once_and_in_order(bench: Callable[..., Bench]) -> None:
    subject = bench(OutputLimits(max_events=1))
    events = [SessionHeartbeatAck(event_id=f"e{number}") for number in range(4)]
    subject.on(
        CommandReceived,
        Emit(events[0]),
        Emit(events[1]),
        DecodeAudio(5, b"", "pcm16", 16_000),
        Emit(events[2]),
        Emit(events[3]),
    )
    subject.runner.feed(HEARTBEAT)
    assert [type(item) for item in subject.session.seen] == [
        CommandReceived,
        OutputRefused,
        AudioDecoded,
    ]
    (refused,) = subject.of(OutputRefused)
    assert (refused.events, refused.limit) == (tuple(events[1:]), "events")
    assert subject.link.output.pending_events == 1


async def test_a_step_that_breaks_is_reported_and_stops_nothing(
    bench: Callable[..., Bench], caplog: pytest.LogCaptureFixture
) -> None:
    subject = bench()
    subject.session.answers[CommandReceived] = ValueError("broken")
    with caplog.at_level(logging.CRITICAL):
        subject.runner.feed(CommandReceived(Heartbeat(event_id="mine")))
    error = await subject.link.output.get()
    assert error is not None
    assert error.error.code == "internal_error"
    assert error.error.event_id == "mine"
    subject.on(CommandReceived, Emit(SessionHeartbeatAck(event_id="e")))
    subject.runner.feed(HEARTBEAT)
    assert (await subject.link.output.get()) == SessionHeartbeatAck(event_id="e")


async def test_a_session_that_cannot_close_is_closed_by_force(
    bench: Callable[..., Bench], caplog: pytest.LogCaptureFixture
) -> None:
    subject = bench()
    subject.session.answers[CloseRequested] = ValueError("broken")
    with caplog.at_level(logging.CRITICAL):
        subject.runner.feed(CloseRequested("shutdown"))
    terminal = await subject.link.output.get()
    assert terminal is not None
    assert (terminal.type, terminal.reason) == ("session.closed", "shutdown")
    assert subject.owner.heard == ["closing", "ended False"]


async def test_life_is_told_to_the_owner(bench: Callable[..., Bench]) -> None:
    subject = bench()
    subject.on(LeaseTouched, AnswerControl("c", 1))
    subject.on(CloseRequested, MarkClosing("bye"), Ended(True))
    subject.runner.feed(LeaseTouched("c", "append"))
    subject.runner.feed(CloseRequested("bye"))
    assert subject.owner.heard == ["answered c", "closing", "ended True"]


async def test_a_timer_fires_as_an_input(bench: Callable[..., Bench]) -> None:
    subject = bench()
    subject.on(CommandReceived, WakeAt(time.monotonic() + 0.01))
    subject.runner.feed(HEARTBEAT)
    assert len(await subject.outcome(TimerFired)) == 1


async def test_a_stopped_runner_takes_and_reports_nothing(bench: Callable[..., Bench]) -> None:
    subject = bench()
    gate = asyncio.get_running_loop().create_future()
    subject.port.act["submit"] = lambda: gate
    subject.on(CommandReceived, SubmitUnit(7, SUBMISSION), WakeAt(time.monotonic() + 0.01))
    subject.runner.feed(HEARTBEAT)
    await asyncio.sleep(0)
    subject.runner.stop()
    subject.runner.feed(HEARTBEAT)
    await asyncio.sleep(0.03)
    assert [type(item) for item in subject.session.seen] == [CommandReceived]
    assert gate.cancelled()


def output(epoch: int = 0) -> StageOutputReceived:
    return StageOutputReceived(StageOutput("s", "r", epoch, 0), 0)


def fill(subject: Bench) -> None:
    for number in range(3):
        subject.link.output.put(SessionHeartbeatAck(event_id=f"e{number}"))


async def test_stage_outputs_wait_while_the_reader_is_behind(bench: Callable[..., Bench]) -> None:
    subject = bench(OutputLimits(max_events=4))
    fill(subject)
    subject.runner.stage_output(output(), 10)
    subject.runner.stages_idle(0)
    subject.runner.feed(HEARTBEAT)
    assert [type(item) for item in subject.session.seen] == [CommandReceived]

    await subject.link.output.get()
    subject.runner.room_made()
    assert [type(item) for item in subject.session.seen] == [
        CommandReceived,
        StageOutputReceived,
        StagesIdle,
    ]


async def test_a_session_that_ignores_idle_stages_is_not_told_of_them(
    bench: Callable[..., Bench],
) -> None:
    subject = bench()
    subject.runner.stages_idle(0)
    subject.session.ignores_idle = True
    subject.runner.stages_idle(0)
    assert [type(item) for item in subject.session.seen] == [StagesIdle]


async def test_idle_stages_keep_their_place_behind_outputs_that_wait(
    bench: Callable[..., Bench],
) -> None:
    subject = bench(OutputLimits(max_events=4))
    fill(subject)
    subject.session.ignores_idle = True
    subject.runner.stage_output(output(), 10)
    subject.runner.stages_idle(0)
    await subject.link.output.get()
    subject.runner.room_made()
    assert [type(item) for item in subject.session.seen] == [StageOutputReceived, StagesIdle]


async def test_stage_outputs_go_on_when_the_reader_has_stalled(
    bench: Callable[..., Bench],
) -> None:
    subject = bench(OutputLimits(max_events=4, stall_timeout_s=0.02))
    fill(subject)
    subject.runner.stage_output(output(), 10)
    assert len(await subject.outcome(StageOutputReceived)) == 1


async def test_a_cancel_drops_the_outputs_that_it_makes_stale(bench: Callable[..., Bench]) -> None:
    subject = bench(OutputLimits(max_events=4))
    fill(subject)
    subject.runner.stage_output(output(epoch=0), 900)
    subject.on(CommandReceived, AbortRequests(7, ("r",), 0.0, 1))
    subject.runner.feed(HEARTBEAT)
    subject.runner.stage_output(output(epoch=1), 900)
    for _ in range(3):
        await subject.link.output.get()
    subject.runner.room_made()
    assert [item.output.epoch for item in subject.of(StageOutputReceived)] == [1]
    assert subject.of(OutputRefused) == []


async def test_too_many_waiting_outputs_are_refused(bench: Callable[..., Bench]) -> None:
    subject = bench(OutputLimits(max_events=4))
    fill(subject)
    subject.runner.stage_output(output(), 900)
    subject.runner.stage_output(output(), 200)
    assert subject.of(OutputRefused) == [OutputRefused((), "stage_output")]


async def test_one_turn_of_the_loop_carries_out_so_many_outputs_and_the_next_ones_the_rest(
    bench: Callable[..., Bench],
) -> None:
    subject = bench()
    for number in range(3 * MOST_PER_TURN):
        subject.runner.stage_output(output(epoch=number), 1)
    subject.runner.stages_idle(0)
    carried_out = [len(subject.session.seen)]
    for _ in range(3):
        await asyncio.sleep(0)
        carried_out.append(len(subject.session.seen))
    whole = 3 * MOST_PER_TURN
    assert carried_out == [MOST_PER_TURN, 2 * MOST_PER_TURN, whole, whole + 1]
    assert [item.output.epoch for item in subject.of(StageOutputReceived)] == list(range(whole))
    assert type(subject.session.seen[-1]) is StagesIdle


async def test_outputs_that_come_one_by_one_never_wait_for_a_turn(
    bench: Callable[..., Bench],
) -> None:
    subject = bench()
    for number in range(3 * MOST_PER_TURN):
        subject.runner.stage_output(output(), 1)
        assert len(subject.of(StageOutputReceived)) == number + 1
        await asyncio.sleep(0)


async def test_a_cancel_overtakes_the_outputs_that_wait_for_their_turn(
    bench: Callable[..., Bench],
) -> None:
    subject = bench()
    for _ in range(3 * MOST_PER_TURN):
        subject.runner.stage_output(output(epoch=0), 1)
    subject.on(CommandReceived, AbortRequests(7, ("r",), 0.0, 1))
    subject.runner.feed(HEARTBEAT)
    subject.runner.stage_output(output(epoch=1), 1)
    for _ in range(5):
        await asyncio.sleep(0)
    epochs = [item.output.epoch for item in subject.of(StageOutputReceived)]
    assert epochs == [0] * MOST_PER_TURN + [1]
    assert subject.of(OutputRefused) == []
