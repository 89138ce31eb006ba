"""A checkpoint that is not whole is refused before anybody is served, and says what is wrong."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import httpx2 as httpx
import pytest
import sentencepiece
import torch
from duplex_sdk.stage import LoadContext, StageLoadError
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)
from safetensors.torch import load_file, save_file

from duplex_plugin_personaplex.runtime.errors import CheckpointError
from duplex_plugin_personaplex.runtime.headers import read_header
from duplex_plugin_personaplex.runtime.manifest import UNREAD, lm_manifest
from duplex_plugin_personaplex.runtime.memory import require_memory
from duplex_plugin_personaplex.runtime.pieces import TextTokens
from duplex_plugin_personaplex.runtime.sizes import RELEASE, lm_sizes, read_overrides
from duplex_plugin_personaplex.runtime.source import NEEDED, find_checkpoint
from duplex_plugin_personaplex.runtime.stage import FrameStage
from duplex_plugin_personaplex.runtime.verification import verify_checkpoint

Tensors = dict[str, torch.Tensor]
Damage = Callable[[Tensors], object]

LM, MIMI = "model.safetensors", "tokenizer-e351c8d8-checkpoint125.safetensors"
IN_PROJ = "transformer.layers.1.self_attn.in_proj_weight"
CODEBOOK = "quantizer.rvq_rest.vq.layers.3._codebook.embedding_sum"
USAGE = "quantizer.rvq_rest.vq.layers.3._codebook.cluster_usage"


@pytest.fixture
def copy(checkpoint: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(checkpoint, tmp_path / "copy"))


def damaged(folder: Path, file: str, damage: Damage) -> None:
    tensors = load_file(folder / file)
    damage(tensors)
    save_file(tensors, folder / file)


def load_error(folder: Path) -> CheckpointError:
    options = {"checkpoint": str(folder), "slots": 1, "dtype": "auto", "prefill_frames": 32}
    with pytest.raises(CheckpointError) as caught:
        FrameStage().load(LoadContext(options=options))
    return caught.value


def rename(old: str, new: str) -> Damage:
    return lambda tensors: tensors.update({new: tensors.pop(old)})


DAMAGES = {
    "missing": (LM, IN_PROJ, lambda t: t.pop(IN_PROJ)),
    "renamed": (LM, "transformer.layers.1.norm9.alpha", rename(
        "transformer.layers.1.norm2.alpha", "transformer.layers.1.norm9.alpha"
    )),
    "reshaped": (LM, "text_linear.weight", lambda t: t.update(
        {"text_linear.weight": t["text_linear.weight"][1:].clone()}
    )),
    "zeros": (LM, IN_PROJ, lambda t: t[IN_PROJ].zero_()),
    "not a number": (LM, "emb.5.weight", lambda t: t["emb.5.weight"][7].fill_(float("nan"))),
    "infinite": (LM, "emb.5.weight", lambda t: t["emb.5.weight"][7].fill_(float("inf"))),
    "codec missing": (MIMI, CODEBOOK, lambda t: t.pop(CODEBOOK)),
    "codec zeros": (MIMI, CODEBOOK, lambda t: t[CODEBOOK].zero_()),
    "codec row of zeros": (MIMI, USAGE, lambda t: t[USAGE].zero_()),
    "codec not a number": (MIMI, USAGE, lambda t: t[USAGE][3].fill_(float("nan"))),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_tensor_is_named(copy: Path, kind: str) -> None:
    file, name, damage = DAMAGES[kind]
    damaged(copy, file, damage)
    message = str(load_error(copy))
    assert file in message
    assert name in message
    report = verify_checkpoint(copy)
    assert not report.ok
    assert any(name in check.detail for check in report.checks if not check.ok)


def test_a_file_cut_short_is_refused_by_the_tensor_behind_its_end(copy: Path) -> None:
    path = copy / LM
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    error = load_error(copy)
    assert "cut short" in str(error)
    assert ".weight'" in str(error)
    assert error.hint
    assert not verify_checkpoint(copy).ok


@pytest.mark.parametrize("content", [b"", b"not a model", b"\xff" * 64])
def test_a_file_of_something_else_is_refused(copy: Path, content: bytes) -> None:
    (copy / MIMI).write_bytes(content)
    assert MIMI in str(load_error(copy))


@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_file_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    assert name in str(load_error(copy))
    report = verify_checkpoint(copy)
    assert [check.ok for check in report.checks] == [False]


def test_a_tokenizer_of_another_model_is_refused(copy: Path) -> None:
    damaged(copy, LM, lambda t: t.update(
        {name: torch.cat([t[name], t[name][:1]]) for name in
         ("text_emb.weight", "text_linear.weight", "depformer_text_emb.weight")}
    ))  # fmt: skip
    assert "pieces" in str(load_error(copy))


def test_a_tokenizer_whose_padding_is_a_word_is_refused(tmp_path: Path) -> None:
    """It would be left out of every transcript."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["hello there, how are you today my friend?"] * 9),
        model_writer=model, vocab_size=60, hard_vocab_limit=False, num_threads=1,
        minloglevel=2,
    )  # fmt: skip
    path = tmp_path / "words.model"
    path.write_bytes(model.getvalue())
    count = sentencepiece.SentencePieceProcessor(str(path)).vocab_size()
    with pytest.raises(CheckpointError, match=r"words\.model: piece 3 is .* a word"):
        TextTokens(path, count)


def test_a_model_with_other_codes_is_refused(copy: Path) -> None:
    """The prompt is written in codes of the release's codec."""

    def fewer(tensors: Tensors) -> None:
        for name, tensor in tensors.items():
            if name.startswith(("emb.", "depformer_emb.")):
                tensors[name] = tensor[:1501].clone()
            elif name.startswith("linears."):
                tensors[name] = tensor[:1500].clone()

    damaged(copy, LM, fewer)
    assert "'emb.0.weight'" in str(load_error(copy))
    assert not verify_checkpoint(copy).ok


def test_a_whole_checkpoint_passes_every_check(checkpoint: Path) -> None:
    report = verify_checkpoint(checkpoint)
    assert report.ok
    assert [check.name for check in report.checks][-1] == "codec: values"


def test_the_voices_may_be_unpacked(copy: Path) -> None:
    with tarfile.open(copy / "voices.tgz") as archive:
        archive.extractall(copy, filter="data")
    (copy / "voices.tgz").unlink()
    assert verify_checkpoint(copy).ok


def test_a_missing_voice_is_named(copy: Path) -> None:
    with tarfile.open(copy / "voices.tgz") as archive:
        archive.extractall(copy, filter="data")
    (copy / "voices" / "VARM3.pt").unlink()
    assert any("VARM3" in check.detail for check in verify_checkpoint(copy).checks)


def test_a_damaged_voice_is_named(copy: Path) -> None:
    with tarfile.open(copy / "voices.tgz") as archive:
        archive.extractall(copy, filter="data")
    (copy / "voices" / "NATM1.pt").write_bytes(b"\x80\x02]q\x00.")
    assert any("NATM1" in check.detail for check in verify_checkpoint(copy).checks)


def test_the_manifest_of_the_release_adds_up_to_its_size() -> None:
    manifest = lm_manifest(RELEASE)
    values = sum(torch.Size(shape).numel() for shape in manifest.values())
    assert len(manifest) == 475
    assert values == pytest.approx(8.372e9, rel=1e-3)


def test_half_of_the_depth_steps_stays_on_disk() -> None:
    unread = [name for name in lm_manifest(RELEASE) if any(p.fullmatch(name) for p in UNREAD)]
    assert "linears.8.weight" in unread
    assert "linears.7.weight" not in unread
    assert "depformer_emb.7.weight" in unread
    assert "depformer_emb.6.weight" not in unread
    assert len(unread) == 8 + 8 + 8 + 6 * 8 * 2


def test_a_usual_voice_that_the_checkpoint_lacks_is_refused(copy: Path) -> None:
    with tarfile.open(copy / "voices.tgz") as archive:
        archive.extractall(copy, filter="data")
    (copy / "voices" / "NATF2.pt").unlink()
    options = {"checkpoint": str(copy), "slots": 1, "dtype": "auto", "prefill_frames": 32}
    with pytest.raises(StageLoadError, match="no voice 'NATF2'") as caught:
        FrameStage().load(LoadContext(options={**options, "voice": "NATF2"}))
    assert "NATF0, NATF1, NATF3" in str(caught.value.hint)


def test_sizes_come_from_the_shapes(checkpoint: Path) -> None:
    sizes = lm_sizes(read_header(checkpoint / LM), read_overrides(checkpoint))
    assert (sizes.dim, sizes.layers, sizes.depth_layers, sizes.depth_steps) == (32, 2, 2, 16)


@pytest.mark.parametrize("content", ["[1]", '{"dim": 5}', '{"context": "long"}', "{"])
def test_overrides_that_cannot_be_are_refused(copy: Path, content: str) -> None:
    (copy / "duplex_overrides.json").write_text(content)
    assert "duplex_overrides.json" in str(load_error(copy))


def test_too_little_memory_says_what_would_fit() -> None:
    with pytest.raises(CheckpointError, match="4 slots need 23") as caught:
        require_memory(16_000_000_000, 1_600_000_000, 4, 20_000_000_000, "cuda:0")
    assert caught.value.hint == "--slots 1 would fit"
    with pytest.raises(CheckpointError) as caught:
        require_memory(16_000_000_000, 1_600_000_000, 1, 8_000_000_000, "cuda:0")
    assert "larger" in str(caught.value.hint)


def test_enough_memory_is_stated() -> None:
    assert require_memory(1000, 10, 2, None, "cpu") == 1071


def test_a_folder_that_is_not_there_is_no_hub_id() -> None:
    with pytest.raises(CheckpointError, match="no checkpoint folder"):
        find_checkpoint("/nowhere/at/all")


def hub_error(kind: type[HfHubHTTPError], status: int) -> HfHubHTTPError:
    request = httpx.Request("GET", "https://hub.invalid/x")
    return kind("no", response=httpx.Response(status, request=request))


@pytest.mark.parametrize(
    "name", ["../personaplex", "./copy", "a/b--c", "a/.b", "models/"], ids=lambda name: name
)
def test_a_mistyped_folder_is_no_licence_trouble(name: str) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint folder"):
        find_checkpoint(name)


@pytest.mark.parametrize(
    "error",
    [hub_error(GatedRepoError, 403), hub_error(RepositoryNotFoundError, 401)],
    ids=["licence not accepted", "no token"],
)
def test_a_gated_repository_tells_the_steps(error: HfHubHTTPError) -> None:
    def refuse(repository: str, file: str) -> str:
        raise error

    with pytest.raises(CheckpointError, match="gated") as caught:
        find_checkpoint("nvidia/personaplex-7b-v1", refuse)
    hint = str(caught.value.hint)
    assert "accept the licence" in hint
    assert "HF_TOKEN" in hint


def test_a_hub_out_of_reach_says_so() -> None:
    with pytest.raises(StageLoadError, match="cannot be reached"):
        find_checkpoint("nvidia/personaplex-7b-v1")


@pytest.mark.parametrize(
    "error",
    [
        hub_error(HfHubHTTPError, 500),
        httpx.ReadTimeout("no answer"),
        RuntimeError("a chunk is missing"),
        OSError(28, "No space left on device"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_other_trouble_on_the_way_is_told(error: Exception) -> None:
    def refuse(repository: str, file: str) -> str:
        raise error

    with pytest.raises(CheckpointError, match=f"could not be fetched: {type(error).__name__}"):
        find_checkpoint("nvidia/personaplex-7b-v1", refuse)


def test_a_copy_from_the_hub_is_used(checkpoint: Path) -> None:
    files = find_checkpoint("nvidia/personaplex-7b-v1", lambda repo, file: str(checkpoint / file))
    assert files.folder == checkpoint


def test_an_offline_cache_miss_is_no_licence_trouble() -> None:
    def refuse(repository: str, file: str) -> str:
        raise LocalEntryNotFoundError("not cached")

    with pytest.raises(CheckpointError) as caught:
        find_checkpoint("nvidia/personaplex-7b-v1", refuse)
    assert "HF_HUB_OFFLINE" in str(caught.value.hint)


def test_the_override_file_is_written_by_the_generator(checkpoint: Path) -> None:
    assert json.loads((checkpoint / "duplex_overrides.json").read_text())["num_heads"] == 2
