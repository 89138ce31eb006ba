"""A second try for tests that meet real processes and sockets, where a run asks for it: CI does.

``--max-suite-reruns=N`` asks for it, and says how many second tries a whole run may need before the
next failure counts at once. Without that option, and for all other tests, a failure is a failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

__all__ = ["offer_second_tries"]


def offer_second_tries(
    config: pytest.Config, items: Iterable[pytest.Item], places: Iterable[Path]
) -> None:
    """Let each test in these folders and files be tried twice, if this run is asked to."""
    if config.getoption("max_suite_reruns", None) is None:
        return
    places = tuple(places)
    for item in items:
        if any(item.path.is_relative_to(place) for place in places):
            item.add_marker(pytest.mark.flaky(reruns=1))
