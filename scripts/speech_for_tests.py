"""Writes the speech that the clients of `.venv-clients` say: they have no voice of their own.

usage: speech_for_tests.py FOLDER
"""

from __future__ import annotations

import importlib.util
import sys
import wave
from pathlib import Path

import numpy as np
import soxr
from hibari import SAMPLE_RATE, Hibari

CLIENT_RATE = 24_000
"""The only PCM rate of a stock client, in Hz."""

SENTENCES = {
    "question": "What is seven plus five?",
    "interruption": "Stop, please. I would like to ask you something else now.",
}
HUMAN_SECONDS = 6.0


def main(folder: Path) -> None:
    """Write every sentence and a piece of recorded human speech as WAV, 24 kHz mono PCM16."""
    folder.mkdir(parents=True, exist_ok=True)
    voice = Hibari(threads=1)
    for name, sentence in SENTENCES.items():
        spoken = np.concatenate([np.asarray(piece) for piece in voice.stream(sentence, seed=0)])
        write(folder / f"{name}.wav", spoken, SAMPLE_RATE)
    samples, rate = read(human_recording())
    write(folder / "human.wav", samples[: int(HUMAN_SECONDS * rate)], rate)


def human_recording() -> Path:
    """The recording that lies inside the recogniser's package (which must not be imported)."""
    spec = importlib.util.find_spec("moonshine_voice")
    if spec is None or spec.origin is None:
        raise SystemExit("error: moonshine-voice is not installed\nhint: make install")
    return Path(spec.origin).parent / "assets" / "two_cities.wav"


def read(path: Path) -> tuple[np.ndarray, int]:
    """Samples in -1..1 and rate of a mono PCM16 WAV."""
    with wave.open(str(path), "rb") as file:
        data = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2")
        return data.astype(np.float32) / 32768, file.getframerate()


def write(path: Path, samples: np.ndarray, rate: int) -> None:
    """Write samples in -1..1 at the clients' rate."""
    resampled = soxr.resample(samples, rate, CLIENT_RATE)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(CLIENT_RATE)
        file.writeframes((np.clip(resampled, -1, 1) * 32767).astype("<i2").tobytes())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
