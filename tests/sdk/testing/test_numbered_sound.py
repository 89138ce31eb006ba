from __future__ import annotations

import numpy
import pytest
from duplex_sdk.testing.numbered_sound import GROUP, numbers_of, sound
from duplex_sdk.testing.seeded_ids import SeededIds


def as_floats(pcm: bytes) -> bytes:
    return (numpy.frombuffer(pcm, "<i2") / numpy.float32(32768)).astype("<f4").tobytes()


@pytest.mark.parametrize("loud", [True, False])
@pytest.mark.parametrize("rate", [8000, 16_000, 24_000])
def test_every_group_of_samples_says_its_number(loud: bool, rate: int) -> None:
    for first in (0, 7, 4321, 100_000):
        samples, following = sound(first, 900, rate, loud=loud)
        assert numbers_of(as_floats(samples)).tolist() == list(range(first, following))


def test_numbers_are_read_where_sound_follows_silence_and_the_end_is_cut() -> None:
    quiet, middle = sound(50, 20, 16_000, loud=False)
    loud, end = sound(middle, 20, 16_000, loud=True)
    data = as_floats(quiet + loud)
    assert numbers_of(data).tolist() == list(range(50, end))
    assert numbers_of(data[:-4]).tolist() == list(range(50, end - 1))
    assert numbers_of(data[4 * GROUP :]).tolist() == list(range(51, end))
    assert numbers_of(b"").tolist() == []


def test_ids_are_those_of_their_seed_and_never_the_same() -> None:
    one, again, other = SeededIds(1), SeededIds(1), SeededIds(2)
    made = [one.hex32() for _ in range(50)]
    assert made == [again.hex32() for _ in range(50)]
    others = [other.hex32() for _ in range(50)]
    assert len({*made, *others}) == 100
    assert all(len(each) == 32 and int(each, 16) >= 0 for each in made)
    seeds = [ids.seed() for ids in (one, other) for _ in range(50)]
    assert len(set(seeds)) == 100
    assert all(0 <= seed < 1 << 63 for seed in seeds)
