"""Words out of text tokens, as they come."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from pathlib import Path

import sentencepiece

from .errors import CheckpointError
from .prompt import PAD_TOKEN, role_text

__all__ = ["PieceReader", "TextTokens"]

_END_OF_PAD = 0
_WORD_MARK = "\u2581"


class TextTokens:
    """The text tokenizer of a checkpoint.

    Raises:
        CheckpointError: the file cannot be read, or does not fit the model.
    """

    def __init__(self, path: Path, text_card: int) -> None:
        try:
            self._model = sentencepiece.SentencePieceProcessor(str(path))
        except (OSError, RuntimeError) as error:
            raise CheckpointError(f"{path.name} cannot be read: {error}") from error
        size = self._model.vocab_size()
        if size != text_card:
            raise CheckpointError(
                f"{path.name} has {size} pieces; the model's 'text_linear.weight' has {text_card}"
            )
        for token in (_END_OF_PAD, PAD_TOKEN):
            if not self._is_mark(token):
                raise CheckpointError(
                    f"{path.name}: piece {token} is {self._model.id_to_piece(token)!r}, a word;"
                    " the model pads its text with it"
                )
        self._shown = [self._spelt(token) for token in range(size)]

    def role(self, text: str) -> list[int]:
        """The tokens of a role; none for an empty one."""
        marked = role_text(text)
        return list(self._model.encode(marked)) if marked else []

    def names(self, numbers: Iterable[int]) -> list[str]:
        """The pieces of these tokens as the tokenizer writes them."""
        return [self._model.id_to_piece(number) for number in numbers]

    def bytes_of(self, token: int) -> bytes:
        """What a token shows of itself; nothing for padding and control tokens."""
        return self._shown[token] if 0 <= token < len(self._shown) else b""

    def _is_mark(self, token: int) -> bool:
        """Whether a piece stands for something other than its letters."""
        model, piece = self._model, self._model.id_to_piece(token)
        marked = piece.startswith("<") and piece.endswith(">")
        return marked or model.is_control(token) or model.is_unknown(token)

    def _spelt(self, token: int) -> bytes:
        model = self._model
        if token in (PAD_TOKEN, _END_OF_PAD) or model.is_control(token) or model.is_unused(token):
            return b""
        piece: str = model.id_to_piece(token)
        if model.is_byte(token):
            return bytes([int(piece[3:-1], 16)])
        return piece.replace(_WORD_MARK, " ").encode()


class PieceReader:
    """One session's text. A letter spelt in several tokens comes with the last of them."""

    def __init__(self, tokens: TextTokens) -> None:
        self._tokens = tokens
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, token: int) -> str:
        """The text that this token completes."""
        return self._decoder.decode(self._tokens.bytes_of(token))
