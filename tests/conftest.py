"""Which tests meet real processes and sockets."""

from __future__ import annotations

from pathlib import Path

import pytest
from second_tries import offer_second_tries

HERE = Path(__file__).parent
REAL_PROCESSES_AND_SOCKETS = (
    HERE / "artifacts",
    HERE / "integration",
    HERE / "scaffold",
    HERE / "sdk" / "stage" / "test_worker_program.py",
    HERE / "server" / "cli",
    HERE / "server" / "serving",
    HERE / "server" / "stages",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    offer_second_tries(config, items, REAL_PROCESSES_AND_SOCKETS)
