"""One step of a model: what it hands out, checked, and its failures laid at the right door."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from duplex_sdk.stage.model import StageModel
from duplex_sdk.stage.types import StageOutput, StageUnit

from .output_check import OutputCheck, OutputFaultError

__all__ = ["BatchLostError", "PanicError", "Stepper", "describe"]

logger = logging.getLogger(__name__)

_UNIT_FAILED = "runtime_append_failed"


class BatchLostError(Exception):
    """A batched step raised: nobody knows what became of the states of its sessions."""


class PanicError(Exception):
    """A model raised what is no ``Exception``: a failure of the model like any other.

    A library written in Rust does when it panics, one that waits for asyncio when it is cancelled.
    Only Ctrl-C stays what it is, where it can arrive.
    """


def describe(error: BaseException) -> str:
    """An exception in one line, for an error message."""
    if isinstance(error, PanicError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class Stepper:
    """Steps a model that wrote ``step_unit``, or one that wrote ``step``.

    Attributes:
        batches: the model computes a batch in one call.
    """

    def __init__(
        self,
        model: StageModel[Any],
        check: OutputCheck,
        serves: Callable[[str, str], bool],
    ) -> None:
        """Make one.

        Args:
            model: to step.
            check: of what it hands out.
            serves: whether a session has a request of this id.
        """
        self._model = model
        self._check = check
        self._serves = serves
        self.batches = type(model).step is not StageModel.step

    def step_unit(self, unit: StageUnit[Any], now: float) -> list[StageOutput]:
        """The outputs of one unit; a failure is one of them, behind those that came before it."""
        outputs: list[StageOutput] = []
        try:
            for output in _iterable(self._model.step_unit(unit, now)):
                outputs.extend(self._check.examine(self._own(output, unit)))
        except OutputFaultError as fault:
            outputs.append(unit.failed(_UNIT_FAILED, f"the model's output was refused: {fault}"))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # see ``PanicError``
            logger.exception("a model failed in step_unit")
            outputs.append(unit.failed(_UNIT_FAILED, describe(error)))
        return outputs

    def step(self, units: Sequence[StageUnit[Any]], now: float) -> list[StageOutput]:
        """The outputs of one batched call, failures of single units included.

        Raises:
            BatchLostError: the call raised.
        """
        try:
            produced = list(_iterable(self._model.step(units, now)))
        except OutputFaultError as fault:
            return [unit.failed(_UNIT_FAILED, str(fault)) for unit in units]
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # see ``PanicError``
            logger.exception("a model failed in step; the sessions of the batch end")
            raise BatchLostError(describe(error)) from error
        return self._sorted_out(units, produced)

    def _sorted_out(
        self, units: Sequence[StageUnit[Any]], produced: Iterable[object]
    ) -> list[StageOutput]:
        by_session = {unit.session_id: unit for unit in units}
        outputs: list[StageOutput] = []
        refused: dict[str, str] = {}
        for output in produced:
            unit = _unit_of(output, by_session)
            if unit is None:
                # It belongs to nobody of the batch, so each of them may be missing something.
                message = f"step handed out {_foreign(output)}"
                refused.update((session_id, message) for session_id in by_session)
            elif unit.session_id not in refused:
                try:
                    outputs.extend(self._check.examine(self._own(output, unit)))
                except OutputFaultError as fault:
                    refused[unit.session_id] = f"the model's output was refused: {fault}"
        outputs.extend(
            by_session[session_id].failed(_UNIT_FAILED, message)
            for session_id, message in refused.items()
        )
        return outputs

    def _own(self, output: object, unit: StageUnit[Any]) -> StageOutput:
        """The output, if it is one and speaks for the unit's session.

        What a session says late may carry an older turn or epoch; who reads it knows what is
        current. A session that answers several requests may say something of any of them.
        """
        if not isinstance(output, StageOutput):
            raise OutputFaultError(f"expected a StageOutput, got {type(output).__name__}")
        if type(output.epoch) is not int or type(output.turn_id) is not int:
            raise OutputFaultError("its epoch and turn must be int")
        if output.session_id != unit.session_id:
            raise OutputFaultError("its session is not the unit's")
        here = (unit.epoch, unit.turn_id)
        there = (output.epoch, output.turn_id)
        other = output.request_id != unit.request_id
        if other and there == here and not self._serves(unit.session_id, output.request_id):
            raise OutputFaultError("its request is none of the session's")
        if there > here:
            raise OutputFaultError("its epoch or turn lies in the future")
        return output


def _iterable(produced: Any) -> Iterable[object]:
    # Not isinstance of Iterable: an abstract class is asked by four calls, for every unit.
    if hasattr(produced, "__iter__") and not isinstance(produced, (str, bytes, dict)):
        return produced  # type: ignore[no-any-return]
    raise OutputFaultError(f"expected an iterable of StageOutput, got {type(produced).__name__}")


def _unit_of(output: object, units: dict[str, StageUnit[Any]]) -> StageUnit[Any] | None:
    if not isinstance(output, StageOutput) or type(output.session_id) is not str:
        return next(iter(units.values())) if len(units) == 1 else None
    return units.get(output.session_id)


def _foreign(output: object) -> str:
    if isinstance(output, StageOutput):
        return "an output of a session that is not in the batch"
    return f"a {type(output).__name__} instead of a StageOutput"
