"""Where ids come from: handed in, so that a seeded run is repeatable to the last id."""

from __future__ import annotations

from abc import ABC, abstractmethod

__all__ = ["IdSource"]


class IdSource(ABC):
    """A source of ids that never repeat."""

    @abstractmethod
    def hex32(self) -> str:
        """32 lower-case hex characters, fresh."""

    @abstractmethod
    def seed(self) -> int:
        """A 63-bit integer for a model's random numbers."""

    def event(self) -> str:
        """A server event's id."""
        return f"event_{self.hex32()}"

    def response(self) -> str:
        """A response's id."""
        return f"resp_{self.hex32()}"

    def item(self) -> str:
        """An item's id."""
        return f"item_{self.hex32()}"

    def session(self) -> str:
        """A session's id."""
        return f"duplex-{self.hex32()}"
