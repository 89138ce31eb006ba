"""How input is cut into units: what every buffer promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal

import msgspec

from duplex_sdk.errors import DuplexError

if TYPE_CHECKING:
    from duplex_sdk.audio import PcmChunk
    from duplex_sdk.stage import Image

__all__ = ["AppendPiece", "PcmAppendBuffer", "PcmReservation", "ReservationOrderError"]


class ReservationOrderError(DuplexError, RuntimeError):
    """A reservation was committed before an older one: units would overtake each other."""


class AppendPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of input with what is known of it; also a unit, once a buffer has cut one.

    Attributes:
        audio: samples at the model's input rate, None: none.
        is_speech: the detector's word; None: no detector ran.
        force_listen: the client wants the model to listen through this.
        images: one group of video frames.
        padding: so many of the last samples are zeros that a commit added.
        final: the turn's input ends here.
        respond: with ``final``: an answer is wanted.
        kind: ``conversation`` and ``discard`` carry no audio.
    """

    audio: PcmChunk | None = None
    is_speech: bool | None = None
    force_listen: bool = False
    images: tuple[Image, ...] = ()
    padding: int = 0
    final: bool = False
    respond: bool = True
    kind: Literal["audio", "conversation", "discard"] = "audio"


class PcmReservation(ABC):
    """A unit taken out of a buffer, until somebody says what became of it.

    It ends once: committed, rolled back, or cleared with its buffer. Each reservation must be
    ended, those without a unit too.
    """

    @property
    @abstractmethod
    def operation_id(self) -> str:
        """Whose it is."""

    @property
    @abstractmethod
    def unit(self) -> AppendPiece | None:
        """The unit; None: a commit that found nothing to say."""

    @property
    @abstractmethod
    def active(self) -> bool:
        """Whether it has not ended yet."""

    @property
    @abstractmethod
    def byte_count(self) -> int:
        """Bytes of input it holds, without padding."""

    @abstractmethod
    def commit(self) -> None:
        """The unit was taken. A no-op once ended.

        Raises:
            ReservationOrderError: an older one is still active.
        """

    @abstractmethod
    def rollback(self) -> None:
        """The unit was not taken: this one and every later one go back to the buffer's front.

        Their bytes return in their order, before all that came since. A no-op once ended.
        """


class PcmAppendBuffer(ABC):
    """Cuts the input of one session into units. Called on the loop, never blocking."""

    @property
    @abstractmethod
    def pending_byte_count(self) -> int:
        """Bytes waiting, without those in reservations."""

    @abstractmethod
    def has_pending(self) -> bool:
        """Whether anything waits unreserved."""

    @abstractmethod
    def has_reserved(self) -> bool:
        """Whether a reservation has not ended."""

    @abstractmethod
    def prepare_append(
        self, piece: AppendPiece, *, operation_id: str, allow_emit: bool
    ) -> PcmReservation | None:
        """Add a piece, and take out one unit if one is whole and ``allow_emit``.

        One append may hold many units: the caller goes on with an empty piece until None comes
        back. A piece that cannot be framed comes back as a reservation of zero bytes.

        Raises:
            ValueError: the sample rate is not the one of this input.
        """

    @abstractmethod
    def prepare_commit(self, *, operation_id: str) -> PcmReservation:
        """Seal the input so far: the unit is all that is left, filled up with zeros and final.

        The unit is None when nothing is left but silence; the reservation then holds the silence.
        """

    @abstractmethod
    def flush(self) -> AppendPiece | None:
        """Take all that waits now, filled up, without a reservation; None: nothing but silence."""

    @abstractmethod
    def clear(self) -> None:
        """Forget all bytes and what is known of them; end every reservation."""

    @abstractmethod
    def clear_force_listen(self) -> None:
        """Forget the wish to listen in what waits unreserved."""
