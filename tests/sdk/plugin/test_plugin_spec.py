from __future__ import annotations

from typing import Any

import pytest
from duplex_sdk.errors import PluginIncompatibleError
from duplex_sdk.plugin import API_VERSION, PluginOption, PluginSpec, PluginSpecError, check_api


def spec(**changes: Any) -> PluginSpec:
    return PluginSpec(**{"name": "echo", "api": "1.0", "factory": "echo.model:Echo", **changes})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"name": "Echo"}, "plugin name 'Echo'"),
        ({"name": "1st"}, "plugin name"),
        ({"name": ""}, "plugin name"),
        ({"name": "echo_1"}, "plugin name"),
        ({"name": "echo\n"}, "plugin name"),
        ({"api": "1"}, "API version"),
        ({"api": 1.0}, "echo"),
        ({"api": "1.0.0"}, "API version"),
        ({"factory": "echo.model"}, "factory"),
        ({"factory": "echo.model:"}, "factory"),
        ({"factory": "echo model:Echo"}, "factory"),
        ({"input_sample_rate": 0}, "input_sample_rate"),
        ({"output_sample_rate": -1}, "output_sample_rate"),
        ({"max_sessions": 0}, "max_sessions"),
        ({"memory_bytes": -1}, "memory_bytes"),
        ({"capabilities": frozenset({"supports_tools"})}, "supports_tools"),
        ({"options": (PluginOption("a"), PluginOption("a"))}, "twice"),
    ],
)
def test_a_descriptor_that_cannot_be_is_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(PluginSpecError, match=named):
        spec(**changes)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "Bad"},
        {"name": "bad-name"},
        {"name": "a", "type": list},
        {"name": "a", "choices": ("x", "y"), "default": "z"},
    ],
)
def test_an_option_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(PluginSpecError):
        PluginOption(**wrong)


def test_an_options_flag_has_dashes() -> None:
    assert PluginOption("llm_url").flag == "--llm-url"


def test_an_older_minor_of_the_same_major_fits() -> None:
    major, minor = map(int, API_VERSION.split("."))
    for older in range(minor + 1):
        check_api("echo", f"{major}.{older}")


@pytest.mark.parametrize("newer", ["1.1", "2.0", "1.999"])
def test_a_newer_api_is_refused_with_both_versions_and_a_way_out(newer: str) -> None:
    with pytest.raises(PluginIncompatibleError) as refused:
        check_api("echo", newer, distribution="duplex-plugin-echo")
    assert str(refused.value) == f"plugin 'echo' wants plugin API {newer}; this SDK speaks 1.0"
    assert refused.value.hint == "pip install -U duplex-sdk"


def test_an_older_major_is_refused_and_the_plugin_is_to_be_upgraded() -> None:
    with pytest.raises(PluginIncompatibleError) as refused:
        check_api("echo", "0.9", distribution="duplex-plugin-echo")
    assert refused.value.hint == "pip install -U duplex-plugin-echo"
