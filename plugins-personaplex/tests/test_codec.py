"""Mimi frame by frame in a batch is Mimi at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from model_runs import speech

from duplex_plugin_personaplex.figures import FRAME_SAMPLES
from duplex_plugin_personaplex.runtime.codec import BatchCodec
from duplex_plugin_personaplex.runtime.loading import LoadedModel

ROWS = 3


class Codec:
    def __init__(self, loaded: LoadedModel) -> None:
        self.active = torch.ones(ROWS, dtype=torch.bool)
        self.batch = BatchCodec(loaded.mimi, ROWS, self.active)


@pytest.fixture
def codec(loaded: LoadedModel) -> Iterator[Codec]:
    codec = Codec(loaded)
    yield codec
    codec.batch.close()


@pytest.fixture(scope="module")
def sound() -> torch.Tensor:
    return torch.from_numpy(speech(12, seed=1))


@pytest.fixture(scope="module")
def codes(loaded: LoadedModel, sound: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        encoded: torch.Tensor = loaded.mimi.encode(sound.reshape(1, 1, -1))
    return encoded[0]


def test_encoding_by_frames_is_encoding_at_once(
    codec: Codec, sound: torch.Tensor, codes: torch.Tensor
) -> None:
    by_frames = [codec.batch.encode(frame.expand(ROWS, -1))[1] for frame in sound]
    assert torch.equal(torch.stack(by_frames, dim=1), codes)


def test_decoding_by_frames_is_decoding_at_once(
    codec: Codec, loaded: LoadedModel, codes: torch.Tensor
) -> None:
    by_frames = [codec.batch.decode(frame.expand(ROWS, -1))[2] for frame in codes.T]
    codec.batch.close()
    with torch.no_grad():
        at_once = loaded.mimi.decode(codes[None])[0, 0]
    assert torch.allclose(torch.cat(by_frames), at_once, atol=1e-5)


def test_a_row_left_out_stands_still(
    codec: Codec, sound: torch.Tensor, codes: torch.Tensor
) -> None:
    said = []
    for number, frame in enumerate(sound):
        codec.active[:] = torch.tensor([True, True, True])
        said.append(codec.batch.encode(frame.expand(ROWS, -1))[1])
        codec.active[:] = torch.tensor([True, False, True])
        codec.batch.encode(torch.full((ROWS, FRAME_SAMPLES), 0.1 * number))
    assert torch.equal(torch.stack(said, dim=1), codes)


def test_a_lane_is_the_row_and_leaves_the_others_alone(
    codec: Codec, sound: torch.Tensor, codes: torch.Tensor
) -> None:
    first = codec.batch.encode(sound[0].expand(ROWS, -1))
    in_lane = codec.batch.encode_in_lane(1, sound[1:7].reshape(-1))
    codec.active[:] = torch.tensor([False, True, False])
    rest = [codec.batch.encode(frame.expand(ROWS, -1))[1] for frame in sound[7:]]
    said = torch.cat([first[1][:, None], in_lane, torch.stack(rest, dim=1)], dim=1)
    assert torch.equal(said, codes)
    codec.active[:] = torch.tensor([True, False, True])
    others = [codec.batch.encode(frame.expand(ROWS, -1))[0] for frame in sound[1:]]
    assert torch.equal(torch.stack([first[0], *others], dim=1), codes)


def test_a_reset_row_begins_anew(codec: Codec, sound: torch.Tensor, codes: torch.Tensor) -> None:
    for frame in sound.flip(0):
        codec.batch.decode(codec.batch.encode(frame.expand(ROWS, -1)))
    codec.batch.reset(0)
    said = [codec.batch.encode(frame.expand(ROWS, -1)) for frame in sound]
    assert torch.equal(torch.stack([frame[0] for frame in said], dim=1), codes)
    assert not torch.equal(torch.stack([frame[1] for frame in said], dim=1), codes)
