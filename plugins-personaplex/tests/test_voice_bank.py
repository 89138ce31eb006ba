"""Voices by name: bundled, one's own as WAV, and uploads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from duplex_sdk.audio import PcmChunk, wav_bytes
from model_runs import Bench, heard, said_by, speech

from duplex_plugin_personaplex.clip import voice_clip
from duplex_plugin_personaplex.figures import MAX_PROMPT_FRAMES, RATE
from duplex_plugin_personaplex.runtime.errors import CheckpointError
from duplex_plugin_personaplex.runtime.loading import LoadedModel
from duplex_plugin_personaplex.runtime.pieces import PieceReader, TextTokens
from duplex_plugin_personaplex.runtime.prompt import (
    CodesVoice,
    PromptTooLongError,
    ReplayVoice,
    make_prompt,
    role_text,
)
from duplex_plugin_personaplex.runtime.voice_bank import UnknownVoiceError, VoiceBank
from duplex_plugin_personaplex.voices import BUNDLED_VOICES


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("voices")
    (folder / "mine.wav").write_bytes(wav_bytes(PcmChunk.of(speech(20, seed=1).ravel(), RATE)))
    (folder / "notes.txt").write_text("no voice")
    return folder


@pytest.fixture(scope="module")
def bank(checkpoint: Path, own: Path, loaded: LoadedModel) -> VoiceBank:
    return VoiceBank(checkpoint / "voices.tgz", own, sizes=loaded.sizes)


def test_bundled_and_own_voices_are_listed(bank: VoiceBank) -> None:
    assert bank.names == tuple(sorted((*BUNDLED_VOICES, "mine")))


def test_a_bundled_voice_is_read_once(bank: VoiceBank) -> None:
    voice = bank.find("NATF0")
    assert isinstance(voice, ReplayVoice)
    assert bank.find("NATF0") is voice


def test_a_recording_waits_for_its_codes(bank: VoiceBank) -> None:
    assert isinstance(bank.find("mine"), PcmChunk)
    kept = bank.keep("mine", heard(20, seed=1))
    assert bank.find("mine") is kept


@pytest.mark.parametrize("name", ["nobody", "notes", "../NATF0", "voices/NATF0", ""])
def test_a_name_nobody_has_is_refused(bank: VoiceBank, name: str) -> None:
    with pytest.raises(UnknownVoiceError):
        bank.find(name)


def test_an_own_voice_and_the_same_upload_say_the_same(checkpoint: Path, own: Path) -> None:
    bench = Bench(checkpoint, slots=2, voice_dir=str(own))
    clip = voice_clip((own / "mine.wav").read_bytes())
    bench.open("by name", seed=1, voice="mine")
    bench.open("upload", seed=1, clip=clip.data)
    frames = speech(8, seed=2)
    named, uploaded = [], []
    for frame in frames:
        outputs = bench.frames({"by name": frame, "upload": frame})
        named.append(outputs["by name"])
        uploaded.append(outputs["upload"])
    assert said_by(named) == said_by(uploaded)
    for name in ("by name", "upload"):
        bench.close(name)
    bench.open("again", seed=1, voice="mine")
    assert said_by(bench.talk("again", frames)) == said_by(named)
    bench.close("again")
    bench.open("bundled", seed=1)
    assert said_by(bench.talk("bundled", frames)) != said_by(named)
    bench.host.shutdown()


def test_a_role_gets_its_marks_once() -> None:
    assert role_text("  Be kind. ") == "<system> Be kind. <system>"
    assert role_text("<system> Be kind. <system>") == "<system> Be kind. <system>"
    assert role_text("   ") == ""


def test_the_length_of_a_prompt_is_voice_spacers_and_role() -> None:
    prompt = make_prompt(CodesVoice(heard(20, seed=1)), [7] * 9, text_card=61, card=2048)
    assert prompt.frames == 20 + 12 + 9
    assert prompt.columns.shape == (17, 41)
    assert prompt.columns[:, 0].tolist() == [61, *[2048] * 16]


def test_a_prompt_that_leaves_no_window_is_refused() -> None:
    voice = CodesVoice(heard(20, seed=1))
    make_prompt(voice, [7] * (MAX_PROMPT_FRAMES - 32), text_card=61, card=2048)
    with pytest.raises(PromptTooLongError, match="376 frames"):
        make_prompt(voice, [7] * (MAX_PROMPT_FRAMES - 31), text_card=61, card=2048)


def test_padding_and_control_tokens_are_not_shown(tokens: TextTokens) -> None:
    reader = PieceReader(tokens)
    assert [reader.read(token) for token in range(4)] == [""] * 4


def test_words_come_with_their_spaces(tokens: TextTokens) -> None:
    reader = PieceReader(tokens)
    said = "".join(reader.read(token) for token in tokens.role("Hello, you.")[1:-1])
    assert said.replace("<system>", "").strip() == "Hello, you."


def test_silence_in_a_recording_is_no_voice(
    tmp_path: Path, checkpoint: Path, loaded: LoadedModel
) -> None:
    silent = PcmChunk.of(np.zeros(RATE * 2, np.float32), RATE)
    (tmp_path / "mute.wav").write_bytes(wav_bytes(silent))
    with pytest.raises(CheckpointError, match=r"mute\.wav cannot be a voice: it is silent"):
        VoiceBank(checkpoint / "voices.tgz", tmp_path, sizes=loaded.sizes)


def test_an_archive_cut_short_is_refused(
    tmp_path: Path, checkpoint: Path, loaded: LoadedModel
) -> None:
    data = (checkpoint / "voices.tgz").read_bytes()
    archive = tmp_path / "voices.tgz"
    for size in (0, 20, len(data) // 2, len(data) * 9 // 10):
        archive.write_bytes(data[:size])
        with pytest.raises(CheckpointError, match=r"voices\.tgz"):
            VoiceBank(archive, None, sizes=loaded.sizes)
