"""The command ``duplex`` and the commands that need no server."""

from __future__ import annotations

from .app import build_app, main

__all__ = ["build_app", "main"]
