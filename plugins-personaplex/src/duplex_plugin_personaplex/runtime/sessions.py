"""One caller on the model: a row, how it gets ready, and what it says."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass

import torch
from duplex_sdk.audio import PcmChunk
from duplex_sdk.stage import Json, StageSession

from duplex_plugin_personaplex.figures import FRAME_SAMPLES, RATE

from .codec import BatchCodec
from .pieces import PieceReader, TextTokens
from .prompt import CodesVoice, Voice, make_prompt
from .sizes import LmSizes
from .stepper import FrameStepper, RowSampling
from .voice_bank import VoiceBank

__all__ = ["Caller", "Prompter", "row_sampling"]


@dataclass(slots=True)
class Caller:
    """A session's state.

    Attributes:
        row: its place in the batch.
        text: reads its text channel.
        getting_ready: works off the prompt, a slice each time it is asked; None: done.
        room: frames that the window still holds; None: it may be written over.
    """

    row: int
    text: PieceReader
    getting_ready: Generator[None, None, int] | None
    room: int | None = None


def row_sampling(sampling: Mapping[str, Json], seed: int) -> RowSampling:
    """The stage's sampling parameters as the stepper wants them."""
    if sampling["greedy"]:
        return RowSampling(temperature=0.0, text_temperature=0.0, seed=seed)
    return RowSampling(
        float(sampling["temperature"]),
        int(sampling["top_k"]),
        float(sampling["text_temperature"]),
        int(sampling["text_top_k"]),
        seed,
    )


class Prompter:
    """Gets callers ready in slices, so that the others wait for one slice at most.

    Args:
        slice_frames: frames computed at a time.
    """

    def __init__(
        self,
        *,
        codec: BatchCodec,
        stepper: FrameStepper,
        voices: VoiceBank,
        tokens: TextTokens,
        sizes: LmSizes,
        slice_frames: int,
    ) -> None:
        self._codec = codec
        self._stepper = stepper
        self._voices = voices
        self._tokens = tokens
        self._sizes = sizes
        self._slice = slice_frames

    def slices(self, row: int, session: StageSession) -> Generator[None, None, int]:
        """Work off the prompt of a session on a fresh row; each step of it is one slice.

        Returns:
            How many frames of the window the prompt takes.

        Raises:
            ValueError: the prompt is too long.
            LookupError: there is no such voice.
        """
        runtime = session.runtime
        sound = self._sound(runtime)
        if isinstance(sound, PcmChunk):
            encoded: list[torch.Tensor] = []
            for piece in _pieces(sound, self._slice):
                encoded.append(self._codec.encode_in_lane(row, piece))
                yield
            self._codec.reset(row)
            sound = self._kept(runtime, torch.cat(encoded, dim=1))
        prompt = make_prompt(
            sound,
            self._tokens.role(runtime.get("role") or ""),
            text_card=self._sizes.text_card,
            card=self._sizes.card,
        )
        if prompt.embeddings is not None:
            for part in torch.split(prompt.embeddings, self._slice):
                self._stepper.replay(row, part)
                yield
        for part in torch.split(prompt.columns[:, :-1], self._slice, dim=1):
            self._stepper.read(row, part)
            yield
        self._stepper.begin(row, prompt)
        return prompt.frames

    def _sound(self, runtime: Mapping[str, Json]) -> Voice | PcmChunk:
        clip = runtime.get("clip")
        if clip is not None:
            return PcmChunk(bytes(clip), RATE)
        return self._voices.find(runtime["voice"])

    def _kept(self, runtime: Mapping[str, Json], codes: torch.Tensor) -> Voice:
        if runtime.get("clip") is not None:
            return CodesVoice(codes.cpu())
        return self._voices.keep(runtime["voice"], codes)


def _pieces(sound: PcmChunk, frames: int) -> Iterator[torch.Tensor]:
    """The sound in pieces of whole frames; the last is filled up with silence."""
    samples = torch.from_numpy(sound.numpy().copy())
    missing = -samples.shape[0] % FRAME_SAMPLES
    padded = torch.nn.functional.pad(samples, (0, missing))
    yield from torch.split(padded, frames * FRAME_SAMPLES)
