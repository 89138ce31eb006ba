"""How the command speaks of what went wrong: one sentence, and what to do about it."""

from __future__ import annotations

import sys

from duplex_sdk.errors import DuplexError

__all__ = ["print_error", "print_warning"]


def print_error(error: DuplexError) -> None:
    """Say an error and its hint on stderr."""
    print(f"error: {error}", file=sys.stderr)
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)


def print_warning(text: str) -> None:
    """Say something that stops nothing on stderr."""
    print(f"warning: {text}", file=sys.stderr)
