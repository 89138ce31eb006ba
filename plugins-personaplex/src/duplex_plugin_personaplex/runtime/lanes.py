"""One row of a batch as a batch of its own.

A joining caller's prompt is many positions long. Run in the batch it would be computed for every
row, and would write over the oldest part of windows that are full. So it runs on a *lane*: the
same modules, with streaming states whose tensors are views of the one row. What the lane writes is
in the batch at once, without a copy.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from moshi.modules.streaming import State, StreamingModule
from moshi.modules.transformer import RingKVCache
from moshi.utils.compile import no_cuda_graph

__all__ = ["Batch", "States"]

States: TypeAlias = dict[str, Any]


class Batch:
    """A model in streaming mode for a fixed number of rows, which may leave out some of them.

    Args:
        module: in evaluation mode; streams from now on until :meth:`close`.
        rows: size of the batch.
        active: which rows a call moves on; one tensor for all modules, so that to change it is one
            write.
    """

    def __init__(self, module: StreamingModule[Any], rows: int, active: torch.Tensor) -> None:
        self._module = module
        self._rows = rows
        self._active = active
        self._stack = module.streaming(rows)
        self._states: States = module.get_streaming_state()
        for state in self._states.values():
            state.exec_mask = active

    def close(self) -> None:
        """Leave the streaming mode."""
        self._stack.close()

    def reset(self, row: int) -> None:
        """Make a row as good as new: nothing of an earlier caller is left, not even masked."""
        mask = torch.zeros(self._rows, dtype=torch.bool, device=self._active.device)
        mask[row] = True
        before = self._active.clone()
        self._module.reset_streaming(mask)
        self._active.copy_(before)
        for state in self._states.values():
            for value in vars(state).values():
                if isinstance(value, RingKVCache):
                    value.cache[:, row].zero_()

    @contextmanager
    def lane(self, row: int) -> Iterator[None]:
        """Within it, calls of the module are calls of this row alone, with a batch of one."""
        self._module.set_streaming_state(
            {name: _one_row(state, row, self._rows) for name, state in self._states.items()}
        )
        try:
            with no_cuda_graph():
                yield
        finally:
            self._module.set_streaming_state(self._states)


def _one_row(state: State, row: int, rows: int) -> State:
    lane = copy.copy(state)
    lane.batch_size = 1
    for name, value in vars(state).items():
        if isinstance(value, torch.Tensor) and value.dim() and value.shape[0] == rows:
            setattr(lane, name, value[row : row + 1])
        elif isinstance(value, RingKVCache):
            setattr(lane, name, _one_ring(value, row))
    lane.exec_mask = torch.ones(1, dtype=torch.bool, device=state.device)
    return lane


def _one_ring(ring: RingKVCache, row: int) -> RingKVCache:
    lane = copy.copy(ring)
    lane.cache = ring.cache[:, row : row + 1]
    lane.end_offset = ring.end_offset[row : row + 1]
    return lane
