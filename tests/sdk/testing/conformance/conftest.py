from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = str(Path(__file__).parent)

# The plugins of this folder can be imported, here and in a fresh interpreter.
sys.path.insert(0, FOLDER)


@pytest.fixture(scope="session", autouse=True)
def specimens() -> Iterator[None]:
    """The folder is on the path no longer than its tests run."""
    yield
    sys.path.remove(FOLDER)
