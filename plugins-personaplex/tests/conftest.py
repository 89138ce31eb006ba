"""A tiny checkpoint, written once, and the model on it."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NO_TORCH_COMPILE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from model_runs import load
from second_tries import offer_second_tries

from duplex_plugin_personaplex.runtime.loading import LoadedModel
from duplex_plugin_personaplex.runtime.pieces import TextTokens
from duplex_plugin_personaplex.runtime.source import find_checkpoint
from duplex_plugin_personaplex.testing import write_tiny_checkpoint


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    offer_second_tries(config, items, [here / "test_served.py", here / "test_served_duplex.py"])


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_checkpoint(tmp_path_factory.mktemp("checkpoint") / "personaplex")


@pytest.fixture(scope="session")
def loaded(checkpoint: Path) -> LoadedModel:
    return load(checkpoint)


@pytest.fixture(scope="session")
def tokens(checkpoint: Path, loaded: LoadedModel) -> TextTokens:
    return TextTokens(find_checkpoint(str(checkpoint)).text, loaded.sizes.text_card)
