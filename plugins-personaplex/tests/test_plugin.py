"""The light half: capabilities, voices, roles and sampling of a session."""

from __future__ import annotations

import ast
import base64
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from duplex_sdk.audio import PcmChunk, wav_bytes
from duplex_sdk.plugin import DuplexRuntimeConfigError, load_duplex_plugin

import duplex_plugin_personaplex
from duplex_plugin_personaplex import DEFAULT_ROLE, plugin
from duplex_plugin_personaplex.model import MAX_ROLE_CHARACTERS, PersonaPlexPlugin
from duplex_plugin_personaplex.voices import BUNDLED_VOICES


def make(**options: Any) -> PersonaPlexPlugin:
    made = load_duplex_plugin(plugin, options)
    assert isinstance(made, PersonaPlexPlugin)
    return made


async def prepared(config: dict[str, Any], **options: Any) -> dict[str, Any]:
    made = make(**options)
    return dict(await made.prepare_runtime_config(config, model_config=made.options))


def test_descriptor_and_capabilities_agree() -> None:
    known = make().capabilities(max_sessions=plugin.max_sessions)
    assert known.supported == plugin.capabilities
    assert known.input_sample_rate_hz == plugin.input_sample_rate
    assert known.output_sample_rate_hz == plugin.output_sample_rate
    assert known.cancel_effect == "mutes"
    assert known.chunk_period_ms == 80
    assert known.unit_samples == 1920
    assert make().pipeline().stages[0].max_batch == plugin.max_sessions


def test_the_window_limits_a_session_unless_it_may_drift() -> None:
    assert make().capabilities(max_sessions=1).max_session_s == 210.0
    assert make(window_policy="drift").capabilities(max_sessions=1).max_session_s is None


def test_the_light_half_loads_no_model_library() -> None:
    code = (
        "import sys; from duplex_plugin_personaplex import plugin; plugin.load();"
        "print([m for m in ('torch', 'moshi', 'safetensors', 'sentencepiece', 'huggingface_hub')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_there_are_eighteen_voices() -> None:
    assert len(set(BUNDLED_VOICES)) == 18
    assert {"NATF0", "NATM3", "VARF4", "VARM4"} <= set(plugin.voices)


async def test_a_session_that_asks_for_nothing_has_the_default_voice_and_role() -> None:
    runtime = await prepared({})
    assert runtime["voice"] == "NATF2"
    assert runtime["role"] == DEFAULT_ROLE


async def test_instructions_are_the_role() -> None:
    assert (await prepared({"instructions": "Be brief."}))["role"] == "Be brief."


async def test_a_stock_name_of_a_voice_is_one_of_ours() -> None:
    assert (await prepared({"voice": "alloy"}))["voice"] in BUNDLED_VOICES


@pytest.mark.parametrize("voice", ["nobody", "../NATF2", "/etc/passwd", "NATF2.pt"])
async def test_a_voice_nobody_has_is_refused(voice: str) -> None:
    with pytest.raises(DuplexRuntimeConfigError) as caught:
        await prepared({"voice": voice})
    assert caught.value.param == "session.voice"


@pytest.mark.parametrize("voice", ["../NATF2", "a/b", ".", ""])
async def test_with_a_folder_of_voices_a_name_is_still_no_path(voice: str) -> None:
    if not voice:
        assert (await prepared({"voice": voice}, voice_dir="/tmp"))["voice"] == "NATF2"
        return
    with pytest.raises(DuplexRuntimeConfigError):
        await prepared({"voice": voice}, voice_dir="/tmp")


@pytest.fixture
def own_voices(tmp_path: Path) -> str:
    for name in ("mine.wav", "theirs.pt", "notes.txt", "no name.wav"):
        (tmp_path / name).write_bytes(b"")
    return str(tmp_path)


async def test_voices_of_ones_own_folder_are_known_by_name(own_voices: str) -> None:
    for name in ("mine", "theirs", "VARM4"):
        assert (await prepared({"voice": name}, voice_dir=own_voices))["voice"] == name
    assert (await prepared({}, voice="mine", voice_dir=own_voices))["voice"] == "mine"


@pytest.mark.parametrize("name", ["notes", "no name", "nobody"])
async def test_what_is_no_voice_in_the_folder_is_refused_with_the_names_there_are(
    own_voices: str, name: str
) -> None:
    with pytest.raises(DuplexRuntimeConfigError, match="no voice") as caught:
        await prepared({"voice": name}, voice_dir=own_voices)
    assert "mine, theirs" in str(caught.value.hint)
    with pytest.raises(ValueError, match="voice must be"):
        make(voice=name, voice_dir=own_voices)


async def test_a_folder_that_only_the_worker_sees_leaves_the_names_to_it() -> None:
    assert (await prepared({"voice": "mine"}, voice_dir="/nowhere/at/all"))["voice"] == "mine"


@pytest.mark.parametrize(
    ("config", "voice"),
    [
        ({}, "NATF2"),
        ({"voice": "alloy"}, "NATF0"),
        ({"voice": "VARM4"}, "VARM4"),
        ({"voice": "nobody"}, "nobody"),
        ({"ref_audio": "data:audio/wav;base64,AA=="}, None),
    ],
)
def test_a_session_is_told_our_name_of_its_voice(config: dict[str, Any], voice: str | None) -> None:
    made = make()
    assert made.voice_in_use(config) == voice
    assert made.voice_in_use({**config, "voice": voice}) == voice


async def test_a_role_that_is_too_long_is_refused() -> None:
    with pytest.raises(DuplexRuntimeConfigError) as caught:
        await prepared({"instructions": "x" * (MAX_ROLE_CHARACTERS + 1)})
    assert caught.value.param == "session.instructions"


@pytest.mark.parametrize(("seconds", "room"), [(1, 1000), (15, 700), (20, 452)])
async def test_a_long_recording_leaves_less_room_for_a_role(seconds: int, room: int) -> None:
    """What cannot be read before the call is refused at the door, not at the first sound."""
    tone = 0.3 * np.sin(np.arange(24_000 * seconds) * 2 * np.pi * 300 / 24_000)
    brought = {"ref_audio": upload(tone, 24_000)}
    made = make()
    fits = await prepared({**brought, "instructions": "x" * room})
    assert len(fits["role"]) == room
    with pytest.raises(DuplexRuntimeConfigError, match=f"room for {room}") as caught:
        await prepared({**brought, "instructions": "x" * (room + 1)})
    assert caught.value.param == "session.instructions"
    with pytest.raises(DuplexRuntimeConfigError, match=f"room for {room}"):
        made.runtime_config_for_update(
            {**brought, "instructions": "x" * (room + 1)}, fits, started=False
        )


async def test_voice_and_role_change_until_the_first_audio_and_not_after() -> None:
    made = make()
    current = await made.prepare_runtime_config({}, model_config=made.options)
    changed = made.runtime_config_for_update({"voice": "VARM0"}, current, started=False)
    assert changed["voice"] == "VARM0"
    with pytest.raises(DuplexRuntimeConfigError) as caught:
        made.runtime_config_for_update({"voice": "VARM0"}, current, started=True)
    assert caught.value.code == "voice_update_after_audio_unsupported"
    with pytest.raises(DuplexRuntimeConfigError) as caught:
        made.runtime_config_for_update({"instructions": "New."}, current, started=True)
    assert caught.value.code == "instructions_update_unsupported"


async def test_a_session_keeps_the_voice_that_it_brought() -> None:
    made = make()
    tone = 0.3 * np.sin(np.arange(48_000) * 2 * np.pi * 300 / 24_000)
    brought = {"ref_audio": upload(tone, 24_000)}
    current = await made.prepare_runtime_config(brought, model_config=made.options)
    for started in (False, True):
        changed = made.runtime_config_for_update(
            {**brought, "extra_body": {"greedy": True}}, current, started=started
        )
        assert changed["clip"] == current["clip"]
        with pytest.raises(DuplexRuntimeConfigError, match="brought") as caught:
            made.runtime_config_for_update({**brought, "voice": "VARM0"}, current, started=started)
        assert caught.value.code == "voice_update_unsupported"


async def test_a_voice_by_name_and_another_brought_along_are_one_too_many() -> None:
    tone = 0.3 * np.sin(np.arange(48_000) * 2 * np.pi * 300 / 24_000)
    with pytest.raises(DuplexRuntimeConfigError, match="one too many") as caught:
        await prepared({"voice": "NATF0", "ref_audio": upload(tone, 24_000)})
    assert caught.value.param == "session.ref_audio"


async def test_sampling_may_change_at_any_time() -> None:
    made = make()
    current = await made.prepare_runtime_config({}, model_config=made.options)
    config = {"extra_body": {"temperature": 0.2, "seed": 5}}
    runtime = made.runtime_config_for_update(config, current, started=True)
    defaults = tuple(stage.sampling for stage in made.pipeline().stages)
    (sampling,) = made.configure_sampling_params(runtime_config=runtime, defaults=defaults)
    assert sampling["temperature"] == 0.2
    assert sampling["top_k"] == 250


@pytest.mark.parametrize(
    "extra_body",
    [
        {"temperature": -1},
        {"temperature": True},
        {"top_k": 0},
        {"top_k": 251},
        {"text_top_k": 26},
        {"greedy": "yes"},
        {"top_p": 0.9},
        {"voice": "NATF2"},
        {"seed": -1},
        {"seed": 1 << 63},
        {"seed": True},
        {"seed": "7"},
        {"seed": None},
    ],
)
def test_a_knob_that_cannot_be_is_refused_by_name(extra_body: dict[str, Any]) -> None:
    with pytest.raises(DuplexRuntimeConfigError) as caught:
        make().validate_client_extra_body(extra_body)
    assert caught.value.param == f"session.extra_body.{next(iter(extra_body))}"


@pytest.mark.parametrize(
    "options", [{"slots": 0}, {"voice": "../x"}, {"prefill_frames": 0}, {"role": "x" * 1001}]
)
def test_an_option_that_cannot_work_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        make(**options)


def upload(samples: np.ndarray, rate: int) -> str:
    wav = wav_bytes(PcmChunk.of(samples.astype(np.float32), rate))
    return "data:audio/wav;base64," + base64.b64encode(wav).decode()


async def test_an_uploaded_voice_is_resampled_and_made_as_loud_as_the_others() -> None:
    tone = 0.9 * np.sin(np.arange(16_000 * 2) * 2 * np.pi * 300 / 16_000)
    runtime = await prepared({"ref_audio": upload(tone, 16_000)})
    samples = np.frombuffer(runtime["clip"], np.float32)
    assert samples.size == 48_000
    assert 0.02 < np.sqrt(np.mean(samples**2)) < 0.12


@pytest.mark.parametrize(
    ("seconds", "level", "reason"),
    [(0.5, 0.5, "needs 1 to 20 s"), (21, 0.5, "needs 1 to 20 s"), (2, 0.0, "silent")],
)
async def test_a_recording_that_cannot_be_a_voice_is_refused(
    seconds: float, level: float, reason: str
) -> None:
    noise = np.random.default_rng(0).standard_normal(int(seconds * 16_000)) * level * 0.3
    with pytest.raises(DuplexRuntimeConfigError, match=reason) as caught:
        await prepared({"ref_audio": upload(noise, 16_000)})
    assert caught.value.param == "session.ref_audio"


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/a.wav",
        "data:text/plain;base64,AA==",
        "data:audio/wav,AA",
        "x",
        "/etc/a.wav",
    ],
)
async def test_a_reference_that_is_no_upload_is_refused(url: str) -> None:
    with pytest.raises(DuplexRuntimeConfigError) as caught:
        await prepared({"ref_audio": url})
    assert caught.value.code == "unsupported_ref_audio_path"


async def test_an_upload_that_is_no_wav_is_refused() -> None:
    with pytest.raises(DuplexRuntimeConfigError, match="no WAV"):
        await prepared({"ref_audio": "data:audio/wav;base64,AAAA"})


def test_the_plugin_imports_nothing_of_the_server() -> None:
    package = Path(duplex_plugin_personaplex.__file__).parent
    for path in package.rglob("*.py"):
        imported = {
            name
            for node in ast.walk(ast.parse(path.read_text()))
            for name in (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else []
            )
        }
        assert not any(name.startswith("duplex_server") for name in imported), path
