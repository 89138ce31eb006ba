"""Numbers that both halves of the plugin go by."""

from __future__ import annotations

__all__ = [
    "CONTEXT_FRAMES",
    "FRAME_MS",
    "FRAME_SAMPLES",
    "MAX_PROMPT_FRAMES",
    "MAX_SESSION_S",
    "RATE",
    "SPACER_FRAMES",
]

RATE = 24_000
FRAME_MS = 80
FRAME_SAMPLES = RATE * FRAME_MS // 1000

CONTEXT_FRAMES = 3000
"""Positions of the release's window: 240 s, the prompt among them."""

SPACER_FRAMES = 6
"""Half a second of silence behind the voice, and again behind the role."""

MAX_PROMPT_FRAMES = 375
"""The longest prompt: voice, role and spacers together. What it leaves is the longest session."""

MAX_SESSION_S = (CONTEXT_FRAMES - MAX_PROMPT_FRAMES) * FRAME_MS / 1000
