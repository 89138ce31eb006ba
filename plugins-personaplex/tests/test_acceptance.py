"""What ``make verify-gpu`` does, on the tiny checkpoint here and on the release there."""

from __future__ import annotations

import json
import os
import shutil
import statistics
from pathlib import Path

import pytest
import torch

from duplex_plugin_personaplex.runtime.bench import measure
from duplex_plugin_personaplex.testing.acceptance import accept

CHECKPOINT = os.environ.get("DUPLEX_CHECKPOINT", "")
RESULT = Path(os.environ.get("DUPLEX_RESULT", "verify-gpu-personaplex.json"))


def test_the_tiny_checkpoint_is_accepted(checkpoint: Path, tmp_path: Path) -> None:
    found = accept(str(checkpoint), device="cpu", frames=25, batches=(1, 2), bench_frames=5)
    assert found.whole
    assert found.comparison is not None
    assert (found.comparison.equal, found.comparison.first_difference) == (25, None)
    assert [row.batch for row in found.rows] == [1, 2]
    found.write(tmp_path / "out" / "result.json")
    written = json.loads((tmp_path / "out" / "result.json").read_text())
    assert written["comparison"]["frames"] == 25
    assert written["rows"][0]["p99_ms"] >= written["rows"][0]["p50_ms"] > 0


def test_a_checkpoint_that_is_not_whole_is_not_timed(checkpoint: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(checkpoint, tmp_path / "copy"))
    (copy / "voices.tgz").write_bytes(b"nothing")
    found = accept(str(copy), device="cpu")
    assert not found.whole
    assert found.comparison is None
    assert found.rows == ()
    assert found.problems


def test_the_loop_takes_a_small_share_of_a_frame_of_thirty_two(checkpoint: Path) -> None:
    """Everything but the model's own work; the figure to hold is 2 ms, on an idle machine."""
    options = {"checkpoint": str(checkpoint), "dtype": "auto", "prefill_frames": 32, "device": None}
    row = measure({**options, "frames": 15}, 32)
    assert row.loop_ms == pytest.approx(row.p50_ms - row.model_ms, abs=row.p50_ms / 4)
    assert row.loop_ms < 8.0


@pytest.mark.gpu
@pytest.mark.timeout(3600)
def test_the_release_is_accepted_on_this_gpu() -> None:
    """Writes the result file whatever comes out."""
    if not CHECKPOINT or not torch.cuda.is_available():
        pytest.skip("needs a CUDA device and DUPLEX_CHECKPOINT")
    found = accept(CHECKPOINT, device="cuda:0")
    found.write(RESULT)
    assert found.whole, found.problems
    assert found.comparison is not None
    # A near tie in bfloat16 may fall the other way once; from there on both go their own ways.
    assert (found.comparison.first_difference or found.comparison.frames) >= 50
    assert found.rows[0].real_time, "not even one caller in real time"
    assert statistics.median(row.loop_ms for row in found.rows) <= 2.0
