"""What the hearing stage asks of a recogniser."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Recogniser"]


class Recogniser(ABC):
    """Turns the samples of an utterance into words. Used from one thread."""

    @abstractmethod
    def transcribe(self, samples: NDArray[np.float32]) -> str:
        """The words in mono samples at 16 kHz that hold speech; "" when there are none."""
