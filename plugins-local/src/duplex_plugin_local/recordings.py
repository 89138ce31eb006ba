"""Human speech that lies inside the recogniser's package: for demonstrations and tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model_files import MOONSHINE, package_folder

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TWO_CITIES_TEXT", "two_cities"]

# What the first 25 s say. Charles Dickens, 1859.
TWO_CITIES_TEXT = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the "
    "age of foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the "
    "season of Light, it was the season of Darkness, it was the spring of hope, it was the winter "
    "of despair, we had everything before us, we had nothing before us, we"
)


def two_cities() -> Path:
    """A WAV of a person reading: 44 s, mono, 16 bit, 48 kHz.

    Raises:
        StageLoadError: the package is not installed.
        FileNotFoundError: it does not hold the recording.
    """
    path = package_folder(*MOONSHINE) / "assets" / "two_cities.wav"
    if not path.is_file():
        raise FileNotFoundError(f"no recording at {path}")
    return path
