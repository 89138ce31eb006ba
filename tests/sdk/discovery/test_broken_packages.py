from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.cli import model_tools
from duplex_sdk.cli.app import build_app
from duplex_sdk.discovery import examine, examine_hooks, find, load_hooks
from duplex_sdk.errors import DuplexError

# Kind -> (source of the descriptor's module, what the error names).
BROKEN: dict[str, tuple[str, str]] = {
    "import-error": ("import a_runtime_nobody_has", "a_runtime_nobody_has"),
    "syntax-error": ("def (:", "SyntaxError"),
    "system-exit": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "raises": ("raise RuntimeError('no such device')", "no such device"),
    "recursion": ("def f(): return f()\nf()", "RecursionError"),
    "base-exception": ("raise BaseException('odd')", "odd"),
    "attribute": ("other = 1", "AttributeError"),
    "no-spec": ("plugin = object()", "not a PluginSpec"),
    "spec-class": ("from duplex_sdk.plugin import PluginSpec as plugin", "not a PluginSpec"),
    "misnamed": (
        "from duplex_sdk.plugin import PluginSpec\n"
        "plugin = PluginSpec(name='another', api='1.0', factory='a:B')",
        "another",
    ),
    "bad-spec": (
        "from duplex_sdk.plugin import PluginSpec\n"
        "plugin = PluginSpec(name='bad-spec', api='1', factory='a:B')",
        "API version",
    ),
    "future": (
        "from duplex_sdk.plugin import PluginSpec\n"
        "plugin = PluginSpec(name='future', api='2.0', factory='a:B')",
        "wants plugin API 2.0",
    ),
    "prints": ("print('{\"plugins\": 1}')\nraise RuntimeError('after printing')", "after printing"),
}
HANGING = "import time; time.sleep(30)"

EVERY_KIND = pytest.mark.parametrize("kind", BROKEN)


@pytest.fixture
def sick(site: Any) -> Any:
    """An environment with every kind of broken plugin, one that hangs, and a healthy one."""
    for name, (source, _) in BROKEN.items():
        site.plugin(name, source)
    site.plugin("hangs", HANGING)
    site.plugin("healthy")
    return site


def test_listing_imports_none_of_them(sick: Any) -> None:
    done = sick.duplex("plugins", "list", "--json", timeout=10)
    assert done.returncode == 0, done.stderr
    names = {plugin["name"] for plugin in json.loads(done.stdout)["plugins"]}
    assert {*BROKEN, "hangs", "healthy"} <= names
    assert done.stderr == ""


def test_help_works_beside_them(sick: Any) -> None:
    done = sick.duplex("--help", timeout=20)
    assert done.returncode == 0
    assert "plugins" in done.stdout


def test_a_healthy_plugin_beside_them_is_found_and_loaded(sick: Any) -> None:
    code = (
        "from duplex_sdk.discovery import find, load_plugin\n"
        "import sys\n"
        "plugin = load_plugin(find('healthy'))\n"
        "print(plugin.plugin_id, [name for name in sys.modules if name.startswith('fake_')])"
    )
    done = sick.run("-c", code)
    assert done.stdout == "healthy ['fake_healthy', 'fake_healthy.model']\n"


@EVERY_KIND
def test_asking_for_a_broken_one_fails_with_its_cause_and_a_hint(on_path: Any, kind: str) -> None:
    source, cause = BROKEN[kind]
    on_path().plugin(kind, source)
    with pytest.raises(DuplexError) as refused:
        find(kind)
    assert cause in str(refused.value)
    assert "pip install" in (refused.value.hint or "")


def test_the_command_prints_the_cause_and_no_traceback(site: Any) -> None:
    site.plugin("prints", BROKEN["prints"][0])
    done = site.duplex("plugins", "inspect", "prints")
    assert done.returncode == 1
    assert done.stdout == ""
    printed, error, hint = done.stderr.splitlines()
    assert printed == '{"plugins": 1}'
    assert error.startswith("error: plugin 'prints' (duplex-plugin-prints 1.0) is broken")
    assert hint == "hint: pip install -U duplex-plugin-prints"


@pytest.fixture(scope="module")
def examined(tmp_path_factory: pytest.TempPathFactory, sites: Any) -> dict[str, Any]:
    """What one run of the doctor says of all the broken ones, by plugin."""
    site = sites(tmp_path_factory.mktemp("site"))
    for name, (source, _) in BROKEN.items():
        site.plugin(name, source)
    done = site.duplex("plugins", "doctor", "--json", timeout=60)
    assert done.returncode == 1
    reports = json.loads(done.stdout)["reports"]
    return {report["subject"].partition(" ")[0]: report for report in reports}


@EVERY_KIND
def test_the_doctor_names_the_trouble_of_each(examined: dict[str, Any], kind: str) -> None:
    wrong = [check for check in examined[kind]["checks"] if not check["ok"]]
    assert len(wrong) == 1
    assert BROKEN[kind][1] in wrong[0]["detail"]


def test_the_doctor_gives_up_on_one_that_hangs(
    site: Any, on_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.plugin("hangs", HANGING)
    on_path()
    # The doctor tries a descriptor in a fresh interpreter, which must find it too.
    monkeypatch.setenv("PYTHONPATH", str(site.folder))
    (report,) = examine("hangs", timeout_s=1.5)
    assert not report.ok
    assert "more than 1.5 s" in report.checks[0].detail


def test_the_doctor_finds_a_runtime_in_a_descriptor(site: Any) -> None:
    site.package("torch", "")
    site.plugin("heavy", "import torch\n" + _healthy_source("heavy"))
    done = site.duplex("plugins", "doctor", "heavy", "--json")
    assert done.returncode == 1
    (report,) = json.loads(done.stdout)["reports"]
    assert {check["name"]: check["ok"] for check in report["checks"]} == {
        "import": True,
        "api": True,
        "light": False,
        "dependencies": True,
    }


def test_the_doctor_survives_a_descriptor_that_ends_its_process(site: Any) -> None:
    site.plugin("leaves", "import os; os._exit(7)")
    done = site.duplex("plugins", "doctor", "leaves", "--json")
    (report,) = json.loads(done.stdout)["reports"]
    assert "ended with 7" in report["checks"][0]["detail"]


def test_the_doctor_names_dependencies_that_are_not_there(site: Any) -> None:
    requires = ("no-such-distribution>=2", "pytest<1", "numpy>=1", "gone; extra == 'x'")
    site.plugin("needy", requires=requires)
    done = site.duplex("plugins", "doctor", "needy", "--json")
    assert done.returncode == 1
    (report,) = json.loads(done.stdout)["reports"]
    detail = report["checks"][-1]["detail"]
    assert "no-such-distribution>=2 (missing)" in detail
    assert "pytest<1 (installed: " in detail
    assert "numpy" not in detail
    assert "gone" not in detail


def test_a_healthy_plugin_passes_the_doctor(site: Any) -> None:
    site.plugin("healthy")
    done = site.duplex("plugins", "doctor", "healthy")
    assert done.returncode == 0, done.stdout
    assert "WRONG" not in done.stdout


def test_two_distributions_of_one_name_are_a_conflict(site: Any) -> None:
    site.plugin("twin")
    site.metadata("someone-elses-twin", "[duplex.plugins]\ntwin = fake_twin:plugin\n")
    asked = site.duplex("plugins", "inspect", "twin")
    assert asked.returncode == 1
    assert "duplex-plugin-twin 1.0" in asked.stderr
    assert "someone-elses-twin 1.0" in asked.stderr
    listed = site.duplex("plugins", "list")
    assert listed.returncode == 0
    assert "claims this name as well" in listed.stderr
    examined = site.duplex("plugins", "doctor", "twin")
    assert examined.returncode == 1


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("twisted = not a module", "is not 'package.module:attribute'"),
        ("Shouting = fake_ok:plugin", "lower case"),
        ("gone = a_package_nobody_has:plugin", "is not there"),
    ],
)
def test_listing_says_what_metadata_alone_can_tell(site: Any, entry: str, reason: str) -> None:
    site.package("fake_ok", "plugin = 1")
    site.metadata("odd-one", f"[duplex.plugins]\n{entry}\n")
    done = site.duplex("plugins", "list")
    assert done.returncode == 0
    assert "odd-one" in done.stdout
    assert reason in done.stderr


@pytest.mark.parametrize("damage", ["a line without an equals sign", "metadata of no text"])
def test_a_damaged_distribution_hides_no_other(site: Any, damage: str) -> None:
    site.plugin("healthy")
    info = site.metadata("damaged", "[duplex.plugins]\nthis is no entry\n")
    if damage == "metadata of no text":
        (info / "entry_points.txt").write_bytes(b"[duplex.plugins]\nx = y:z\n\xff\xfe")
    done = site.duplex("plugins", "list", "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert "healthy" in {plugin["name"] for plugin in listed["plugins"]}
    assert ["damaged" in problem["distribution"] for problem in listed["problems"]] == [True]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import a_runtime_nobody_has", "a_runtime_nobody_has"),
        ("import sys; sys.exit(4)", "SystemExit: 4"),
        (
            "from duplex_sdk.discovery import hookimpl\n"
            "@hookimpl\ndef duplex_register_comands(app): ...",
            "duplex_register_comands",
        ),
        (
            "from duplex_sdk.discovery import hookimpl\n"
            "@hookimpl\ndef duplex_register_commands(application): ...",
            "application",
        ),
        (
            "from duplex_sdk.discovery import hookimpl\n"
            "@hookimpl\ndef duplex_register_commands(app): raise RuntimeError('not today')",
            "not today",
        ),
        (
            "from duplex_sdk.discovery import hookimpl\n"
            "@hookimpl\nasync def duplex_register_commands(app): ...",
            "duplex_register_commands is an `async def`",
        ),
        (
            "from duplex_sdk.discovery import hookimpl\n"
            "@hookimpl\ndef duplex_register_commands(app):\n"
            "    @app.command()\n"
            "    def plugins(): print('stolen')\n"
            "    @app.command()\n"
            "    def greet(): print('stolen')\n",
            "its command 'plugins' is one of the SDK itself already",
        ),
        (
            "from duplex_sdk.discovery import hookimpl\n"
            "@hookimpl\ndef duplex_register_commands(app):\n"
            "    @app.command()\n"
            "    def serve(): print('stolen')\n",
            "its command 'serve' is one of duplex-server:server already",
        ),
        (
            "from duplex_sdk.discovery import hookimpl\n"
            "@hookimpl\ndef duplex_register_commands(app):\n"
            "    @app.callback()\n"
            "    def root(): raise SystemExit(9)\n",
            "it changes what is not its own",
        ),
        (
            "from duplex_sdk.discovery import hookimpl\n"
            "@hookimpl\ndef duplex_register_commands(app):\n"
            "    app.registered_commands.clear()\n",
            "it changes what is not its own",
        ),
        (
            "from duplex_sdk.discovery import hookimpl\n"
            "@hookimpl\ndef duplex_register_commands(app):\n"
            "    @app.command()\n"
            "    def odd(number: int | str): ...\n",
            "Union types",
        ),
    ],
    ids=[
        "import",
        "exit",
        "misspelt",
        "argument",
        "call",
        "coroutine",
        "our command",
        "the server's command",
        "our options",
        "clears",
        "no command",
    ],
)
def test_a_broken_hook_package_takes_no_command_away(site: Any, source: str, reason: str) -> None:
    site.hook("broken", source)
    site.hook(
        "good",
        "from duplex_sdk.discovery import hookimpl\n"
        "@hookimpl\n"
        "def duplex_register_commands(app):\n"
        "    @app.command()\n"
        "    def greet():\n"
        "        '''Say hello.'''\n"
        "        print('hello')\n",
    )
    done = site.duplex("greet")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert "duplex-hook-broken" in done.stderr
    assert reason in done.stderr
    assert site.duplex("plugins", "list").stderr == ""


HOOK = "from duplex_sdk.discovery import hookimpl\n@hookimpl\n"


@pytest.mark.parametrize(
    "source",
    ["import time; time.sleep(60)", HOOK + "def duplex_register_commands(app):\n    " + HANGING],
    ids=["import", "call"],
)
def test_a_hook_package_that_hangs_is_left_out(
    on_path: Any, source: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("duplex_sdk.discovery.hooks.HOOK_LIMIT_S", 1.0)
    on_path().hook("hangs", source)
    app = build_app(["serve"])
    names = {command.name for command in app.registered_commands}
    assert {"serve", "simulate"} <= names
    assert "adds no commands: TimeoutError: it takes more than 1 s" in capsys.readouterr().err


CHECKS = (
    "from duplex_sdk.discovery import Check, Report\n"
    + HOOK
    + "def duplex_verify_checkpoint(name):\n"
    "    return lambda folder: Report(name, (Check('weights', True),))\n"
)
FAILS = HOOK + "def duplex_verify_checkpoint(name):\n    raise KeyError(name)\n"


@pytest.mark.parametrize("offered", [True, False])
def test_a_neighbour_that_fails_of_a_plugins_hook_hides_no_other(
    on_path: Any, offered: bool, tmp_path: Path
) -> None:
    site = on_path()
    for name in ("a_fails", "z_fails"):
        site.hook(name, FAILS)
    if offered:
        site.hook("m_checks", CHECKS)
        model_tools.verify_checkpoint("scripted", tmp_path)
        return
    with pytest.raises(DuplexError, match="checks no checkpoints") as refused:
        model_tools.verify_checkpoint("scripted", tmp_path)
    assert "a_fails failed of duplex_verify_checkpoint: KeyError" in str(refused.value)


def test_the_doctor_names_a_hook_package_that_hangs(on_path: Any) -> None:
    on_path().hook("hangs", HANGING)
    (check,) = [check for check in examine_hooks(load_hooks(0.5)).checks if check.name == "hangs"]
    assert (check.ok, check.detail) == (False, "TimeoutError: it takes more than 0.5 s")


def _healthy_source(name: str) -> str:
    return (
        "from duplex_sdk.plugin import PluginSpec\n"
        f"plugin = PluginSpec(name={name!r}, api='1.0', factory='fake_{name}.model:Echo')\n"
    )
