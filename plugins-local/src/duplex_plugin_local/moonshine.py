"""Speech recognition with Moonshine tiny-en, straight on onnxruntime.

The package that carries the weights is not imported: doing so wants an audio system, and its own
streaming class costs many times what running the growing utterance again does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .model_files import MOONSHINE, MOONSHINE_FILES, checked, package_folder
from .onnx_engine import open_model
from .recogniser import Heard, Recogniser

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["Moonshine"]

RATE = 16_000
MIN_SAMPLES = RATE // 8
_START, _END = 1, 2
_LAYERS, _HEADS, _HEAD_WIDTH = 6, 8, 36
# Nobody says more tokens a second; without a cap a confused decoder repeats itself for ever.
_TOKENS_PER_SECOND = 6.5
_SPARE_TOKENS = 4


class Moonshine(Recogniser):
    """A recogniser of English. Not for two threads at once; keeps nothing between calls."""

    rate = RATE

    def __init__(self, folder: Path | None = None) -> None:
        """Check and open the three files.

        Args:
            folder: the package's folder; None: where it is installed.

        Raises:
            StageLoadError: a file is missing, wrong or not loadable.
        """
        package, requirement = MOONSHINE
        paths = checked(
            folder or package_folder(package, requirement), MOONSHINE_FILES, requirement
        )
        self._encoder = open_model(paths["encoder"])
        self._decoder = open_model(paths["decoder"])
        self._vocabulary = read_vocabulary(paths["tokenizer"].read_bytes())
        self._names = [
            f"{layer}.{side}.{part}"
            for layer in range(_LAYERS)
            for side in ("decoder", "encoder")
            for part in ("key", "value")
        ]

    def recognise(self, samples: NDArray[np.float32], draft: Sequence[int] = ()) -> Heard:
        """The words of one utterance, up to about 30 s.

        Never call it with silence or noise: it then invents a word.

        Args:
            samples: mono at 16 kHz. Less than an eighth of a second gives no words.
            draft: tokens that the words probably begin with. Those that the model agrees with are
                taken over in one pass, where each would have cost one.
        """
        if len(samples) < MIN_SAMPLES:
            return Heard("")
        audio = np.ascontiguousarray(samples, dtype=np.float32)[np.newaxis]
        # The mask is in samples, also for the decoder: one in encoder frames works by luck up to
        # about 7 s.
        mask = np.ones(audio.shape, dtype=np.int64)
        encoded = self._encoder.run(None, {"input_values": audio, "attention_mask": mask})[0]
        fixed = {"encoder_attention_mask": mask, "encoder_hidden_states": encoded}
        limit = int(len(samples) / RATE * _TOKENS_PER_SECOND) + _SPARE_TOKENS
        tokens = self._decode(fixed, tuple(draft[:limit]), limit)
        return Heard(self._text(tokens), tokens)

    def _decode(
        self, fixed: Mapping[str, Any], draft: tuple[int, ...], limit: int
    ) -> tuple[int, ...]:
        """The most likely tokens, one after the other, without start and end."""
        empty = np.zeros((1, _HEADS, 0, _HEAD_WIDTH), dtype=np.float32)
        past = {f"past_key_values.{name}": empty for name in self._names}
        logits, *present = self._step(fixed, past, (_START, *draft), first=True)
        likely = [int(token) for token in logits[0].argmax(axis=-1)]
        agreed = _agreed(draft, likely)
        tokens, following = list(draft[:agreed]), likely[agreed]
        for name, value in zip(self._names, present, strict=True):
            # Of the tokens the model did not agree with nothing may be remembered.
            kept = value[:, :, : agreed + 1] if ".decoder." in name else value
            past[f"past_key_values.{name}"] = np.ascontiguousarray(kept)
        while following != _END and len(tokens) < limit:
            tokens.append(following)
            logits, *present = self._step(fixed, past, (following,), first=False)
            following = int(logits[0, -1].argmax())
            for name, value in zip(self._names, present, strict=True):
                # Attention over the encoder is computed once; later steps return it empty.
                if ".decoder." in name:
                    past[f"past_key_values.{name}"] = value
        return tuple(tokens)

    def _step(
        self,
        fixed: Mapping[str, Any],
        past: Mapping[str, Any],
        tokens: tuple[int, ...],
        *,
        first: bool,
    ) -> list[Any]:
        fresh = {
            "input_ids": np.array([tokens], dtype=np.int64),
            "use_cache_branch": np.array([not first]),
        }
        outputs: list[Any] = self._decoder.run(None, {**fixed, **past, **fresh})
        return outputs

    def _text(self, tokens: Sequence[int]) -> str:
        pieces = b"".join(self._vocabulary[token] for token in tokens)
        return pieces.decode("utf-8", errors="ignore").replace("\u2581", " ").strip()


def _agreed(draft: Sequence[int], likely: Sequence[int]) -> int:
    """How many tokens of the draft the model would have chosen too."""
    count = 0
    for drafted, chosen in zip(draft, likely, strict=False):
        if drafted != chosen:
            break
        count += 1
    return count


def read_vocabulary(table: bytes) -> list[bytes]:
    """The pieces in a tokenizer file: each after its length, one byte or two above 127."""
    pieces = []
    at = 0
    while at < len(table):
        length = table[at]
        at += 1
        if length >= 128:
            length = (table[at] << 7) + (length & 127)
            at += 1
        pieces.append(table[at : at + length])
        at += length
    return pieces
