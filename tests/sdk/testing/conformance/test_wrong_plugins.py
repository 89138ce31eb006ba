from __future__ import annotations

import pytest
from duplex_sdk.plugin import PluginSpec
from duplex_sdk.testing.conformance import LawBrokenError, ModelConformance, run_laws
from duplex_sdk.testing.conformance.run import law_levels
from specimens import RIGHT, WRONG, Specimen

LIVES = 100
"""What breaks in random lives breaks in so many of them."""

FEW_LIVES, FEWER_LIVES = 15, 5
SERVED = {"Right", "RightNative", "RightCascade"}
"""Right plugins that a real server is started for: the engine makes no difference of the others."""


def suite_of(plugin: PluginSpec, lives_run: int = LIVES) -> type[ModelConformance]:
    class Suite(ModelConformance):
        @property
        def spec(self) -> PluginSpec:
            return plugin

        @property
        def calling_turn(self) -> int:
            return 0

        @property
        def lives(self) -> int:
            return lives_run

        @property
        def soak_s(self) -> float:
            return 60.0

    return Suite


def is_broken(plugin: PluginSpec, law: str) -> str:
    (result,) = run_laws(suite_of(plugin), law)
    assert (result.law, result.outcome) == (law, "broken"), result
    assert "What to do: " in result.detail, "the message does not tell the author what to do"
    return result.detail


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.name}, {wrong.law}")
def test_a_wrong_plugin_is_caught_by_the_law_it_breaks(wrong: Specimen) -> None:
    is_broken(wrong.spec, wrong.law)


def test_every_law_catches_somebody() -> None:
    laws = {name.removeprefix("test_") for name in law_levels()}
    assert laws == {wrong.law for wrong in WRONG}


def test_there_are_many_ways_to_be_wrong() -> None:
    assert len({wrong.name for wrong in WRONG}) >= 25


def test_a_library_in_the_light_half_is_named() -> None:
    law = "the_light_half_imports_no_runtime"
    heavy = [wrong for wrong in WRONG if wrong.law == law]
    assert len(heavy) > 1, "one imports it with its module, one when it is asked"
    for wrong in heavy:
        assert "hypothesis" in is_broken(wrong.spec, law)


def test_an_unload_that_raises_is_caught() -> None:
    plugin = Specimen("RaisesInUnload", "", model="RaisesInUnload").spec
    with pytest.raises(LawBrokenError, match=r"unload\(\) raised RuntimeError"):
        run_laws(suite_of(plugin), "the_models_load")


@pytest.mark.parametrize(("factory", "model"), RIGHT)
def test_the_right_plugin_keeps_every_law(factory: str, model: str) -> None:
    voices = {"voices": ("anna", "otto")} if factory == "RightVoiced" else {}
    right = Specimen("right", "", f"right_plugin:{factory}", model, voices)
    laws = [
        name.removeprefix("test_")
        for name, level in law_levels().items()
        if level != "engine" or factory in SERVED
    ]
    lives = FEW_LIVES if factory in SERVED else FEWER_LIVES
    results = run_laws(suite_of(right.spec, lives), *laws)
    assert [result for result in results if result.outcome == "broken"] == []
