"""The one root of our exceptions: every error can say what to do about it."""

from __future__ import annotations

__all__ = ["DuplexError"]


class DuplexError(Exception):
    """An error of this project.

    Attributes:
        hint: one sentence or command that mends it, or None. The CLI prints it under the error.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
