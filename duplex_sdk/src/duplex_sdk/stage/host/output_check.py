"""What a model may hand out: checked before it leaves the host."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from duplex_sdk.audio.chunk import SAMPLE_BYTES, PcmChunk
from duplex_sdk.stage.types import Array, StageError, StageOutput, ToolCall

__all__ = ["OutputCheck", "OutputFaultError"]

_LONGEST_S = 1


class OutputFaultError(ValueError):
    """An output breaks the contract; the message says how."""


class OutputCheck:
    """Checks outputs, mends samples that are no numbers, cuts audio into pieces of 1 s."""

    def __init__(self, rate: int | None) -> None:
        """``rate``: Hz that audio must have; None: any."""
        self._rate = rate
        self._nan_samples = 0

    def take_nan_samples(self) -> int:
        """How many samples were made zero since the last call."""
        count, self._nan_samples = self._nan_samples, 0
        return count

    def examine(self, output: StageOutput) -> tuple[StageOutput, ...]:
        """The output as it may leave: itself, mended, or in pieces.

        Raises:
            OutputFaultError: a field of the wrong type, the wrong rate, or half a sample.
        """
        _check_fields(output)
        audio = output.audio
        if audio is None:
            return (output,)
        sound = self._sound(audio)
        if sound is not audio:
            output = msgspec.structs.replace(output, audio=sound)
        if sound.count > sound.rate * _LONGEST_S:
            return _cut(output, sound)
        return (output,)

    def _sound(self, audio: PcmChunk) -> PcmChunk:
        if type(audio) is not PcmChunk or type(audio.data) is not bytes:
            raise OutputFaultError(f"audio must be a PcmChunk of bytes; got {_name(audio)}")
        if type(audio.rate) is not int or audio.rate <= 0:
            raise OutputFaultError(f"the rate of audio must be Hz; got {audio.rate!r}")
        if self._rate is not None and audio.rate != self._rate:
            raise OutputFaultError(
                f"audio at {audio.rate} Hz; the plugin's output rate is {self._rate} Hz"
            )
        if len(audio.data) % SAMPLE_BYTES:
            raise OutputFaultError("audio must be whole float32 samples")
        # Only what is no number, and nothing below 1e38, begins with one of these bytes. Looking at
        # bytes is quicker than asking numpy, which lets go of the interpreter for every question.
        first_bytes = audio.data[SAMPLE_BYTES - 1 :: SAMPLE_BYTES]
        if 0x7F not in first_bytes and 0xFF not in first_bytes:
            return audio
        return self._mended(audio)

    def _mended(self, audio: PcmChunk) -> PcmChunk:
        # Imported by whoever has to mend: what is on the way to a worker costs no numpy.
        import numpy as np

        samples = audio.numpy()
        sane = np.isfinite(samples)
        if sane.all():
            return audio
        self._nan_samples += int(samples.size - np.count_nonzero(sane))
        return PcmChunk(np.where(sane, samples, np.float32(0)).tobytes(), audio.rate)


def _check_fields(output: StageOutput) -> None:
    if output.text is not None and type(output.text) is not str:
        raise OutputFaultError(f"text must be str; got {_name(output.text)}")
    if output.user_text is not None and type(output.user_text) is not str:
        raise OutputFaultError(f"user_text must be str; got {_name(output.user_text)}")
    if output.marks:
        _check_marks(output.marks)
    if output.error is not None and type(output.error) is not StageError:
        raise OutputFaultError(f"error must be a StageError; got {_name(output.error)}")
    if output.tool_call is not None and type(output.tool_call) is not ToolCall:
        raise OutputFaultError(f"tool_call must be a ToolCall; got {_name(output.tool_call)}")
    if not isinstance(output.token_ids, (tuple, list)):
        raise OutputFaultError(f"token_ids must be a tuple; got {_name(output.token_ids)}")
    if type(output.data) is not dict and not isinstance(output.data, Mapping):
        raise OutputFaultError(f"data must be a mapping; got {_name(output.data)}")
    if output.arrays:
        _check_arrays(output.arrays)
    again = output.again_ms
    if again is not None and not (_is_number(again) and math.isfinite(again) and again >= 0):
        raise OutputFaultError(f"again_ms must be a number of ms from 0 on; got {again!r}")


def _check_marks(marks: object) -> None:
    if not isinstance(marks, (tuple, list)):
        raise OutputFaultError(f"marks must be a tuple; got {_name(marks)}")
    for mark in marks:
        pair = mark if isinstance(mark, (tuple, list)) else ()
        if len(pair) != 2 or not all(_is_number(value) and value >= 0 for value in pair):
            raise OutputFaultError(f"a mark must be (characters, ms); got {mark!r}")


def _check_arrays(arrays: object) -> None:
    if not isinstance(arrays, Mapping):
        raise OutputFaultError(f"arrays must be a mapping; got {_name(arrays)}")
    for name, array in arrays.items():
        if type(array) is not Array:
            raise OutputFaultError(f"arrays[{name!r}] must be an Array; got {_name(array)}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _name(value: object) -> str:
    return type(value).__name__


def _cut(output: StageOutput, audio: PcmChunk) -> tuple[StageOutput, ...]:
    """Pieces of at most 1 s: what is said about the whole goes first, what ends it goes last."""
    size = audio.rate * _LONGEST_S * SAMPLE_BYTES
    chunks = [
        PcmChunk(audio.data[start : start + size], audio.rate)
        for start in range(0, len(audio.data), size)
    ]
    marks = output.marks
    if marks is None and output.text:
        # Without marks the text would end with the first piece.
        marks = ((len(output.text), audio.duration_ms),)
    first = msgspec.structs.replace(
        output,
        audio=chunks[0],
        marks=marks,
        listen=False,
        end_of_turn=False,
        error=None,
        segment_end=False,
        again_ms=None,
    )
    identity = (output.session_id, output.request_id, output.epoch, output.turn_id)
    # No marks of their own: left to themselves they would say that the text ends with each of them.
    middle = [StageOutput(*identity, audio=chunk, marks=()) for chunk in chunks[1:-1]]
    last = StageOutput(
        *identity,
        audio=chunks[-1],
        marks=(),
        listen=output.listen,
        end_of_turn=output.end_of_turn,
        error=output.error,
        segment_end=output.segment_end,
        again_ms=output.again_ms,
    )
    return (first, *middle, last)
