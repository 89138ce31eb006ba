"""Laws of the descriptor and of the light half behind it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points

from duplex_sdk.stage import Json
from duplex_sdk.stage.model_class import load_model_class

from .breach import breach, does_not_apply, require
from .subject import Subject

__all__ = ["DescriptorLaws"]

# What comes with the SDK is not the plugin's doing, so it is imported first.
_LOOK = """
import importlib, json, sys
sys.path[:] = json.loads(sys.argv[1])
import numpy
import duplex_sdk.clients, duplex_sdk.discovery, duplex_sdk.plugin, duplex_sdk.session
before = {name.partition(".")[0] for name in sys.modules}
module, _, name = sys.argv[2].partition(":")
factory = getattr(importlib.import_module(module), name)
plugin = factory(json.loads(sys.argv[3]))
plugin.capabilities(max_sessions=1), plugin.pipeline(), plugin.create_session_state()
after = {name.partition(".")[0] for name in sys.modules}
print("\\n" + json.dumps(sorted(after - before)))
"""


class DescriptorLaws:
    """What the descriptor says is so, and reading it costs next to nothing."""

    def test_the_plugin_loads(self, conformance: Subject) -> None:
        """The factory makes a plugin of this API, with the options of the suite."""
        assert conformance.plugin.plugin_id == conformance.spec.name

    def test_the_plugin_loads_without_options(self, conformance: Subject) -> None:
        """Every option has a default that works, so that `duplex serve --plugin` does."""
        conformance.new_plugin({})

    def test_the_descriptor_names_the_true_rates(self, conformance: Subject) -> None:
        """Clients and tools read the rates before anything is imported."""
        known = conformance.new_plugin({}).capabilities(max_sessions=conformance.spec.max_sessions)
        for what in ("input_sample_rate", "output_sample_rate"):
            told, true = getattr(conformance.spec, what), getattr(known, f"{what}_hz")
            require(
                told == true,
                f"the descriptor says {what}={told}, capabilities() says {true}",
                f"write {what}={true} into the PluginSpec, or mend capabilities()",
            )

    def test_the_descriptor_names_the_true_capabilities(self, conformance: Subject) -> None:
        """Stated capabilities are exactly the true ``supports_*``."""
        stated = conformance.spec.capabilities
        if not stated:
            does_not_apply("the descriptor states no capabilities")
        known = conformance.new_plugin({}).capabilities(max_sessions=conformance.spec.max_sessions)
        wrong = sorted(stated ^ known.supported)
        require(
            not wrong,
            f"descriptor and capabilities() disagree about {', '.join(wrong)}",
            f"state frozenset({sorted(known.supported)!r}), or nothing",
        )

    def test_more_sessions_than_one_are_claimed_on_both_sides(self, conformance: Subject) -> None:
        """``max_sessions`` above one and ``supports_multi_session`` go together."""
        many = conformance.spec.max_sessions > 1
        claimed = "multi_session" in conformance.capabilities.supported
        require(
            many == claimed,
            f"max_sessions is {conformance.spec.max_sessions},"
            f" but supports_multi_session is {claimed}",
            "set supports_multi_session=True in capabilities() when max_sessions is above 1, and"
            " only then",
        )

    def test_capabilities_never_change(self, conformance: Subject) -> None:
        """They are constant for the life of a process."""
        limit = conformance.spec.max_sessions
        first = conformance.plugin.capabilities(max_sessions=limit)
        again = conformance.plugin.capabilities(max_sessions=limit)
        require(
            first == again,
            "two calls of capabilities() differ",
            "make capabilities() depend on the options alone, not on a counter or the clock",
        )

    def test_the_pipeline_never_changes(self, conformance: Subject) -> None:
        """Two calls describe the same stages."""
        require(
            conformance.plugin.pipeline() == conformance.plugin.pipeline(),
            "two calls of pipeline() differ",
            "make pipeline() depend on the options alone; define stage_input at module level, since"
            " a new lambda is never equal to the one before",
        )

    def test_the_light_half_imports_no_runtime(self, conformance: Subject) -> None:
        """Plugin and descriptor import the standard library, numpy, the SDK and their package."""
        module = conformance.spec.factory.partition(":")[0]
        came = _imported(conformance.spec.factory, conformance.plugin.options)
        own = module.partition(".")[0]
        at_home = sys.stdlib_module_names | {own}
        foreign = sorted(name for name in came if name not in at_home)
        require(
            not foreign,
            f"importing {module} and making the plugin also imports {', '.join(foreign)}",
            "import libraries in the module that StageConfig.model names, or inside the function"
            " that needs them: the server imports the light half, only a worker the rest",
        )

    def test_the_heavy_half_imports(self, conformance: Subject) -> None:
        """Each stage names a ``StageModel`` that can be imported here."""
        for stage in conformance.pipeline.stages:
            if stage.model is None:
                continue
            try:
                load_model_class(stage.model)
            except Exception as error:
                breach(
                    f"stage {stage.id!r}: {error}",
                    "StageConfig.model is 'package.module:Class' of a StageModel; install what"
                    " that module imports",
                )

    def test_the_installed_entry_point_is_this_descriptor(self, conformance: Subject) -> None:
        """What users get by the plugin's name is what the suite tests."""
        name = conformance.spec.name
        found = [each for each in entry_points(group="duplex.plugins") if each.name == name]
        if not found:
            does_not_apply(f"no installed distribution offers a plugin named {name!r}")
        require(
            len(found) == 1 and found[0].load() == conformance.spec,
            f"the entry point {name!r} is offered {len(found)} times or holds another descriptor",
            "reinstall the package (`pip install -e .`), and uninstall what took its name",
        )


def _imported(factory: str, options: Mapping[str, Json]) -> list[str]:
    """Top-level packages that making a plugin brings into a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", _LOOK, json.dumps(sys.path), factory, json.dumps(dict(options))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        breach(
            f"{factory} cannot be made in a fresh interpreter:\n{done.stderr.strip()[-2000:]}",
            "the light half may not depend on what a test or another module did before",
        )
    names: list[str] = json.loads(done.stdout.rstrip().rpartition("\n")[2])
    return names
