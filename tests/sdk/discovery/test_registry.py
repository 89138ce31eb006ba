from __future__ import annotations

import json
from typing import Any

import pytest
from duplex_sdk.discovery import default_name, find, installed, load_plugin
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


def test_a_distribution_seen_twice_on_the_path_counts_once(on_path: Any) -> None:
    site = on_path()
    site.plugin("once")
    copy = site.folder / "again"
    copy.mkdir()
    type(site)(copy).metadata("duplex_plugin.once", "[duplex.plugins]\nonce = fake_once:plugin\n")
    import sys

    sys.path.append(str(copy))
    try:
        assert [plugin.name for plugin in installed().plugins].count("once") == 1
    finally:
        sys.path.remove(str(copy))


def test_the_usual_plugin_is_served_when_none_is_named() -> None:
    assert default_name() == ("local" if "local" in installed().names else "scripted")


CHOOSE = """
import importlib.metadata, sys
from duplex_sdk.discovery import default_name
from duplex_sdk.errors import PluginNotFoundError
real = importlib.metadata.distributions
importlib.metadata.distributions = lambda **k: [d for d in real(**k) if d.name in sys.argv[1:]]
try:
    print(default_name())
except PluginNotFoundError as error:
    print(f"{error} / {error.hint}")
"""


@pytest.mark.parametrize(
    ("distributions", "answer"),
    [
        (["duplex-sdk", "duplex-plugin-one"], "one"),
        (["duplex-sdk"], "no plugin is installed that could be served"),
        (["duplex-plugin-one", "duplex-plugin-two"], "several plugins are installed: one, two"),
        (["duplex-plugin-one", "duplex-plugin-local"], "local"),
    ],
)
def test_which_plugin_is_served_when_none_is_named(
    site: Any, distributions: list[str], answer: str
) -> None:
    for name in ("one", "two"):
        site.plugin(name)
    if "duplex-plugin-local" in distributions:
        site.plugin("local")
    assert site.run("-c", CHOOSE, *distributions).stdout.startswith(answer)


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
