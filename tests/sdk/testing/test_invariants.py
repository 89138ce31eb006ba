"""The table of invariants: each of the 120 is a named check that runs somewhere."""

from __future__ import annotations

import ast
import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.testing.invariants import LAWS

ROOT = Path(__file__).parents[3]
COUNT = 120
BESIDE = {121, 122, 123, 124}
"""Nothing breaks inside; who may pass a waiting commit; calls held until the open response ends;
output that waits for its reader."""


def _table() -> Any:
    name = "harness_invariants"
    if name not in sys.modules:
        path = Path(__file__).with_name(f"{name}.py")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


HARNESS: dict[int, tuple[str, ...]] = _table().HARNESS


@cache
def functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def test_every_invariant_is_a_named_check() -> None:
    held = {law.number for law in LAWS} | set(HARNESS)
    assert held == set(range(1, COUNT + 1)) | BESIDE


def test_no_name_is_used_twice_and_each_says_what_it_looks_at() -> None:
    assert len({law.name for law in LAWS}) == len(LAWS)
    for law in LAWS:
        assert law.check.__doc__, law.name
        assert law.number >= 1


@pytest.mark.parametrize("test", sorted({test for tests in HARNESS.values() for test in tests}))
def test_the_tests_of_the_table_exist(test: str) -> None:
    path, _, name = test.partition("::")
    assert name.startswith("test_")
    assert name in functions(ROOT / path)
