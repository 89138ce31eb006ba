from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def specimens() -> Iterator[None]:
    """The plugins of this folder can be imported, here and in a fresh interpreter."""
    folder = str(Path(__file__).parent)
    sys.path.insert(0, folder)
    yield
    sys.path.remove(folder)
