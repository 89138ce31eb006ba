from __future__ import annotations

import json
import subprocess
import sys

import pytest
from patience import PATIENCE_S

LOADED = "import sys, json; {statement}; print(json.dumps(sorted(sys.modules)))"


def modules_after(statement: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(statement=statement)],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import duplex_sdk", {"numpy", "msgspec", "typer", "pluggy", "duplex_sdk.plugin"}),
        ("from duplex_sdk import PcmChunk", {"numpy", "soxr", "duplex_sdk.plugin"}),
        ("import duplex_sdk.plugin", {"numpy", "soxr", "typer", "pluggy", "asyncio", "websockets"}),
        ("import duplex_sdk.discovery", {"numpy", "pluggy", "typer", "duplex_sdk.plugin"}),
        (
            "from duplex_sdk.discovery import find; find('local')",
            {"numpy", "onnxruntime", "duplex_server", "duplex_plugin_local.model"},
        ),
    ],
)
def test_a_light_import_pulls_nothing_heavy(statement: str, absent: set[str]) -> None:
    assert modules_after(statement) & absent == set()


def test_listing_plugins_imports_no_plugin_and_no_server() -> None:
    statement = (
        "sys.argv = ['duplex', 'plugins', 'list']\n"
        "from duplex_sdk.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass"
    )
    loaded = modules_after(f"exec({statement!r})")
    forbidden = {"numpy", "pluggy", "rich", "websockets", "duplex_sdk.plugin", "duplex_server"}
    assert loaded & forbidden == set()
    assert not any(name.startswith("duplex_plugin_") for name in loaded)


def test_every_name_the_package_offers_is_there() -> None:
    import duplex_sdk.audio
    import duplex_sdk.discovery

    import duplex_sdk

    for package in (duplex_sdk, duplex_sdk.audio, duplex_sdk.discovery):
        for name in package.__all__:
            assert getattr(package, name) is not None
        with pytest.raises(AttributeError):
            package.no_such_name  # noqa: B018
