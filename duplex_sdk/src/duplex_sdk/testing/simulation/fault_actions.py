"""What goes wrong: things hang, fail, come late or twice; connections break; clocks jump."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from duplex_sdk.protocol.duplex import AppendAudio, CancelInput, Commit
from duplex_sdk.session import effects, inputs
from duplex_sdk.stage import StageError

from .action import action
from .client_actions import exchange, play
from .talker import FAILURES, HOOKS

if TYPE_CHECKING:
    from .world import World

__all__ = ["FAULTS"]

_TRUTH = (False, True)


@action(6, kind=tuple(FAILURES))
def hold(world: World, who: int, kind: type[Any]) -> None:
    """Work of this type hangs from now on."""
    if (talker := world.talker(who)) is not None:
        talker.hold(kind)


@action(6, kind=tuple(FAILURES), well=(True, True, False))
def let_go(world: World, who: int, kind: type[Any], well: bool) -> None:
    """What hung goes on, or has failed."""
    if (talker := world.talker(who)) is not None:
        talker.let_go(kind, well=well)


@action(3, kind=tuple(FAILURES))
def fail_next(world: World, who: int, kind: type[Any]) -> None:
    """The next work of this type fails at once."""
    talker = world.talker(who)
    if talker is None or kind in talker.held:
        return

    def fail(effect: Any) -> inputs.Input:
        talker.lab.faults.pop(kind, None)
        return FAILURES[kind](effect)

    talker.lab.faults[kind] = fail


@action(3, scope=("event", "response"), stale=_TRUTH)
def stage_fails(world: World, who: int, scope: Any, stale: bool) -> None:
    """The stage says that something failed, of its newest or its first request."""
    talker = world.talker(who)
    if talker is not None and talker.lab.submitted:
        context = talker.lab.submitted[0 if stale else -1].context
        error = StageError("runtime_append_failed", "on purpose", scope)
        talker.lab.stage_output(context, error=error)


@action(2, stale=_TRUTH)
def stage_says(world: World, who: int, stale: bool) -> None:
    """The stage says something that nobody expects."""
    talker = world.talker(who)
    if talker is not None and talker.lab.submitted:
        context = talker.lab.submitted[0 if stale else -1].context
        talker.lab.stage_output(context, text="late", end_of_turn=True)


@action(2, place=(0, 1, 2), later=_TRUTH)
def stage_repeats(world: World, who: int, place: int, later: bool) -> None:
    """The stage delivers an output once more, or much too late."""
    talker = world.talker(who)
    if later and talker is not None:
        exchange(world, who, 80, 600)
        talker.send(AppendAudio, audio=talker.sound(130))
        talker.send(Commit, response_create=False)
    if talker is not None and place < len(talker.outputs):
        talker.lab.feed(talker.outputs[place])


@action(1)
def stage_confuses(world: World, who: int) -> None:
    """The stage stamps an output of its newest request with the epoch before."""
    exchange(world, who, 80, 250)
    talker = world.talker(who)
    if talker is not None and talker.lab.submitted:
        context = talker.lab.submitted[-1].context
        fence = replace(context.fence, epoch=context.fence.epoch - 1)
        talker.lab.stage_output(replace(context, fence=fence), text="whose", end_of_turn=True)


@action(3, hook=HOOKS)
def plugin_breaks(world: World, who: int, hook: str) -> None:
    """The next call of a hook of the plugin raises."""
    if (talker := world.talker(who)) is not None:
        talker.break_hook(hook)


@action(2, ms=(200, 300))
def units_fail(world: World, who: int, ms: int) -> None:
    """The first of several units fails while the others wait behind it."""
    if (talker := world.talker(who)) is not None:
        talker.hold(effects.SubmitUnit)
        talker.send(AppendAudio, audio=talker.sound(ms))
        talker.let_go(effects.SubmitUnit, well=False)
        talker.send(AppendAudio, audio=talker.sound(130))


@action(1, well=_TRUTH)
def cancel_in_flight(world: World, who: int, well: bool) -> None:
    """An interruption comes while a unit is with the stage; the stage takes the unit after all."""
    if (talker := world.talker(who)) is not None:
        exchange(world, who, 80, 250)
        talker.hold(effects.SubmitUnit)
        talker.hold(effects.AbortRequests)
        talker.send(AppendAudio, audio=talker.sound(130))
        talker.send(Commit, response_create=True)
        talker.send(CancelInput)
        talker.let_go(effects.AbortRequests, well=well)
        talker.let_go(effects.SubmitUnit, well=True)


@action(1)
def answer_fails(world: World, who: int) -> None:
    """An answer breaks while its user has said the next thing over it already."""
    exchange(world, who, 300, 250)
    talker = world.talker(who)
    if talker is not None and talker.lab.submitted:
        context = talker.lab.submitted[-1].context
        talker.send(AppendAudio, audio=talker.sound(600))
        talker.send(Commit, response_create=True)
        error = StageError("runtime_append_failed", "on purpose", "response")
        talker.lab.stage_output(context, error=error)
        world.run(300)


@action(1)
def stage_dies(world: World, who: int) -> None:
    """The worker of a session is gone."""
    if (talker := world.talker(who)) is not None:
        talker.lab.feed(inputs.StageFailed("runtime_failed", "on purpose"))


@action(1)
def stages_fall_silent(world: World, who: int) -> None:
    """News of idleness that may be old."""
    if (talker := world.talker(who)) is not None:
        session = talker.lab.session
        talker.lab.feed(inputs.StagesIdle(session.epoch, session.accepted_seq - 1))


@action(8, ms=(1, 30, 79, 200, 1000, 3000))
def wait(world: World, who: int, ms: int) -> None:
    """Time passes."""
    del who
    world.run(ms)


@action(1)
def hang_and_sleep(world: World, who: int) -> None:
    """Something said never reaches the stage, and nobody does anything for long."""
    talker = world.talker(who)
    if talker is not None:
        talker.hold(effects.SubmitUnit)
        talker.send(AppendAudio, audio=talker.sound(300))
        talker.send(Commit, response_create=True)
        world.run(70_000)


@action(2, well=(True, True, False))
def close_and_hang(world: World, who: int, well: bool) -> None:
    """A session ends, its stages do not let go of it, and owner and client ask for more."""
    talker = world.talker(who)
    if talker is not None:
        talker.hold(effects.ReleaseStages)
        world.close(who)
        world.close(who)
        talker.send(AppendAudio, audio=talker.sound(130))
        talker.send(Commit, response_create=True)
        world.run(6000)
        talker.let_go(effects.ReleaseStages, well=well)


@action(2, kind=(effects.DecodeAudio, effects.SubmitUnit))
def end_over_audio(world: World, who: int, kind: type[Any]) -> None:
    """A session ends over audio, spoken and recorded, that waits to be decoded or heard."""
    talker = world.talker(who)
    if talker is not None:
        talker.hold(kind)
        for _ in range(2):
            talker.send(AppendAudio, audio=talker.sound(80))
        play(world, who, 130, talker.rate)
        play(world, who, 130, talker.rate)
        world.close(who)


@action(2, ms=(500, 7000, 70_000))
def clock_jumps(world: World, who: int, ms: int) -> None:
    """The clock moves on at once: every timer on the way fires late."""
    del who
    world.jump(ms)


@action(1, ms=(15_000, 100_000))
def sleep(world: World, who: int, ms: int) -> None:
    """Much time passes at once."""
    del who
    world.run(ms)


@action(4)
def open_session(world: World, who: int) -> None:
    """A client that has no session asks for one."""
    if world.talker(who) is None:
        world.open(who)


@action(1)
def open_again(world: World, who: int) -> None:
    """A client asks for an id that may be in use."""
    if world.talker(who) is not None:
        world.open_again(who)


@action(1)
def close_session(world: World, who: int) -> None:
    """The owner of a session ends it."""
    world.close(who)


@action(3, stale=(False, False, True))
def detach(world: World, who: int, stale: bool) -> None:
    """A connection breaks."""
    world.detach(who, stale=stale)


@action(3, stale=(False, False, True), twice=(False, False, True))
def resume(world: World, who: int, stale: bool, twice: bool) -> None:
    """A client comes back."""
    world.resume(who, stale=stale, twice=twice)


@action(2, abandoned=(False, False, True))
def hurry(world: World, who: int, abandoned: bool) -> None:
    """A session is asked things before its plugin is ready for it; they wait in their order."""
    world.close(who)
    world.hesitates = True
    world.open(who)
    world.detach(who, stale=False)
    world.touch(who, stale=True)
    world.resume(who, stale=False, twice=False)
    if abandoned:
        world.close(who)
    world.hesitates = False
    world.end_preparations()


@action(2)
def resume_race(world: World, who: int) -> None:
    """Two connections want a session whose connection breaks, and an old one is late."""
    world.detach(who, stale=False)
    world.race(who)


@action(1, stale=_TRUTH)
def touch(world: World, who: int, stale: bool) -> None:
    """Somebody shows interest."""
    world.touch(who, stale=stale)


@action(2, admits=_TRUTH, hesitates=_TRUTH)
def plugin_prepares(world: World, who: int, admits: bool, hesitates: bool) -> None:
    """How openings go from now on."""
    del who
    world.admits, world.hesitates = admits, hesitates
    if not hesitates:
        world.end_preparations()


@action(1, cleans=_TRUTH)
def cleanups(world: World, who: int, cleans: bool) -> None:
    """Whether cleanups that are tried again go well from now on."""
    del who
    world.cleans = cleans


FAULTS: dict[str, tuple[str, ...]] = {
    "a connection breaks": ("detach", "resume_race", "hurry"),
    "a reader is slow or stops": ("read",),
    "outputs come twice": ("stage_repeats",),
    "outputs come late": ("stage_says", "stage_repeats"),
    "an output carries the wrong epoch": ("stage_confuses",),
    "a plan, a submit or a decode hangs": ("hold", "hang_and_sleep"),
    "a cleanup hangs": ("hold", "close_and_hang"),
    "a cleanup fails": ("cleanups", "close_and_hang"),
    "work fails": ("fail_next", "let_go", "units_fail", "stage_fails", "answer_fails"),
    "a hook of the plugin raises": ("plugin_breaks",),
    "a worker dies": ("stage_dies",),
    "the clock jumps": ("clock_jumps", "sleep"),
    "connections race for a session": ("resume_race", "resume"),
    "an interruption meets work under way": ("cancel_in_flight",),
}
"""What goes wrong in simulations, and the actions that make it so. Sockets that drop between two
frames or hang half open need a server, and are tried there."""
