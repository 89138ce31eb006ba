"""The voices that come with the model, and how the names of others are understood."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = [
    "BUNDLED_VOICES",
    "DEFAULT_VOICE",
    "VOICE_FILES",
    "is_voice_name",
    "own_voice",
    "voices_here",
]

VOICE_FILES = (".pt", ".wav")
"""What a file of a voice may be: a prompt that was made, or a recording."""

BUNDLED_VOICES = (
    *(f"NATF{number}" for number in range(4)),
    *(f"NATM{number}" for number in range(4)),
    *(f"VARF{number}" for number in range(5)),
    *(f"VARM{number}" for number in range(5)),
)
"""In the order natural female, natural male, varied female, varied male."""

DEFAULT_VOICE = "NATF2"

# Stock clients name one of these without asking what there is.
_STOCK_NAMES = {
    "alloy": "NATF0",
    "ash": "NATM0",
    "ballad": "NATM1",
    "cedar": "NATM2",
    "coral": "NATF1",
    "echo": "NATM3",
    "marin": "NATF2",
    "sage": "NATF3",
    "shimmer": "VARF0",
    "verse": "VARM0",
}

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


def is_voice_name(name: str) -> bool:
    """Whether this can be a voice's name: a bare file name without its ending, never a path."""
    return _NAME.fullmatch(name) is not None


def own_voice(name: str) -> str:
    """The voice meant by a name that may be one of OpenAI's; others are returned as they are."""
    return _STOCK_NAMES.get(name, name)


def voices_here(folder: str | None) -> tuple[str, ...] | None:
    """The bundled voices and, sorted, those of a folder on this server.

    None: the folder is not on this machine, perhaps on the worker's, which then knows the names.
    """
    if folder is None:
        return BUNDLED_VOICES
    try:
        files = sorted(Path(folder).expanduser().iterdir())
    except OSError:
        return None
    own = (file.stem for file in files if file.suffix in VOICE_FILES and is_voice_name(file.stem))
    return tuple(dict.fromkeys((*BUNDLED_VOICES, *own)))
