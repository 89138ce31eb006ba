"""What the codec may import, and that each thing it does is done in one place."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from duplex_sdk.protocol.realtime.formats import FORMAT_SPELLINGS
from patience import PATIENCE_S

import duplex_sdk

SDK = Path(duplex_sdk.__file__).parent
ROOT = SDK.parents[2]
SOURCES = [
    path
    for folder in ("duplex_sdk", "duplex_server", "plugins-local")
    for path in (ROOT / folder / "src").rglob("*.py")
]
ALLOWED = {"duplex_sdk.protocol", "duplex_sdk.audio", "duplex_sdk.errors"}


def imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


@pytest.mark.parametrize("path", sorted((SDK / "protocol").rglob("*.py")), ids=lambda p: p.stem)
def test_codec_imports_nothing_of_ours_but_itself(path: Path) -> None:
    ours = {name for name in imported_modules(path) if name.split(".")[0].startswith("duplex")}
    assert {name for name in ours if ".".join(name.split(".")[:2]) not in ALLOWED} == set()


def test_openai_tier_never_imports_the_duplex_tier() -> None:
    for path in (SDK / "protocol" / "realtime").rglob("*.py"):
        assert not any("protocol.duplex" in name for name in imported_modules(path)), path


def test_everybody_above_the_codec_uses_the_one_door() -> None:
    offenders = [
        (path.name, name)
        for path in SOURCES
        if SDK / "protocol" not in path.parents
        for name in imported_modules(path)
        if name.startswith("duplex_sdk.protocol.realtime")
    ]
    assert offenders == []


def test_importing_the_codec_loads_no_heavy_library() -> None:
    heavy = ("numpy", "soxr", "pydantic", "asyncio", "websockets", "duplex_sdk.plugin")
    program = (
        "import sys, duplex_sdk.protocol.duplex\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert done.stdout.strip() == "[]"


def test_base64_is_handled_in_one_file() -> None:
    users = {
        path.relative_to(SDK).as_posix()
        for path in SOURCES
        if SDK in path.parents and {"base64", "pybase64", "binascii"} & set(imported_modules(path))
    }
    # The fence writes request ids in it, which never are audio and never leave the engine.
    assert users == {"protocol/realtime/base64_text.py", "plugin/fence.py"}


def test_format_spellings_stand_in_one_file() -> None:
    telling = {"pcm_s16le", "audio/pcmu", "audio/pcma", "audio/g711_ulaw", "g711-ulaw"}
    assert telling <= {name for names in FORMAT_SPELLINGS.values() for name in names}
    holders = {
        path.name
        for path in SOURCES
        if telling
        & {
            node.value
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
    }
    assert holders == {"formats.py"}


def test_heard_text_is_estimated_in_one_function() -> None:
    definers = {
        path.name
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.endswith("transcript_prefix")
    }
    assert definers == {"transcript.py"}


def test_error_codes_are_classed_in_one_file() -> None:
    classes = {"invalid_request_error", "rate_limit_error"}
    mappings = {
        path.relative_to(ROOT).as_posix()
        for path in SOURCES
        if SDK in path.parents
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in classes
    }
    assert {Path(name).name for name in mappings} == {"errors.py"}
