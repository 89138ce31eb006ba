from __future__ import annotations

import numpy
import pytest
from duplex_sdk.audio import PcmChunk, StreamResampler, resample
from numpy.typing import NDArray

TONE_HZ = 440
SECONDS = 10


def tone(rate: int, seconds: float = SECONDS) -> NDArray[numpy.float32]:
    time = numpy.arange(int(rate * seconds)) / rate
    return (0.5 * numpy.sin(2 * numpy.pi * TONE_HZ * time)).astype(numpy.float32)


def streamed(samples: NDArray[numpy.float32], rates: tuple[int, ...], cut: int) -> PcmChunk:
    """The samples through a chain of streams, in pieces of ``cut`` samples."""
    stages = [StreamResampler(rates[i], rates[i + 1]) for i in range(len(rates) - 1)]
    data = samples.tobytes()
    out = b""
    for start in range(0, len(data), 4 * cut):
        chunk = PcmChunk(data[start : start + 4 * cut], rates[0])
        for stage in stages:
            chunk = stage.process(chunk)
        out += chunk.data
    for index, stage in enumerate(stages):
        chunk = stage.flush()
        for later in stages[index + 1 :]:
            chunk = later.process(chunk)
        out += chunk.data
    return PcmChunk(out, rates[-1])


@pytest.mark.parametrize("cut", [480, 960, 1776], ids=["10ms", "20ms", "37ms"])
def test_a_stream_gives_the_samples_of_one_piece_however_it_is_cut(cut: int) -> None:
    samples = tone(48_000)
    whole = streamed(samples, (48_000, 16_000, 24_000), len(samples))
    pieces = streamed(samples, (48_000, 16_000, 24_000), cut)
    assert pieces.data == whole.data


def test_a_stream_of_single_samples_gives_the_same_too() -> None:
    samples = tone(48_000, 0.5)
    rates = (48_000, 16_000, 24_000)
    assert streamed(samples, rates, 1).data == streamed(samples, rates, len(samples)).data


def test_resampling_there_and_back_keeps_the_length_within_a_millisecond() -> None:
    out = streamed(tone(48_000), (48_000, 16_000, 24_000), 480)
    assert abs(out.duration_ms - SECONDS * 1000) <= 1


@pytest.mark.parametrize(
    "rates", [(48_000, 16_000), (44_100, 16_000), (8_000, 16_000), (24_000, 8_000)]
)
def test_every_pair_of_rates_keeps_the_length(rates: tuple[int, int]) -> None:
    out = streamed(tone(rates[0], 1.0), rates, 480)
    assert abs(out.count - rates[1]) <= 1


def test_a_resampled_sine_has_no_spurs_and_no_clicks() -> None:
    out = streamed(tone(48_000), (48_000, 16_000, 24_000), 480).numpy()
    middle = out[2_400:-2_400]
    spectrum = numpy.abs(numpy.fft.rfft(middle * numpy.blackman(len(middle))))
    frequencies = numpy.fft.rfftfreq(len(middle), 1 / 24_000)
    spurs = spectrum[numpy.abs(frequencies - TONE_HZ) > 5]
    assert 20 * numpy.log10(spurs.max() / spectrum.max()) < -60
    steepest = 0.5 * 2 * numpy.pi * TONE_HZ / 24_000
    assert numpy.abs(numpy.diff(middle)).max() <= steepest * 1.001


def test_a_whole_recording_is_the_sine_at_the_new_rate() -> None:
    out = resample(PcmChunk.of(tone(48_000, 1.0), 48_000), 16_000).numpy()
    assert numpy.allclose(out[200:-200], tone(16_000, 1.0)[200:-200], atol=1e-4)


def test_streams_share_no_state() -> None:
    loud, silent = StreamResampler(24_000, 16_000), StreamResampler(24_000, 16_000)
    for _ in range(20):
        loud.process(PcmChunk.of(numpy.ones(480, numpy.float32), 24_000))
        assert not silent.process(PcmChunk.silence(480, 24_000)).numpy().any()


def test_a_flushed_stream_begins_anew() -> None:
    stream = StreamResampler(24_000, 16_000)
    samples = PcmChunk.of(tone(24_000, 0.3), 24_000)
    first = stream.process(samples).data + stream.flush().data
    second = stream.process(samples).data + stream.flush().data
    assert first == second


def test_a_reset_stream_forgets_what_it_held() -> None:
    stream = StreamResampler(24_000, 16_000)
    stream.process(PcmChunk.of(tone(24_000, 0.3), 24_000))
    stream.reset()
    assert stream.flush().data == b""


def test_equal_rates_pass_through() -> None:
    chunk = PcmChunk.of(tone(16_000, 0.1), 16_000)
    stream = StreamResampler(16_000, 16_000)
    assert stream.process(chunk) is chunk
    assert stream.flush().data == b""


def test_a_chunk_of_another_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="24000 Hz, the chunk 16000 Hz"):
        StreamResampler(24_000, 16_000).process(PcmChunk.silence(1, 16_000))


def test_an_impossible_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="above zero"):
        StreamResampler(0, 16_000)
