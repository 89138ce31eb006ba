"""Holds the laws of sessions against every step of one."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from duplex_sdk.protocol.duplex import (
    ItemAdded,
    Listen,
    ResponseCreated,
    SessionClosed,
    SessionExpired,
)
from duplex_sdk.session import effects, inputs

from .law import LawBrokenError, Tally, hold, laws_of
from .snapshot import Ledgers
from .step import Life, Rest, Step, written
from .watched_buffer import WatchedBuffer

if TYPE_CHECKING:
    from duplex_sdk.protocol.duplex import DuplexEvent
    from duplex_sdk.testing.session_lab import SessionLab

    from .response_trace import ResponseTrace

__all__ = ["SessionWatch"]


_BYTES = re.compile(r"b'(?:[^'\\]|\\.)*'|b\"(?:[^\"\\]|\\.)*\"")
_MOST = 400
_TERMINALS = frozenset({SessionClosed, SessionExpired})


def readable(item: inputs.Input) -> str:
    """An input as a person wants to see it: without its samples."""
    return _BYTES.sub("<bytes>", repr(item))[:_MOST]


class SessionWatch:
    """Holds the laws against every step of a lab's session from now on.

    Args:
        lab: the session on the bench; it must have asked for nothing yet but its opening.
        tally: where it is counted how often each law had something to look at.
        numbered: all sound that its client sends is of ``numbered_sound``.

    Attributes:
        broken: a law was broken; nothing can be said of the session any more.
    """

    def __init__(
        self, lab: SessionLab, tally: Tally | None = None, *, numbered: bool = False
    ) -> None:
        self._lab = lab
        self._life = Life(lab.session.session_id, written(lab.session.config))
        self._ledgers = Ledgers(lab.session)
        self._still = True
        self._tally: Tally = Counter() if tally is None else tally
        self._steps, self._told = laws_of("step"), laws_of("told")
        self.broken = False
        self._life.hearing.traceable = numbered
        buffer = lab.session.state.model_state.audio_buffer
        self._buffer = buffer if isinstance(buffer, WatchedBuffer) else None
        lab.watch = self.stepped

    def stepped(self, item: inputs.Input, asked: tuple[effects.Effect, ...]) -> None:
        """One ``handle`` is over.

        Raises:
            AssertionError: a law is broken; the message names it.
        """
        session, life, before = self._lab.session, self._life, self._ledgers.now
        after = self._ledgers.take()
        step = Step(item, asked, before, after, self._still, session, life)
        try:
            if type(item) is inputs.OutputRefused:
                life.take_back(item.events)
            for event in step.events:
                self._hear(step, event)
            if self._buffer is not None and self._buffer.changes:
                self._look_at_buffer(self._buffer)
            hold(self._steps[step.kinds], step, self._tally)
        except LawBrokenError as error:
            self.broken = True
            told = [event.type for event in step.events]
            raise LawBrokenError(
                error.law, f"{error.seen}\nin {readable(item)}\ntold {told}"
            ) from error
        life.take(step)
        self._still = (
            not after.undecoded_bytes
            and session.waiting_commands == 0
            and not (after.units and session.moving_input_bytes)
        )

    def _look_at_buffer(self, buffer: WatchedBuffer) -> None:
        """What happened to the plugin's buffer in a step."""
        changes, buffer.changes = buffer.changes, []
        self._life.hearing.entered(changes)
        laws = laws_of("buffer")[()]
        for change in changes:
            if change.kind != "added":
                hold(laws, change, self._tally)

    def _hear(self, step: Step, event: DuplexEvent) -> None:
        """An event was told."""
        life = self._life
        life.told.append(event)
        if type(event) in _TERMINALS:
            life.terminals += 1
        elif type(event) is Listen:
            life.traces.break_off(event)
        elif type(event) is ItemAdded and not event.item.id.startswith("item_resp_"):
            life.order.append(event.item.id)
        told = life.traces.told(event)
        if told is None:
            return
        if step.state.overflowed:
            told.trace.overflowed = True
        hold(self._told[type(event),], told, self._tally)
        life.traces.take(told)
        if type(event) is ResponseCreated:
            self._open(step, told.trace)

    def _open(self, step: Step, trace: ResponseTrace) -> None:
        """A response began: what of it no event tells."""
        trace.accepted_before = self._life.taken
        state = step.state
        response = state.response
        if response is None or response.id != trace.id:
            response = state.beside.get(trace.id)
        if response is None:
            return
        trace.bound = response.bound
        trace.policy = response.config.playback_commit_policy
        trace.in_conversation = response.in_conversation
        if response.in_conversation:
            self._life.order.append(f"item_{trace.id}")
        else:
            self._life.traces.aside.append(trace)

    def at_rest(self) -> None:
        """Nothing is under way and the client is silent: the ledgers add up.

        Raises:
            AssertionError: they do not.
        """
        lab = self._lab
        rest = Rest(lab.session, self._life, lab.reading, lab.queue.pending_bytes)
        hold(laws_of("rest")[()], rest, self._tally)

    @property
    def open_responses(self) -> tuple[str, ...]:
        """Responses that were begun and not ended."""
        return self._life.traces.open_ids
