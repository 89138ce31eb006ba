"""The two commands of the model, as a person types them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from duplex_sdk.errors import DuplexError
from safetensors.torch import load_file, save_file
from serving import DUPLEX

from duplex_plugin_personaplex.runtime.bench import BenchRow, bench_model, sessions_in_real_time
from duplex_plugin_personaplex.runtime.errors import CheckpointError


def duplex(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [DUPLEX, *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "COLUMNS": "80"},
    )


def test_bench_model_prints_a_table_and_writes_its_figures(
    checkpoint: Path, tmp_path: Path
) -> None:
    out = tmp_path / "figures.json"
    done = duplex(
        "bench-model", "personaplex", f"checkpoint={checkpoint}", "batches=1,2", "frames=4",
        f"out={out}",
    )  # fmt: skip
    assert "sessions in real time" in done.stdout
    for name in BenchRow.__dataclass_fields__:
        assert name.split("_")[0] in done.stdout.split()
    written = json.loads(out.read_text())
    assert done.returncode == (0 if written["sessions_in_real_time"] else 1)
    assert [row["batch"] for row in written["rows"]] == [1, 2]
    assert written["machine"]["torch"]
    for row in written["rows"]:
        assert 0 < row["model_ms"] < row["p99_ms"]
        assert row["rtf"] == pytest.approx(row["p50_ms"] / 80)
        assert row["memory_gb"] > 0
        assert 0 < row["slice_ms"] <= row["prompt_ms"]


def test_verify_checkpoint_says_what_is_wrong_and_fails(tmp_path: Path, checkpoint: Path) -> None:
    assert duplex("verify-checkpoint", "personaplex", str(checkpoint)).returncode == 0
    for path in checkpoint.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    weights["emb.3.weight"].zero_()
    save_file(weights, tmp_path / "model.safetensors")
    done = duplex("verify-checkpoint", "personaplex", str(tmp_path), "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    wrong = [check for check in told["checks"] if not check["ok"]]
    assert [check["name"] for check in wrong] == ["language model: values"]
    assert "'emb.3.weight' is all zeros" in wrong[0]["detail"]


def test_a_server_is_not_started_on_a_tensor_of_zeros(tmp_path: Path, checkpoint: Path) -> None:
    for path in checkpoint.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    weights["linears.3.weight"].zero_()
    save_file(weights, tmp_path / "model.safetensors")
    done = duplex("serve", "--plugin", "personaplex", "--port", "0", "--checkpoint", str(tmp_path))
    told = done.stdout + done.stderr
    assert done.returncode == 1
    assert "model.safetensors: the tensor 'linears.3.weight' is all zeros" in told
    assert "realtime: ws://" not in told


def test_a_setting_that_does_not_exist_is_named() -> None:
    with pytest.raises(DuplexError, match="'speed'"):
        bench_model({"speed": "1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batches", "1,many"),
        ("batches", "0"),
        ("frames", "0"),
        ("frames", "many"),
        ("prefill_frames", "0"),
        ("prefill_frames", "-3"),
        ("dtype", "int4"),
        ("out", "/nowhere/at/all/figures.json"),
        ("out", "/"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_before_anything_is_loaded(
    name: str, value: str
) -> None:
    with pytest.raises(DuplexError) as caught:
        bench_model({"checkpoint": "/nowhere", name: value})
    assert not isinstance(caught.value, CheckpointError)
    assert name in str(caught.value) or value in str(caught.value)


def row(batch: int, p99_ms: float) -> BenchRow:
    return BenchRow(batch, p99_ms, p99_ms, 1.0, 1.0, 1.0, 0.1, p99_ms <= 48.0, 1.0, 1.0, 1.0)


def test_sessions_in_real_time_end_at_the_first_size_that_is_too_slow() -> None:
    assert sessions_in_real_time([row(1, 10), row(2, 20), row(4, 50), row(8, 40)]) == 2
    assert sessions_in_real_time([row(2, 20), row(1, 10)]) == 2
    assert sessions_in_real_time([row(1, 60)]) == 0
