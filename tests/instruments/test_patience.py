"""Patience ends."""

from __future__ import annotations

import pytest
from patience import eventually, wait_until


async def test_what_does_not_come_about_is_a_timeout() -> None:
    with pytest.raises(TimeoutError):
        await eventually(lambda: False, 0.02)
    with pytest.raises(TimeoutError):
        wait_until(lambda: False, 0.02)


async def test_what_came_about_is_not_waited_for() -> None:
    await eventually(lambda: True, 0.0)
    wait_until(lambda: True, 0.0)
