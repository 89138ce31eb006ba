from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import pytest
from duplex_sdk.errors import PluginIncompatibleError
from duplex_sdk.plugin import (
    DuplexCapabilities,
    DuplexModelPlugin,
    PluginOption,
    PluginSpec,
    PluginSpecError,
    load_duplex_plugin,
    plugin_pipeline,
    resolve_options,
)
from duplex_sdk.stage import PipelineConfig, StageConfig

MODULE = "echo_of_the_loader_tests"


class Echo(DuplexModelPlugin):
    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return DuplexCapabilities.native(supports_multi_session=max_sessions > 1)

    def pipeline(self) -> PipelineConfig:
        return PipelineConfig(stages=(StageConfig(id="echo", model="echo.stage:Echo"),))


class WithoutPipeline(Echo):
    def pipeline(self) -> PipelineConfig:
        return None  # type: ignore[return-value]


class WithoutCapabilities(Echo):
    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return {}  # type: ignore[return-value]


class WithoutDataPlane(Echo):
    data_plane = None  # type: ignore[assignment]


class EarlyEphemeral(Echo):
    early_input = True

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return DuplexCapabilities.native(supports_core_resumable_request=False)


class OwnConstructor(Echo):
    def __init__(self, options: Mapping[str, Any]) -> None:
        self.size = options["size"]


class OwnOptions(Echo):
    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = {"half": options["size"] / 2}


class Choosy(Echo):
    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        if options["size"] > 3:
            raise ValueError("size must be 3 at most; got " + str(options["size"]))


class Unfinished(DuplexModelPlugin):
    def pipeline(self) -> PipelineConfig:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType(MODULE)
    vars(module).update(globals())
    monkeypatch.setitem(sys.modules, MODULE, module)
    return module


def spec(factory: str = "Echo", **changes: Any) -> PluginSpec:
    return PluginSpec(**{"name": "echo", "api": "1.0", "factory": f"{MODULE}:{factory}", **changes})


def test_a_plugin_gets_its_name_and_its_options() -> None:
    declared = (PluginOption("size", type=int, default=3), PluginOption("voice"))
    plugin = load_duplex_plugin(spec(options=declared), {"voice": "alto"})
    assert plugin.plugin_id == "echo"
    assert plugin.options == {"size": 3, "voice": "alto"}


@pytest.mark.parametrize(
    ("factory", "options"), [("OwnConstructor", {"size": 3}), ("OwnOptions", {"half": 1.5})]
)
def test_a_constructor_of_its_own_need_not_call_ours(factory: str, options: Any) -> None:
    declared = (PluginOption("size", type=int, default=3),)
    plugin = load_duplex_plugin(spec(factory, options=declared))
    assert plugin.options == options


def test_a_value_that_a_plugin_refuses_is_the_callers_to_mend() -> None:
    declared = (PluginOption("size", type=int, default=3),)
    with pytest.raises(PluginSpecError) as caught:
        load_duplex_plugin(spec("Choosy", options=declared), {"size": "4"})
    assert str(caught.value) == "plugin 'echo': size must be 3 at most; got 4"
    assert caught.value.hint == "duplex plugins inspect echo lists its options"
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_plugin_cannot_change_its_options() -> None:
    plugin = load_duplex_plugin(spec())
    with pytest.raises(TypeError):
        plugin.options["size"] = 4  # type: ignore[index]


def test_the_pipeline_carries_its_plugin() -> None:
    described = spec()
    pipeline = plugin_pipeline(described, load_duplex_plugin(described))
    assert pipeline.duplex_plugin == described.factory


@pytest.mark.parametrize(
    ("factory", "error"),
    [
        ("Missing", ValueError),
        ("MODULE", TypeError),
        ("PluginSpec", TypeError),
        ("Unfinished", TypeError),
        ("WithoutPipeline", TypeError),
        ("WithoutCapabilities", TypeError),
        ("WithoutDataPlane", TypeError),
        ("EarlyEphemeral", ValueError),
    ],
)
def test_what_is_no_plugin_is_refused(factory: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        load_duplex_plugin(spec(factory))


def test_a_module_that_is_not_there_is_refused() -> None:
    with pytest.raises(ModuleNotFoundError):
        load_duplex_plugin(PluginSpec("echo", "1.0", "no_such_module_of_ours:Echo"))


def test_another_api_is_refused_before_the_code_is_imported(module: ModuleType) -> None:
    del sys.modules[MODULE]
    with pytest.raises(PluginIncompatibleError):
        load_duplex_plugin(spec(api="2.0"))


@pytest.mark.parametrize(
    ("kind", "given", "read"),
    [
        (int, "7", 7),
        (float, "0.5", 0.5),
        (float, 2, 2.0),
        (bool, "yes", True),
        (bool, "Off", False),
        (bool, True, True),
        (str, "7", "7"),
        (str, {"turns": "vad"}, {"turns": "vad"}),
    ],
)
def test_text_is_read_as_the_options_type(kind: type, given: object, read: object) -> None:
    declared = spec(options=(PluginOption("a", type=kind),))
    assert resolve_options(declared, {"a": given}) == {"a": read}


@pytest.mark.parametrize(
    ("kind", "given"),
    [(int, "x"), (int, 1.5), (int, True), (float, "x"), (bool, "maybe"), (bool, 1), (str, 3)],
)
def test_a_value_of_another_type_is_refused_by_name(kind: type, given: object) -> None:
    with pytest.raises(PluginSpecError, match="option 'a'"):
        resolve_options(spec(options=(PluginOption("a", type=kind),)), {"a": given})


def test_a_value_outside_the_choices_is_refused_and_they_are_named() -> None:
    declared = spec(options=(PluginOption("a", default="x", choices=("x", "y")),))
    with pytest.raises(PluginSpecError, match="one of x, y"):
        resolve_options(declared, {"a": "z"})


def test_an_unknown_option_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(PluginSpecError) as refused:
        resolve_options(spec(options=(PluginOption("size"),)), {"sise": "1"})
    assert refused.value.hint == "its options: size"


def test_none_means_the_default() -> None:
    given: Mapping[str, Any] = {"a": None}
    assert resolve_options(spec(options=(PluginOption("a", default="x"),)), given) == {"a": "x"}
