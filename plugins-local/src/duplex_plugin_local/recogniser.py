"""What the hearing stage asks of a recogniser."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Heard", "Recogniser"]


@dataclass(frozen=True, slots=True)
class Heard:
    """What was recognised.

    Attributes:
        text: the words; "" when there are none.
        tokens: the same in the recogniser's own terms, a draft for the next call.
    """

    text: str
    tokens: tuple[int, ...] = ()


class Recogniser(ABC):
    """Turns the samples of an utterance into words. Used from one thread."""

    @abstractmethod
    def recognise(self, samples: NDArray[np.float32], draft: Sequence[int] = ()) -> Heard:
        """Recognise an utterance.

        Args:
            samples: mono, 16 kHz, with speech in them.
            draft: the tokens of a shorter or older version of this utterance. They make it
                quicker and do not decide the result.
        """

    def transcribe(self, samples: NDArray[np.float32]) -> str:
        """The words alone."""
        return self.recognise(samples).text
