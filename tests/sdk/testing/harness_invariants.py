"""Invariants that need a shell, a stage or a server: the tests that hold them, by number.

The others are laws of ``duplex_sdk.testing.invariants``, held by the simulator. A number may stand in
both. A test is named by its file and function; classes and parameters are left out.
"""

from __future__ import annotations

HARNESS: dict[int, tuple[str, ...]] = {}
"""Number to ``tests/path.py::test_name``."""

OPEN: frozenset[int] = frozenset(
    {
        *(77, 78, 86, 90, 91, 92),
        *range(94, 117),
        119,
    }
)
"""Numbers that nothing holds yet; empty when the work is done."""
