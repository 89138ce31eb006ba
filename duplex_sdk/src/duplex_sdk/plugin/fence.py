"""Identity of stage work: the fence, and the request ids made of it.

The only test of staleness is the epoch. An id is built so that it can be read back without any
table: which session, epoch, stage and turn it belongs to. Reading never raises.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from duplex_sdk.errors import DuplexError

__all__ = [
    "DuplexFence",
    "DuplexFenceMismatchError",
    "belongs_to_session",
    "request_epoch",
    "request_session_id",
    "request_turn_id",
    "same_turn_requests",
    "stage_request_id",
    "stage_role",
]

# The epoch's length is bounded because int() of a very long string raises.
_REQUEST = re.compile(
    r"duplex-s\.([A-Za-z0-9_-]*)\.e\.(0|[1-9][0-9]{0,17})\.r\.([A-Za-z0-9_-]+)", re.ASCII
)
_ROLE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_TURN_ROLE = re.compile(r"stage(?:0|[1-9][0-9]{0,8})-turn(0|[1-9][0-9]{0,17})", re.ASCII)


class DuplexFence(msgspec.Struct, frozen=True, gc=False):
    """What stage work is bound to. Internal: on the wire only the epoch is seen.

    Attributes:
        session_id: the session.
        epoch: interruption count, from 0.
        turn_id: the model's turn, from 0.
    """

    session_id: str
    epoch: int = 0
    turn_id: int = 0

    @property
    def position(self) -> tuple[int, int]:
        """The order of fences of one session: ``(epoch, turn_id)``."""
        return (self.epoch, self.turn_id)


class DuplexFenceMismatchError(DuplexError):
    """A fence of another session, or an older one than was already accepted."""

    def __init__(self, expected: DuplexFence, actual: DuplexFence) -> None:
        super().__init__(f"stale or foreign fence {actual}; accepted is {expected}")
        self.expected = expected
        self.actual = actual


class _Parts(NamedTuple):
    session_id: str
    epoch: int
    role: str


def stage_role(stage_id: int, turn_id: int | None = None) -> str:
    """The role of a stage's request: resident, or of one turn when ``turn_id`` is given."""
    return f"stage{stage_id}" if turn_id is None else f"stage{stage_id}-turn{turn_id}"


def stage_request_id(fence: DuplexFence, role: str) -> str:
    """The request id of a role under a fence.

    Raises:
        ValueError: the role holds something else than letters, digits, ``_`` and ``-``.
    """
    if not _ROLE.fullmatch(role):
        raise ValueError(f"a request's role is letters, digits, '_' and '-'; got {role!r}")
    raw = fence.session_id.encode("utf-8", "surrogatepass")
    session = base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")
    return f"duplex-s.{session}.e.{fence.epoch}.r.{role}"


def request_session_id(request_id: str) -> str | None:
    """The session a request belongs to; None for an id of another form."""
    parts = _parse(request_id)
    return None if parts is None else parts.session_id


def request_epoch(request_id: str) -> int | None:
    """The epoch a request is bound to; None for an id of another form."""
    parts = _parse(request_id)
    return None if parts is None else parts.epoch


def request_turn_id(request_id: str) -> int | None:
    """The turn of an ephemeral request; None for a resident one or an id of another form."""
    parts = _parse(request_id)
    return None if parts is None else _role_turn(parts.role)


def belongs_to_session(request_id: str, session_id: str) -> bool:
    """Whether a request is one of this session."""
    parts = _parse(request_id)
    return parts is not None and parts.session_id == session_id


def same_turn_requests(request_id: str, others: Iterable[str]) -> list[str]:
    """Those of ``others`` that are ephemeral and of the same session, epoch and turn."""
    own = _parse(request_id)
    turn = None if own is None else _role_turn(own.role)
    if own is None or turn is None:
        return []
    return [
        other
        for other in others
        if other != request_id
        and (parts := _parse(other)) is not None
        and (parts.session_id, parts.epoch) == (own.session_id, own.epoch)
        and _role_turn(parts.role) == turn
    ]


def _role_turn(role: str) -> int | None:
    match = _TURN_ROLE.fullmatch(role)
    return None if match is None else int(match[1])


def _parse(request_id: str) -> _Parts | None:
    match = _REQUEST.fullmatch(request_id) if isinstance(request_id, str) else None
    if match is None:
        return None
    encoded = match[1].encode("ascii")
    try:
        raw = base64.urlsafe_b64decode(encoded + b"=" * (-len(encoded) % 4))
        session_id = raw.decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeDecodeError):
        return None
    # One spelling per session: a second one would be a second id of the same request.
    if base64.urlsafe_b64encode(raw).rstrip(b"=") != encoded:
        return None
    return _Parts(session_id, int(match[2]), match[3])
