from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from duplex_sdk.plugin.read_only import ReadOnlyDict, read_only


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.__setitem__("a", 2),
        lambda d: d.__delitem__("a"),
        lambda d: d.__ior__({"a": 2}),
        lambda d: d.update(a=2),
        lambda d: d.setdefault("b", 2),
        lambda d: d.pop("a"),
        lambda d: d.popitem(),
        lambda d: d.clear(),
    ],
)
def test_no_change_gets_through(change: Callable[[Any], object]) -> None:
    view = ReadOnlyDict({"a": 1})
    with pytest.raises(TypeError):
        change(view)
    assert view == {"a": 1}


def test_it_is_read_only_to_the_ground_and_apart_from_its_origin() -> None:
    origin = {"a": [{"b": 1}]}
    view = read_only(origin)
    origin["a"][0]["b"] = 2
    assert view == {"a": ({"b": 1},)}
    with pytest.raises(TypeError):
        view["a"][0]["b"] = 3


def test_it_can_be_copied_pickled_and_encoded() -> None:
    view = read_only({"a": [1, {"b": None}]})
    assert copy.copy(view) is view
    assert copy.deepcopy(view) == view
    assert pickle.loads(pickle.dumps(view)) == view
    assert json.loads(json.dumps(view)) == {"a": [1, {"b": None}]}
    assert dict(view) | {"c": 1} == {**view, "c": 1}
