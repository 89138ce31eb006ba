"""Missing and damaged model files are said plainly, before anything is loaded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from duplex_plugin_local.model_files import (
    HIBARI,
    MOONSHINE,
    ModelFile,
    checked,
    package_folder,
)
from duplex_plugin_local.moonshine import Moonshine, read_vocabulary
from duplex_plugin_local.voice import Voice
from duplex_sdk.stage import StageLoadError


def test_a_package_that_is_not_there_is_named_with_its_command() -> None:
    with pytest.raises(StageLoadError, match="no_such_package is not installed") as caught:
        package_folder("no_such_package", "no-such-package==1")
    assert caught.value.hint == "pip install 'no-such-package==1'"


def test_later_releases_without_weights_are_told_plainly(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    with pytest.raises(
        StageLoadError, match=r"encoder file .*encoder_model\.ort is missing"
    ) as caught:
        Moonshine(tmp_path)
    assert "moonshine-voice==0.0.73" in str(caught.value.hint)


def test_a_damaged_file_is_found_by_its_hash(tmp_path: Path) -> None:
    models = package_folder(*MOONSHINE) / "assets" / "tiny-en"
    shutil.copytree(models, tmp_path / "assets" / "tiny-en")
    tokenizer = tmp_path / "assets" / "tiny-en" / "tokenizer.bin"
    tokenizer.write_bytes(tokenizer.read_bytes()[:-1] + b"?")
    with pytest.raises(StageLoadError, match=r"tokenizer file .* is not the expected one"):
        Moonshine(tmp_path)


def test_a_missing_voice_is_told_plainly(tmp_path: Path) -> None:
    with pytest.raises(StageLoadError, match=r"voice file .* is missing") as caught:
        Voice(tmp_path)
    assert HIBARI[1] in str(caught.value.hint)


def test_checked_gives_the_paths_of_sound_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert checked(tmp_path, {"a": ModelFile("a", empty)}, "x") == {"a": tmp_path / "a"}


def test_vocabulary_pieces_may_be_longer_than_one_length_byte() -> None:
    long = b"x" * 200
    table = b"\x01a" + bytes([128 + (200 & 127), 200 >> 7]) + long + b"\x00"
    assert read_vocabulary(table) == [b"a", long, b""]
