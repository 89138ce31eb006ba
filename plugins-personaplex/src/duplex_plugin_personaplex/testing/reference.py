"""The reference: moshi's own generator, prompted frame by frame with hooks.

It serves as the oracle for our stepper, on a tiny checkpoint and on the release alike. It runs one
session, greedily, and touches moshi's private state where a voice is replayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from moshi.models import LMGen, LMModel

from duplex_plugin_personaplex.figures import SPACER_FRAMES
from duplex_plugin_personaplex.runtime.prompt import (
    PAD_TOKEN,
    SILENCE,
    TONE,
    CodesVoice,
    ReplayVoice,
    Voice,
)

__all__ = ["reference_frames"]


class _Forcing:
    """What the hooks are to put in place of what was sampled; None: nothing."""

    text: int | None = None
    semantic: int | None = None
    late: torch.Tensor | None = None

    def on_text(self, sampled: torch.Tensor) -> None:
        if self.text is not None:
            sampled[:] = self.text

    def on_audio(self, sampled: torch.Tensor) -> None:
        if self.semantic is not None:
            sampled[:, 0] = self.semantic
        if self.late is not None:
            sampled[:, 1:] = self.late

    def set(self, text: int | None, semantic: int | None, late: torch.Tensor | None) -> None:
        self.text, self.semantic, self.late = text, semantic, late


@torch.no_grad()
def reference_frames(
    lm: LMModel, voice: Voice, role: Sequence[int], heard: torch.Tensor
) -> Iterator[list[int]]:
    """Frames ``[text, eight codes]`` that the reference says to what it hears.

    Args:
        lm: not in streaming mode.
        voice: of the prompt.
        role: tokens of the prompt.
        heard: the caller's codes, ``[8, frames]``.
    """
    forcing = _Forcing()
    spacer = [PAD_TOKEN] * SPACER_FRAMES
    script = [*spacer, *role, *spacer]
    tone = torch.tensor(TONE, device=lm.device)[None, :, None]
    silence = torch.tensor(SILENCE, device=lm.device)
    generator = LMGen(
        lm, use_sampling=False, on_text_hook=forcing.on_text, on_audio_hook=forcing.on_audio
    )
    with generator.streaming(1):
        if isinstance(voice, CodesVoice):
            _speak_prompt(generator, forcing, voice, script, tone, silence)
        else:
            _replay_prompt(generator, forcing, voice, script, tone, silence)
        forcing.set(None, None, silence[1:])
        generator.step(tone)
        forcing.set(None, None, None)
        for codes in heard.T:
            frame = generator.step(codes[None, :, None].to(lm.device))
            assert frame is not None
            yield frame[0, :, 0].tolist()


def _speak_prompt(
    generator: LMGen,
    forcing: _Forcing,
    voice: CodesVoice,
    script: Sequence[int],
    tone: torch.Tensor,
    silence: torch.Tensor,
) -> None:
    said = [*voice.codes.T.to(tone.device), *([silence] * len(script))]
    texts = [PAD_TOKEN] * voice.codes.shape[1] + list(script)
    for n in range(len(said) - 1):
        forcing.set(texts[n + 1], int(said[n + 1][0]), said[n][1:])
        generator.step(tone)


def _replay_prompt(
    generator: LMGen,
    forcing: _Forcing,
    voice: ReplayVoice,
    script: Sequence[int],
    tone: torch.Tensor,
    silence: torch.Tensor,
) -> None:
    lm = generator.lm_model
    steps = len(voice.embeddings)
    for embedding in voice.embeddings:
        lm.transformer(embedding[None, None].to(lm.device, lm.dtype))
    state = generator._streaming_state
    assert state is not None
    for column in (steps, steps + 1):
        state.cache[0, :, column % state.cache.shape[2]] = voice.ring[:, column % 4]
    state.offsets[:] = steps
    state.offset_cpu = steps
    # The late codes of the voice's last frame came with the ring.
    late = voice.ring[2:9, (steps + 1) % 4].to(tone.device)
    for text in script:
        forcing.set(text, int(silence[0]), late)
        generator.step(tone)
        late = silence[1:]
