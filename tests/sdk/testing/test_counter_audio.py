from __future__ import annotations

import numpy as np
import pytest
from duplex_sdk.testing import Block, CounterAudio
from hypothesis import given, settings
from hypothesis import strategies as st

BLOCK = 480


def pcm(counter: CounterAudio, session: int, response: int, start: int, count: int) -> bytes:
    samples = counter.write(session, response, start, count).numpy()
    return np.rint(samples * 32768).astype("<i2").tobytes()


@pytest.fixture(scope="module")
def counter() -> CounterAudio:
    return CounterAudio(24_000)


class TestRoundTrip:
    def test_every_block_says_whose_it_is_and_where(self, counter: CounterAudio) -> None:
        blocks = counter.read(pcm(counter, 7, 3, 0, 3 * BLOCK))
        assert blocks == [Block(7, 3, index, index * BLOCK) for index in range(3)]
        assert counter.faults(blocks) == []

    def test_levels_are_those_of_the_format(self, counter: CounterAudio) -> None:
        samples = np.frombuffer(pcm(counter, 0b10000001, 0, 0, BLOCK), dtype="<i2")
        assert samples[:8].tolist() == [8000, *[-8000] * 6, 8000]
        assert not samples[32:].any()

    def test_ordinals_and_indexes_wrap(self, counter: CounterAudio) -> None:
        (block,) = counter.read(pcm(counter, 256 + 5, 512 + 6, 65537 * BLOCK, BLOCK))
        assert (block.session, block.response, block.index) == (5, 6, 1)

    @given(st.lists(st.integers(1, 1000), min_size=1, max_size=10))
    @settings(deadline=None)
    def test_pieces_of_any_length_join_to_the_same_samples(self, lengths: list[int]) -> None:
        counter = CounterAudio(24_000)
        joined, start = b"", 0
        for length in lengths:
            joined += counter.write(1, 2, start, length).data
            start += length
        assert joined == counter.write(1, 2, 0, start).data

    @pytest.mark.parametrize("rate", [8000, 16000, 22050, 48000])
    def test_other_rates(self, rate: int) -> None:
        counter = CounterAudio(rate)
        blocks = counter.read(pcm(counter, 1, 1, 0, rate))
        assert [block.index for block in blocks] == list(range(50))
        assert counter.faults(blocks) == []

    def test_a_rate_without_room_for_the_bits_is_refused(self) -> None:
        with pytest.raises(ValueError, match="1600 Hz"):
            CounterAudio(1000)

    def test_silence_holds_no_blocks(self, counter: CounterAudio) -> None:
        assert counter.read(bytes(2 * BLOCK)) == []


class TestDamage:
    def faults(self, counter: CounterAudio, data: bytes) -> list[str]:
        return counter.faults(counter.read(data))

    def test_a_lost_block(self, counter: CounterAudio) -> None:
        data = pcm(counter, 1, 1, 0, BLOCK) + pcm(counter, 1, 1, 2 * BLOCK, BLOCK)
        assert self.faults(counter, data) == ["1 blocks lost before sample 480"]

    def test_a_repeated_block(self, counter: CounterAudio) -> None:
        data = pcm(counter, 1, 1, 0, BLOCK) * 2
        assert self.faults(counter, data) == ["block 0 repeated at sample 480"]

    def test_blocks_in_the_wrong_order(self, counter: CounterAudio) -> None:
        order = (0, 2, 1)
        data = b"".join(pcm(counter, 1, 1, index * BLOCK, BLOCK) for index in order)
        assert "block 1 out of order at sample 960" in self.faults(counter, data)

    def test_a_block_of_another_session_or_response(self, counter: CounterAudio) -> None:
        for who in ((2, 1), (1, 2)):
            data = pcm(counter, 1, 1, 0, BLOCK) + pcm(counter, *who, BLOCK, BLOCK)
            (fault,) = self.faults(counter, data)
            assert "another response" in fault

    def test_samples_lost_inside_a_block(self, counter: CounterAudio) -> None:
        data = pcm(counter, 1, 1, 0, 2 * BLOCK)
        quiet = data[: 2 * 400] + data[2 * 410 :]
        assert self.faults(counter, quiet) == ["block 1 is displaced at sample 470"]
        loud = data[:20] + data[40:]
        assert "broken block at sample 0" in self.faults(counter, loud)

    def test_a_missing_start(self, counter: CounterAudio) -> None:
        assert self.faults(counter, pcm(counter, 1, 1, BLOCK, BLOCK)) == ["starts at block 1"]

    def test_a_block_cut_off_at_the_end(self, counter: CounterAudio) -> None:
        data = pcm(counter, 1, 1, 0, BLOCK + 10)
        assert self.faults(counter, data) == ["broken block at sample 480"]
