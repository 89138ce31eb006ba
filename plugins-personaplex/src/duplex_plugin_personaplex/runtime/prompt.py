"""What a session hears of itself before its caller: a voice, then a role.

The model reads columns of 17 tokens: text, eight codes of its own, eight of the caller. Column
``n`` holds the text and the first (semantic) code of frame ``n``, and the other seven codes of
frame ``n - 1``: they come one frame late.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from duplex_plugin_personaplex.figures import MAX_PROMPT_FRAMES, SPACER_FRAMES

__all__ = [
    "MAX_VOICE_FRAMES",
    "PAD_TOKEN",
    "SILENCE",
    "TONE",
    "CodesVoice",
    "Prompt",
    "PromptTooLongError",
    "ReplayVoice",
    "Voice",
    "make_prompt",
    "role_text",
]

PAD_TOKEN = 3
TONE = (430, 1268, 381, 1611, 1095, 1495, 56, 472)
"""Codes of a 440 Hz tone: what the caller says during the prompt."""
SILENCE = (948, 243, 1178, 546, 1736, 1030, 1978, 2008)
"""Codes of silence: what the model says while it reads its role."""
MAX_VOICE_FRAMES = MAX_PROMPT_FRAMES - 2 * SPACER_FRAMES
"""The longest voice: of a prompt without a role."""
_MARK = "<system>"


class PromptTooLongError(ValueError):
    """Voice and role leave too little of the window."""


@dataclass(frozen=True, slots=True)
class CodesVoice:
    """A voice as codes, ``[8, frames]``."""

    codes: torch.Tensor

    @property
    def frames(self) -> int:
        """How much of a prompt it takes."""
        return self.codes.shape[1]


@dataclass(frozen=True, slots=True)
class ReplayVoice:
    """A voice as the inputs the model once got, and the token ring behind them.

    Attributes:
        embeddings: ``[steps, dim]``.
        ring: ``[17, 4]``; column ``n`` lies at ``n % 4``.
    """

    embeddings: torch.Tensor
    ring: torch.Tensor

    @property
    def frames(self) -> int:
        """How much of a prompt it takes: what was read, and the frame that answers it."""
        return self.embeddings.shape[0] + 1


Voice = CodesVoice | ReplayVoice


@dataclass(frozen=True, slots=True)
class Prompt:
    """The known beginning of a session.

    Attributes:
        embeddings: inputs to replay first, ``[steps, dim]``; None: none.
        columns: tokens to read after them, ``[17, columns]``.
        late_codes: the seven late codes of the prompt's last frame, ``[7]``.
        frames: length of the prompt.
    """

    embeddings: torch.Tensor | None
    columns: torch.Tensor
    late_codes: torch.Tensor
    frames: int


def role_text(text: str) -> str:
    """A role between its marks; one that has them stays as it is, and nothing stays nothing."""
    text = text.strip()
    if not text or (text.startswith(_MARK) and text.endswith(_MARK) and len(text) > len(_MARK)):
        return text
    return f"{_MARK} {text} {_MARK}"


def make_prompt(voice: Voice, role: list[int], *, text_card: int, card: int) -> Prompt:
    """The prompt of a session.

    Args:
        voice: of the model.
        role: tokens of the role; empty: none.
        text_card: the token that stands for "nothing yet" in the text row.
        card: the same for the codes.

    Raises:
        PromptTooLongError: more frames than a prompt may have.
    """
    spacer = [PAD_TOKEN] * SPACER_FRAMES
    script = [*spacer, *role, *spacer]
    frames = voice.frames + len(script)
    if frames > MAX_PROMPT_FRAMES:
        raise PromptTooLongError(
            f"voice and role take {frames} frames of 80 ms; there is room for {MAX_PROMPT_FRAMES}"
        )
    if isinstance(voice, CodesVoice):
        columns, late = _spoken(voice.codes, script, text_card, card)
        return Prompt(None, columns, late, frames)
    columns, late = _replayed(voice, script)
    return Prompt(voice.embeddings, columns, late, frames)


def _spoken(
    voice: torch.Tensor, script: list[int], text_card: int, card: int
) -> tuple[torch.Tensor, torch.Tensor]:
    said = torch.cat([voice.long().cpu(), _silence(len(script))], dim=1)
    text = torch.tensor([PAD_TOKEN] * voice.shape[1] + script)
    frames = said.shape[1]
    columns = torch.empty(17, frames, dtype=torch.long)
    columns[0] = text
    columns[1] = said[0]
    columns[2:9, 1:] = said[1:, :-1]
    columns[9:] = torch.tensor(TONE)[:, None]
    # Nothing has been said before the first frame, and the late codes of it are not known.
    columns[0, 0] = text_card
    columns[1:, 0] = card
    columns[2:9, 1:2] = card
    columns[10:, 1:2] = card
    return columns, said[1:, -1]


def _replayed(voice: ReplayVoice, script: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    steps = voice.embeddings.shape[0]
    ring = voice.ring.long().cpu()
    silence = _silence(len(script))
    columns = torch.empty(17, len(script) + 1, dtype=torch.long)
    columns[:, 0] = ring[:, steps % 4]
    columns[0, 1:] = torch.tensor(script)
    columns[1, 1:] = silence[0]
    columns[2:9, 1] = ring[2:9, (steps + 1) % 4]
    columns[2:9, 2:] = silence[1:, :-1]
    columns[9:, 1:] = torch.tensor(TONE)[:, None]
    columns[10:, 1] = ring[10:, (steps + 1) % 4]
    return columns, silence[1:, -1]


def _silence(frames: int) -> torch.Tensor:
    return torch.tensor(SILENCE)[:, None].expand(8, frames)
