"""What a caller and the engine share of one session: its output, its input room, its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .input_room import InputRoom, RoomLimits
from .output_buffer import DuplexOutputBuffer, OutputLimits

if TYPE_CHECKING:
    from duplex_sdk.plugin import DuplexSessionRuntimeConfig

    from .unit_watch import UnitWatch

__all__ = ["LinkLimits", "SessionLink"]


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """What the links of one deployment may hold; the same for all of them."""

    output: OutputLimits
    room: RoomLimits

    @classmethod
    def of(cls, limits: DuplexSessionRuntimeConfig) -> LinkLimits:
        """Those that a deployment says."""
        return cls(
            OutputLimits(
                max_bytes=limits.max_pending_output_bytes_per_session,
                max_events=limits.max_pending_output_events_per_session,
                stall_timeout_s=limits.output_stall_timeout_s,
            ),
            RoomLimits(
                input_bytes=limits.max_pending_input_bytes_per_session,
                commands=limits.max_pending_commands_per_session,
                turns=limits.max_pending_turns_per_session,
            ),
        )


class SessionLink:
    """Made by the caller before the session exists, so that its first event has a place.

    Attributes:
        output: events on their way to the reader.
        room: how much more input the session takes.
        units: follows the units of its input; None: nobody wants to know.
    """

    __slots__ = ("output", "room", "units")

    def __init__(self, limits: LinkLimits) -> None:
        self.units: UnitWatch | None = None
        self.output = DuplexOutputBuffer(limits.output)
        self.room = InputRoom(limits.room)

    def close(self) -> None:
        """Nothing more comes: queued events stay deliverable, waiters are let go."""
        self.output.close()
        self.room.close()
