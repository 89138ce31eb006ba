"""A voice's ``.pt`` that cannot be read out is refused by name before anybody asks for it."""

from __future__ import annotations

import io
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from duplex_plugin_personaplex.runtime.errors import CheckpointError
from duplex_plugin_personaplex.runtime.loading import LoadedModel
from duplex_plugin_personaplex.runtime.prompt import MAX_VOICE_FRAMES, make_prompt
from duplex_plugin_personaplex.runtime.replay_file import read_replay
from duplex_plugin_personaplex.runtime.sizes import LmSizes
from duplex_plugin_personaplex.runtime.voice_bank import VoiceBank

STEPS = 5


@pytest.fixture
def sizes(loaded: LoadedModel) -> LmSizes:
    return loaded.sizes


def saved(content: object) -> bytes:
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def voice(sizes: LmSizes, **changes: Any) -> dict[str, Any]:
    embeddings = torch.ones(STEPS, 1, 1, sizes.dim)
    return {"embeddings": embeddings, "cache": torch.zeros(1, 17, 4).long(), **changes}


def test_a_voice_is_what_was_saved(sizes: LmSizes) -> None:
    ring = torch.full((1, 17, 4), sizes.card)
    ring[:, 0] = sizes.text_card
    ring[0, 5, 2] = -2
    found = read_replay(saved(voice(sizes, cache=ring)), sizes, "one")
    assert found.embeddings.shape == (STEPS, sizes.dim)
    assert torch.equal(found.ring, ring[0])


def ring_with(row: int, token: int) -> torch.Tensor:
    ring = torch.zeros(1, 17, 4).long()
    ring[0, row, 3] = token
    return ring


@pytest.mark.parametrize(
    "changes",
    [
        {"embeddings": torch.ones(STEPS, 1, 1, 64)},
        {"embeddings": torch.ones(0, 1, 1, 32)},
        {"embeddings": torch.ones(STEPS, 1, 1, 32).long()},
        {"embeddings": torch.ones(STEPS, 32).to_sparse()},
        {"embeddings": torch.ones(STEPS, 1, 1, 32, dtype=torch.complex64)},
        {"cache": torch.zeros(1, 17, 3).long()},
        {"cache": torch.zeros(1, 17, 4)},
        {"cache": ring_with(0, 62)},
        {"cache": ring_with(1, 2049)},
        {"cache": ring_with(16, 1 << 40)},
        {"cache": ring_with(3, -3)},
    ],
)
def test_a_voice_of_another_model_is_refused(sizes: LmSizes, changes: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="'mine' was made with another model"):
        read_replay(saved(voice(sizes, **changes)), sizes, "mine")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_voice_that_is_no_numbers_is_refused(sizes: LmSizes, value: float) -> None:
    embeddings = torch.full((STEPS, 1, 1, sizes.dim), value)
    with pytest.raises(CheckpointError, match="'noise' holds values that are no finite numbers"):
        read_replay(saved(voice(sizes, embeddings=embeddings)), sizes, "noise")


def test_a_voice_that_leaves_no_room_for_a_prompt_is_refused(sizes: LmSizes) -> None:
    longest = torch.ones(MAX_VOICE_FRAMES - 1, 1, 1, sizes.dim)
    fits = read_replay(saved(voice(sizes, embeddings=longest)), sizes, "long")
    assert make_prompt(fits, [], text_card=sizes.text_card, card=sizes.card).frames == 375
    longer = saved(voice(sizes, embeddings=torch.cat([longest, longest[:1]])))
    with pytest.raises(CheckpointError, match="takes 364 frames of 80 ms"):
        read_replay(longer, sizes, "long")


@pytest.mark.parametrize(
    "content",
    [
        torch.zeros(3),
        [1],
        None,
        {"embeddings": torch.zeros(5)},
        {"embeddings": torch.tensor(1.0), "cache": torch.zeros(1, 17, 4).long()},
        {"embeddings": torch.zeros(5, 32), "cache": "text"},
    ],
    ids=lambda content: type(content).__name__,
)
def test_a_file_of_something_else_is_refused(sizes: LmSizes, content: object) -> None:
    with pytest.raises(CheckpointError, match="'mine' is damaged"):
        read_replay(saved(content), sizes, "mine")


@pytest.mark.filterwarnings("ignore")
def test_whatever_a_damaged_file_holds_it_is_refused_in_words(sizes: LmSizes) -> None:
    rng = random.Random(1)
    whole = (saved(voice(sizes)), pickle.dumps({"embeddings": [1, 2], "x": "y"}, protocol=2))
    for _ in range(300):
        data = bytearray(rng.choice(whole))
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        del data[rng.randrange(len(data) // 2, len(data)) :]
        with pytest.raises(CheckpointError, match="the voice 'mine'"):
            read_replay(bytes(data), sizes, "mine")


def test_a_voice_in_the_folder_that_cannot_be_used_stops_the_start(
    tmp_path: Path, checkpoint: Path, sizes: LmSizes
) -> None:
    (tmp_path / "mine.pt").write_bytes(saved(voice(sizes, cache=ring_with(1, 2049))))
    with pytest.raises(CheckpointError, match="'mine' was made with another model"):
        VoiceBank(checkpoint / "voices.tgz", tmp_path, sizes=sizes)
