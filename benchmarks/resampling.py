"""What another rate than the model's costs, on the way in and on the way out."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from duplex_sdk.audio import InputDecoder, OutputEncoder, PcmChunk

from .figure import Figure, quantile
from .workload import Units

__all__ = ["measure_resampling"]

CLIENT_RATE_HZ = 24_000
TELEPHONE_RATE_HZ = 8_000


def measure_resampling(workload: Units) -> list[Figure]:
    """Wall time of one unit, median, in this thread alone."""
    return [
        _input(workload, workload.input_rate_hz, "pcm16"),
        _input(workload, CLIENT_RATE_HZ, "pcm16"),
        _input(workload, TELEPHONE_RATE_HZ, "g711_ulaw"),
        _output(workload, workload.output_rate_hz, "pcm16"),
        _output(workload, workload.output_rate_hz * 2, "pcm16"),
        _output(workload, TELEPHONE_RATE_HZ, "g711_ulaw"),
    ]


def _input(workload: Units, rate: int, format: str) -> Figure:
    width = 1 if format == "g711_ulaw" else 2
    piece = bytes(rate * width * workload.unit_ms // 1000)
    decoder = InputDecoder(workload.input_rate_hz)
    took = _median_us(workload, lambda: decoder.decode(piece, format, rate))
    return Figure(f"input {format} {rate:,} to {workload.input_rate_hz:,} Hz", took, "us")


def _output(workload: Units, rate: int, format: str) -> Figure:
    samples = np.zeros(workload.output_rate_hz * workload.unit_ms // 1000, dtype=np.float32)
    piece = PcmChunk.of(samples, workload.output_rate_hz)
    encoder = OutputEncoder(format, workload.output_rate_hz, rate)
    took = _median_us(workload, lambda: encoder.encode(piece))
    return Figure(f"output {workload.output_rate_hz:,} to {format} {rate:,} Hz", took, "us")


def _median_us(workload: Units, step: Callable[[], object]) -> float:
    samples = []
    for _ in range(workload.lockstep):
        start = time.perf_counter()
        step()
        samples.append((time.perf_counter() - start) * 1e6)
    return quantile(samples, 0.5)
