"""Voice activity: how likely a frame of 32 ms holds speech.

A backend is shared by all sessions of a process: it computes, and what one stream remembers is a
``VadState`` that the caller keeps. When an utterance begins and ends is not decided here but by
``duplex_sdk.session.SpeechDetector``.
"""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from duplex_sdk.errors import DuplexError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "FRAME_SAMPLES",
    "VAD_RATE",
    "EnergyVad",
    "SileroVad",
    "VadBackend",
    "VadProvider",
    "VadState",
    "VadUnavailableError",
]

VAD_RATE = 16_000
FRAME_SAMPLES = 512

_SILERO_FILE = "silero_vad_16k_op15.onnx"
_SILERO_SHA256 = "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49"
_SILERO_CONTEXT = 64
_SILERO_HIDDEN = (2, 1, 128)


class VadUnavailableError(DuplexError):
    """The model file is missing, damaged or not loadable."""


@dataclass(frozen=True, slots=True)
class VadState:
    """What a backend remembers of one stream between two frames. Opaque to everybody else."""

    context: NDArray[np.float32]
    hidden: NDArray[np.float32]


class VadBackend(ABC):
    """Rates frames of speech.

    Stateless and safe to call from several threads at once: sessions share one instance.
    """

    @abstractmethod
    def fresh(self) -> VadState:
        """The state of a stream that has heard nothing yet."""

    @abstractmethod
    def infer(self, frame: NDArray[np.float32], state: VadState) -> tuple[float, VadState]:
        """Rate one frame.

        Args:
            frame: ``FRAME_SAMPLES`` samples at ``VAD_RATE``, full scale 1.0.
            state: what the call before returned, or ``fresh()``.

        Returns:
            The probability of speech in 0..1, and the state for the next frame of this stream.
        """

    def infer_batch(
        self, frames: Sequence[tuple[NDArray[np.float32], VadState]]
    ) -> list[tuple[float, VadState]]:
        """``infer`` for one frame each of several streams; by default one after the other."""
        return [self.infer(frame, state) for frame, state in frames]


class SileroVad(VadBackend):
    """Silero's recurrent model on onnxruntime, one thread: 0.1 ms a frame, half in a batch."""

    def __init__(self, model: bytes) -> None:
        """Load a model of the 16 kHz family.

        Raises:
            VadUnavailableError: onnxruntime is missing, or these bytes are no such model.
        """
        try:
            import onnxruntime as ort
        except ImportError as error:
            raise VadUnavailableError(
                "server VAD needs onnxruntime, which is not installed",
                hint="pip install 'onnxruntime>=1.20,<2'",
            ) from error
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Spinning threads starve each other on a busy machine.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            # onnxruntime's exceptions have no common root that it exports.
            raise VadUnavailableError(
                f"the voice activity model cannot be loaded: {error}",
                hint="it must be Silero's 16 kHz ONNX model",
            ) from error
        self._rate = np.array(VAD_RATE, dtype=np.int64)

    def fresh(self) -> VadState:
        """Silence so far."""
        return VadState(
            context=np.zeros(_SILERO_CONTEXT, dtype=np.float32),
            hidden=np.zeros(_SILERO_HIDDEN, dtype=np.float32),
        )

    def infer(self, frame: NDArray[np.float32], state: VadState) -> tuple[float, VadState]:
        """Rate one frame; the model also sees the last 4 ms of the frame before."""
        return self.infer_batch([(frame, state)])[0]

    def infer_batch(
        self, frames: Sequence[tuple[NDArray[np.float32], VadState]]
    ) -> list[tuple[float, VadState]]:
        """The same for several streams in one call of the runtime, to the same bits."""
        heard = np.stack([np.concatenate((state.context, frame)) for frame, state in frames])
        hidden = np.concatenate([state.hidden for _, state in frames], axis=1)
        output, hidden = self._session.run(
            None, {"input": heard, "state": hidden, "sr": self._rate}
        )
        # Copies: a view would keep the whole batch alive for one stream that falls silent.
        return [
            (
                float(output[row, 0]),
                VadState(heard[row, -_SILERO_CONTEXT:].copy(), hidden[:, row : row + 1].copy()),
            )
            for row in range(len(frames))
        ]


class EnergyVad(VadBackend):
    """Calls loud frames speech: for tests, and for hosts without a model.

    The probability is 0.5 at ``level`` and grows with the loudness, so thresholds keep a meaning.
    """

    def __init__(self, level: float = 0.02) -> None:
        """``level``: root mean square, full scale 1.0, that counts as probability 0.5."""
        self._level = level
        self._nothing = VadState(np.zeros(0, np.float32), np.zeros(0, np.float32))

    def fresh(self) -> VadState:
        """Energy has no memory."""
        return self._nothing

    def infer(self, frame: NDArray[np.float32], state: VadState) -> tuple[float, VadState]:
        """Rate one frame by its loudness alone."""
        rms = float(np.sqrt(np.mean(np.square(frame, dtype=np.float64))))
        return rms / (rms + self._level), state


class VadProvider:
    """Loads the process's one backend when it is first asked for.

    Thread-safe. A failure is remembered and raised again: a damaged file does not heal.
    """

    def __init__(self, model_path: str | Path | None = None, *, sha256: str | None = None) -> None:
        """Choose a model.

        Args:
            model_path: a Silero 16 kHz ONNX file; None: the one inside this package. An explicit
                path never falls back to another model.
            sha256: what an explicit file must hash to; None: not checked.
        """
        self._path = None if model_path is None else Path(model_path)
        self._sha256 = _SILERO_SHA256 if model_path is None else sha256
        self._lock = threading.Lock()
        self._backend: VadBackend | None = None
        self._failure: VadUnavailableError | None = None

    @classmethod
    def of(cls, backend: VadBackend) -> VadProvider:
        """A provider of a backend made elsewhere."""
        provider = cls()
        provider._backend = backend
        return provider

    @property
    def settled(self) -> bool:
        """Whether ``backend`` answers at once: it was loaded, or cannot be."""
        return self._backend is not None or self._failure is not None

    def backend(self) -> VadBackend:
        """The shared backend.

        Raises:
            VadUnavailableError: it cannot be had; the message says why.
        """
        with self._lock:
            if self._failure is not None:
                # A new one each time: raising the same object again would grow its traceback.
                raise VadUnavailableError(str(self._failure), hint=self._failure.hint)
            if self._backend is None:
                try:
                    self._backend = SileroVad(self._model())
                except VadUnavailableError as error:
                    self._failure = error
                    raise
            return self._backend

    def _model(self) -> bytes:
        source = self._path or resources.files("duplex_server") / "assets" / _SILERO_FILE
        try:
            model = source.read_bytes()
        except OSError as error:
            raise VadUnavailableError(
                f"the voice activity model cannot be read: {error}",
                hint="check duplex_session.server_vad_model_path"
                if self._path
                else "reinstall duplex-server",
            ) from error
        found = hashlib.sha256(model).hexdigest()
        if self._sha256 not in (None, found):
            raise VadUnavailableError(
                f"the voice activity model {source} is damaged: sha256 {found[:12]}... "
                f"instead of {str(self._sha256)[:12]}...",
                hint="reinstall duplex-server" if self._path is None else "fetch the file again",
            )
        return model
