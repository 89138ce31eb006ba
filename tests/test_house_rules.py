"""Rules of the house that no linter knows: sizes, and what the pure core may not touch."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = [
    *ROOT.glob("duplex_sdk/src/**/*.py"),
    *ROOT.glob("duplex_server/src/**/*.py"),
    *ROOT.glob("plugins-local/src/**/*.py"),
]
TESTS = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("plugins-local/tests/**/*.py")]
CORE = [path for path in SOURCES if "duplex_sdk/session" in path.as_posix()]

LONGEST_FILE = 500
LONGEST_TEST_FILE = 900
LONGEST_FUNCTION = 60
MOST_METHODS = 25
LONGEST_SCRIPTED = 400
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
WIDE = {
    "DuplexClientBase": "a method for each thing that a client can do",
    "DuplexOmni": "the public face of an engine: what its embedder may ask for",
    "DuplexSessionRunner": "a method for each effect",
    "OrchestratorBase": "the seams are methods, most of them empty",
    "ProcessReplica": "a method for each message of a worker",
    "StageBench": "a method for each thing that can be done to a stage",
    "StageHost": "a method for each message and each call of a model",
}
"""Classes that may have more, and why."""


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def methods_by_class(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            kinds = ast.FunctionDef | ast.AsyncFunctionDef
            yield node.name, sum(isinstance(each, kinds) for each in node.body)


def has_a_reason(path: Path, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the function says why it is long, in a comment that begins ``# long:``."""
    text = path.read_text().splitlines()[function.lineno - 1 : function.end_lineno]
    return any("# long: " in line for line in text)


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def where(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_there_is_something_to_look_at() -> None:
    assert len(SOURCES) > 100
    assert len(CORE) > 10


def test_no_file_is_too_long() -> None:
    long = {where(path): lines(path) for path in SOURCES if lines(path) > LONGEST_FILE}
    long |= {where(path): lines(path) for path in TESTS if lines(path) > LONGEST_TEST_FILE}
    assert long == {}


def test_no_function_is_too_long() -> None:
    long = {
        f"{where(path)}:{function.name}": length
        for path in SOURCES
        for function in functions(path)
        if (length := (function.end_lineno or 0) - function.lineno + 1) > LONGEST_FUNCTION
        and not has_a_reason(path, function)
    }
    assert long == {}


def test_no_class_is_too_wide_but_those_that_say_why() -> None:
    wide = {
        name: f"{where(path)}: {count}"
        for path in SOURCES
        for name, count in methods_by_class(path)
        if count > MOST_METHODS
    }
    assert {name: place for name, place in wide.items() if name not in WIDE} == {}
    assert [name for name in WIDE if name not in wide] == [], "an exception nobody needs any more"


@pytest.mark.parametrize("vague", ["utils", "helpers", "common", "misc", "manager"])
def test_no_module_has_a_name_that_says_nothing(vague: str) -> None:
    assert [where(path) for path in SOURCES if path.stem == vague] == []


def test_the_core_makes_no_random_numbers_of_its_own() -> None:
    # import-linter sees whole packages only, and numpy as such is allowed.
    users = [
        where(path)
        for path in CORE
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in {"random", "default_rng"}
    ]
    assert users == []


def code_lines(path: Path) -> int:
    """Lines that hold code: no blank line, comment or docstring."""
    source = path.read_text()
    told: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            told.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    holding: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            holding.update(range(token.start[0], token.end[0] + 1))
    return len(holding - told)


def test_the_model_for_tests_stays_small_enough_to_be_read() -> None:
    scripted = (ROOT / "duplex_sdk/src/duplex_sdk/testing/scripted").glob("*.py")
    assert 200 < sum(map(code_lines, scripted)) <= LONGEST_SCRIPTED
