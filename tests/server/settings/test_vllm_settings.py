"""What a deployment says of a vllm stage: in the file, in flags, and as it is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from duplex_sdk.plugin import load_duplex_plugin
from duplex_server.settings import ResolvedSettings, SettingsError, resolve_settings

FILE = """
plugin: local
plugin_options: {llm: "vllm:/models/small"}
stages:
  reply:
    worker_python: /opt/vllm/bin/python
    max_batch: 12
    sampling: {temperature: 0.5}
    vllm: {max_model_len: 2048}
"""


@pytest.fixture
def resolved(tmp_path: Path) -> ResolvedSettings:
    path = tmp_path / "settings.yaml"
    path.write_text(FILE, encoding="utf-8")
    flags = {("reply", "vllm", "enforce_eager"): True}
    return resolve_settings({}, {}, config=path, given_stages=flags)


def test_file_and_flags_reach_the_stage_and_its_worker(resolved: ResolvedSettings) -> None:
    plugin = load_duplex_plugin(resolved.spec, resolved.plugin_options)
    reply = resolved.deployment.apply(plugin.pipeline()).stages[1]
    assert (reply.id, reply.backends, reply.max_batch) == ("reply", ("vllm",), 12)
    assert reply.vllm == {
        "model": "/models/small",
        "max_model_len": 2048,
        "enforce_eager": True,
    }
    assert reply.sampling == {"max_tokens": 400, "temperature": 0.5}
    assert resolved.deployment.python_of("reply") == Path("/opt/vllm/bin/python")
    assert resolved.deployment.python_of("speech") is None


def test_the_other_stages_stay_where_they_were(resolved: ResolvedSettings) -> None:
    plugin = load_duplex_plugin(resolved.spec, resolved.plugin_options)
    recogniser, _, speech = resolved.deployment.apply(plugin.pipeline()).stages
    assert (recogniser.backends, speech.backends) == (("inline",), ("inline",))


def test_an_empty_interpreter_is_refused_by_its_path() -> None:
    with pytest.raises(SettingsError, match=r"stages\.reply\.worker_python"):
        resolve_settings({"plugin": "local"}, {}, given_stages={("reply", "worker_python"): ""})
