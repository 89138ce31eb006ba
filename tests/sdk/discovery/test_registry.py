from __future__ import annotations

import json
from typing import Any

import pytest
from duplex_sdk.discovery import find, installed, load_plugin
from duplex_sdk.errors import PluginBrokenError, PluginNotFoundError
from duplex_sdk.plugin import PluginSpecError

HUSH = "raise ImportError('the model half is not there')"
REFUSES = """
from duplex_sdk.errors import DuplexError
raise DuplexError("the weights are not there", hint="duplex models add echo")
"""


def test_an_unknown_name_gets_the_installed_ones_and_the_nearest() -> None:
    with pytest.raises(PluginNotFoundError) as refused:
        find("scriptd")
    assert "no plugin called 'scriptd'; installed: " in str(refused.value)
    assert refused.value.hint == "did you mean 'scripted'?"


def test_a_name_like_no_other_gets_an_install_command() -> None:
    with pytest.raises(PluginNotFoundError) as refused:
        find("zzzz")
    assert refused.value.hint == "pip install duplex-plugin-zzzz"


def test_the_scripted_plugin_is_found_like_any_other() -> None:
    (own,) = [plugin for plugin in installed().plugins if plugin.name == "scripted"]
    assert own.distribution == "duplex-sdk"
    assert own.trouble is None


def test_a_broken_light_half_is_a_broken_plugin_with_its_cause(on_path: Any) -> None:
    on_path().plugin("lame", model=HUSH)
    spec = find("lame")
    with pytest.raises(PluginBrokenError, match="the model half is not there") as refused:
        load_plugin(spec)
    assert isinstance(refused.value.__cause__, ImportError)
    assert refused.value.hint == "pip install -U duplex-plugin-lame"


def test_a_plugins_own_hint_is_kept(on_path: Any) -> None:
    on_path().plugin("picky", model=REFUSES)
    with pytest.raises(PluginBrokenError) as refused:
        load_plugin(find("picky"))
    assert refused.value.hint == "duplex models add echo"


def test_a_wrong_option_is_the_users_error_not_the_plugins(on_path: Any) -> None:
    on_path().plugin("plain")
    with pytest.raises(PluginSpecError, match="no option 'size'"):
        load_plugin(find("plain"), {"size": "3"})


def test_a_distribution_seen_twice_on_the_path_counts_once(
    on_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = on_path()
    site.plugin("once")
    copy = site.folder / "again"
    copy.mkdir()
    type(site)(copy).metadata("duplex_plugin.once", "[duplex.plugins]\nonce = fake_once:plugin\n")
    monkeypatch.syspath_prepend(str(copy))
    assert [plugin.name for plugin in installed().plugins].count("once") == 1


def test_another_environment_tells_what_it_offers(site: Any) -> None:
    site.plugin("healthy")
    done = site.run("-m", "duplex_sdk.discovery", "--json")
    told = json.loads(done.stdout)
    assert told["api"] == "1.0"
    (healthy,) = [plugin for plugin in told["plugins"] if plugin["name"] == "healthy"]
    assert healthy["package"] == "fake_healthy"
    assert healthy["folder"] == str(site.folder / "fake_healthy")


def test_the_environment_is_told_as_json_only(site: Any) -> None:
    assert site.run("-m", "duplex_sdk.discovery").returncode == 2


def test_listing_fifty_plugins_imports_none_and_reads_each_once(site: Any) -> None:
    """How long it takes is a benchmark's; what could make it slow is counted here."""
    for number in range(50):
        site.plugin(f"voice-{number}")
    code = (
        "import importlib.metadata, sys\n"
        "found = []\n"
        "read = importlib.metadata.PathDistribution.read_text\n"
        "def counted(self, name):\n"
        "    if self._path.name.startswith('duplex_plugin_voice'):\n"
        "        found.append((self._path.name, name))\n"
        "    return read(self, name)\n"
        "importlib.metadata.PathDistribution.read_text = counted\n"
        "from duplex_sdk.cli import main\n"
        "sys.argv = ['duplex', 'plugins', 'list']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('counted', len(found), [m for m in sys.modules if m.startswith('fake_')])"
    )
    done = site.run("-c", code)
    assert len([line for line in done.stdout.splitlines() if line.startswith("voice-")]) == 50
    words = done.stdout.splitlines()[-1].split()
    assert words[2] == "[]"
    # Entry points twice, to see whether there are any and to parse them, and the metadata.
    assert int(words[1]) <= 50 * 3
