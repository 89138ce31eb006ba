"""One pass of the host as messages that are sure to reach the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from duplex_sdk.stage.host.result import HostResult
from duplex_sdk.stage.types import StageError, StageOutput

from .engine_link import EngineLink, LinkLostError
from .framing import MAX_FRAME_BYTES, encoded_size
from .messages import Closed, Failed, FromWorker, Opened, Outputs

__all__ = ["pass_on_result"]

_ROOM_FOR_THE_REST = 1024 * 1024


def pass_on_result(link: EngineLink, result: HostResult) -> None:
    """Send everything a pass brought, ``Outputs`` last.

    A model may have put something into an output that no message carries: that output then
    becomes an error of its session and the others are sent as they are.

    Raises:
        LinkLostError: the engine is gone.
    """
    news = _news(result)
    try:
        link.send(*news, _outputs(result, result.outputs))
    except LinkLostError:
        raise
    except Exception:  # whatever a model's values raise in the encoder
        if news:
            link.send(*news)
        *first, last = _in_frames([_fit_to_send(output) for output in result.outputs])
        for part in first:
            link.send(Outputs(part))
        link.send(_outputs(result, last))


def _news(result: HostResult) -> list[FromWorker]:
    return [
        *(Opened(session_id, took_ms) for session_id, took_ms in result.opened),
        *(Failed(session_id, error) for session_id, error in result.failed),
        *(Closed(session_id) for session_id in result.closed),
    ]


def _outputs(result: HostResult, outputs: Sequence[StageOutput]) -> Outputs:
    return Outputs(outputs, result.taken, result.idle, result.report)


def _fit_to_send(output: StageOutput) -> tuple[StageOutput, int]:
    """The output or what stands for it, and its size in bytes."""
    try:
        size = encoded_size(output)
        if size <= MAX_FRAME_BYTES - _ROOM_FOR_THE_REST:
            return output, size
        reason = f"it has {size} bytes"
    except Exception as error:  # see above
        reason = f"{type(error).__name__}: {error}"
    failure = StageError("runtime_append_failed", f"an output cannot leave the worker: {reason}")
    refused = StageOutput(
        output.session_id, output.request_id, output.epoch, output.turn_id, error=failure
    )
    return refused, 0


def _in_frames(outputs: Sequence[tuple[StageOutput, int]]) -> Iterator[list[StageOutput]]:
    """The outputs in portions that fit a frame; at least one portion, maybe empty."""
    portion: list[StageOutput] = []
    filled = 0
    for output, size in outputs:
        if portion and filled + size > MAX_FRAME_BYTES - _ROOM_FOR_THE_REST:
            yield portion
            portion, filled = [], 0
        portion.append(output)
        filled += size
    yield portion
