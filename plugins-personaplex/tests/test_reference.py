"""Our stepper says what moshi's own generator says, token for token."""

from __future__ import annotations

from pathlib import Path

import pytest
from model_runs import heard, load, our_frames
from safetensors.torch import load_file, save_file

from duplex_plugin_personaplex.runtime.headers import read_header
from duplex_plugin_personaplex.runtime.loading import LoadedModel
from duplex_plugin_personaplex.runtime.manifest import rows_to_read
from duplex_plugin_personaplex.runtime.pieces import TextTokens
from duplex_plugin_personaplex.runtime.prompt import CodesVoice, ReplayVoice, Voice
from duplex_plugin_personaplex.runtime.sizes import lm_sizes, read_overrides
from duplex_plugin_personaplex.runtime.source import find_checkpoint
from duplex_plugin_personaplex.runtime.voice_bank import VoiceBank
from duplex_plugin_personaplex.testing import write_tiny_checkpoint
from duplex_plugin_personaplex.testing.reference import reference_frames

FRAMES = 200
ROLE = "You are a friendly teacher."


@pytest.fixture(scope="module")
def voices(checkpoint: Path, loaded: LoadedModel) -> dict[str, Voice]:
    bank = VoiceBank(find_checkpoint(str(checkpoint)).voices, None, sizes=loaded.sizes)
    replay = bank.find("NATF2")
    assert isinstance(replay, ReplayVoice)
    return {"pt": replay, "codes": CodesVoice(heard(15, seed=5))}


@pytest.mark.parametrize("with_role", [True, False], ids=["role", "no role"])
@pytest.mark.parametrize("kind", ["codes", "pt"])
def test_greedy_tokens_equal_the_reference(
    loaded: LoadedModel, tokens: TextTokens, voices: dict[str, Voice], kind: str, with_role: bool
) -> None:
    role = tokens.role(ROLE) if with_role else []
    caller = heard(FRAMES, seed=11)
    expected = list(reference_frames(loaded.lm, voices[kind], role, caller))
    said = our_frames(loaded, voices[kind], role, caller)
    assert said == expected
    # A model that says the same thing whatever happens would pass every comparison.
    assert len({tuple(frame) for frame in said}) > FRAMES // 2


def test_a_prompt_in_slices_is_the_prompt_in_one(
    loaded: LoadedModel, tokens: TextTokens, voices: dict[str, Voice]
) -> None:
    role = tokens.role(ROLE)
    caller = heard(40, seed=3)
    for voice in voices.values():
        whole = our_frames(loaded, voice, role, caller)
        assert our_frames(loaded, voice, role, caller, slice_frames=5, rows=3, row=1) == whole


def test_what_the_caller_says_decides_what_is_said(
    loaded: LoadedModel, voices: dict[str, Voice]
) -> None:
    one = our_frames(loaded, voices["pt"], [], heard(30, seed=1))
    other = our_frames(loaded, voices["pt"], [], heard(30, seed=2))
    # The first frame was decided before anything was heard.
    assert one[0][:2] == other[0][:2]
    assert one[-1] != other[-1]


def test_eight_and_sixteen_steps_on_disk_say_the_same(
    tmp_path: Path, loaded: LoadedModel, voices: dict[str, Voice]
) -> None:
    path = write_tiny_checkpoint(tmp_path) / "model.safetensors"
    sizes = lm_sizes(read_header(path), read_overrides(tmp_path))
    assert sizes.depth_steps == 16
    kept = {
        name: tensor[:rows].contiguous()
        for name, tensor in load_file(path).items()
        if (rows := rows_to_read(name, sizes)) != 0
    }
    save_file(kept, path)
    eight = load(tmp_path)
    assert eight.sizes.depth_steps == 8
    caller = heard(40, seed=9)
    said = our_frames(eight, voices["codes"], [], caller)
    assert said == our_frames(loaded, voices["codes"], [], caller)
