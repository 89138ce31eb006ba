"""One client and its session in a simulation: what it has sent, what is held back from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from duplex_sdk.protocol.duplex import (
    FunctionCallArgumentsDone,
    ItemAdded,
    RealtimeCommand,
    ResponseDone,
)
from duplex_sdk.session import effects, inputs
from duplex_sdk.testing.invariants import SessionWatch, Tally, readable, with_watched_buffer
from duplex_sdk.testing.invariants.queue_step import WatchedQueue
from duplex_sdk.testing.numbered_sound import sound
from duplex_sdk.testing.session_lab import tone

from .line import Line

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexSessionRuntimeConfig

    from .kinds import Kind

__all__ = ["FAILURES", "HOOKS", "Talker", "recording"]

_FAULT = inputs.Fault("runtime_append_failed", "on purpose")
_BAD_AUDIO = inputs.Fault("bad_audio", "on purpose")

FAILURES: dict[type[Any], Callable[[Any], inputs.Input]] = {
    effects.DecodeAudio: lambda effect: inputs.AudioDecoded(effect.op, fault=_BAD_AUDIO),
    effects.ConfigureInput: lambda effect: inputs.InputConfigured(effect.op, _FAULT),
    effects.PlanAppend: lambda effect: inputs.AppendPlanned(effect.op, fault=_FAULT),
    effects.SubmitUnit: lambda effect: inputs.UnitSubmitted(effect.op, _FAULT),
    effects.AbortRequests: lambda effect: inputs.RequestsAborted(effect.op, _FAULT),
    effects.ReleaseRequests: lambda effect: inputs.RequestsAborted(effect.op, _FAULT),
    effects.ReleaseStages: lambda effect: inputs.StagesReleased(effect.op, _FAULT),
}
"""How each effect that takes time fails."""

HOOKS = (
    "plan_append",
    "runtime_config_for_update",
    "runtime_config_for_function_output",
    "runtime_config_after_model_output",
    "data_plane.project",
    "data_plane.begin_request",
    "data_plane.close_stream",
)
"""Hooks of a plugin that are called while a session runs."""

_KNOWN = 6
"""So many of the newest items are worth naming."""


@cache
def recording(ms: int, rate: int) -> bytes:
    """PCM16 of a tone, made once."""
    return tone(ms, rate)


class Talker:
    """A client with its session on a bench, every law of the session held against each step.

    Args:
        kind: what it is.
        limits: of the deployment.
        seed: of its ids.
        policy: its ``playback_commit_policy``.
        tally: where it is counted how often each law had something to look at.
        note: told of every step, as a line to be read.

    Attributes:
        held: effects that are kept back, by type.
        outputs: the first and the last outputs of its stage, to be repeated.
        line: between it and its server.
    """

    def __init__(
        self,
        kind: Kind,
        limits: DuplexSessionRuntimeConfig,
        *,
        seed: int,
        policy: str,
        tally: Tally | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self._plugin = with_watched_buffer(kind.plugin())
        self._plugin.data_plane = copy(self._plugin.data_plane)
        self.lab = kind.lab(
            self._plugin,
            kind.config(policy),
            limits=limits,
            seed=seed,
            capabilities=kind.capabilities,
            runtime_config=kind.runtime_config(policy),
        )
        self.rate = self.lab.capabilities.input_sample_rate_hz
        # At other rates a number might be cut in two.
        self.watch = SessionWatch(self.lab, tally, numbered=self.rate % 4000 == 0)
        self._queue = self.lab.queue = WatchedQueue.like(self.lab.queue, tally)
        self.line = Line(Counter() if tally is None else tally)
        self.held: dict[type[Any], list[Any]] = {}
        self.outputs: list[inputs.StageOutputReceived] = []
        self.generation = 0
        self._note = note
        self._commands = 0
        self._sounds = 0
        self._watched = self.lab.watch
        self.lab.watch = self._stepped

    def _stepped(self, item: inputs.Input, asked: tuple[effects.Effect, ...]) -> None:
        if type(item) is inputs.StageOutputReceived:
            # The first one of all among them: it may be repeated when its turn is long over.
            self.outputs = [*self.outputs[:1], *self.outputs[1:][-1:], item]
        if self._note is not None:
            told = [e.event.type for e in asked if type(e) is effects.Emit]
            work = [type(e).__name__ for e in asked if type(e) is not effects.Emit]
            self._note(
                f"{self.lab.now:9.3f} s  {readable(item)[:90]}  ->  {', '.join(told + work)}"
            )
        assert self._watched is not None
        self._watched(item, asked)

    @property
    def sent(self) -> int:
        """How many commands it has sent."""
        return self._commands

    def send(self, command: type[RealtimeCommand], **fields: Any) -> None:
        """A command, with an id of its own."""
        self._commands += 1
        self.lab.send(command(event_id=f"c{self._commands}", **fields))

    def sound(self, ms: int, *, loud: bool = True) -> bytes:
        """PCM16 of what it says next, or of a silence; every sample tells which one it is."""
        samples, self._sounds = sound(self._sounds, ms, self.rate, loud=loud)
        return samples

    @property
    def needs_silence(self) -> bool:
        """A turn of it ends, or is answered, only when it was silent for a while behind it."""
        state = self.lab.session.state
        return state.has_detector or state.native

    def hear(self) -> None:
        """What its session has told goes over its line."""
        self.line.follow(self.lab.events, self.lab.now)

    def item(self, place: int) -> str:
        """The id of one of the newest items it knows; 0 is none it knows."""
        known = [e.item.id for e in self.lab.events if isinstance(e, ItemAdded)]
        known += [f"item_{e.response_id}" for e in self.lab.events if isinstance(e, ResponseDone)]
        known = known[-_KNOWN:]
        return known[-1 - (place - 1) % len(known)] if place and known else "item_none"

    def call(self) -> str:
        """The id of the newest function call; one that nobody made without any."""
        made = [e.call_id for e in self.lab.events if isinstance(e, FunctionCallArgumentsDone)]
        return made[-1] if made else "call_none"

    # what its shell does to it

    def break_hook(self, hook: str) -> None:
        """Let the next call of a hook of its plugin raise."""
        owner, _, name = hook.rpartition(".")
        holder = vars(self._plugin.data_plane if owner else self._plugin)
        if name in holder:
            return

        def broken(*_: Any, **__: Any) -> NoReturn:
            del holder[name]
            raise RuntimeError("on purpose")

        holder[name] = broken

    def hold(self, kind: type[Any]) -> None:
        """Keep effects of this type back from now on."""
        if kind not in self.held:
            kept = self.held[kind] = []
            self.lab.faults[kind] = kept.append

    def let_go(self, kind: type[Any], *, well: bool) -> None:
        """Carry out what was kept back, or let it fail."""
        kept = self.held.pop(kind, [])
        self.lab.faults.pop(kind, None)
        for effect in kept:
            if well:
                self.lab.carry_out(effect)
            else:
                self.lab.feed(FAILURES[kind](effect))

    def let_all_go(self) -> None:
        """Nothing hangs any more."""
        while self.held:
            self.let_go(next(iter(self.held)), well=True)

    def come_to_rest(self) -> None:
        """The client falls silent, everything settles, and the ledgers add up.

        Raises:
            AssertionError: they do not.
        """
        self.let_all_go()
        self.lab.reading = True
        self.lab.read_all()
        self.lab.run(20_000)
        self.hear()
        self._queue.read_all()
        self.watch.at_rest()
