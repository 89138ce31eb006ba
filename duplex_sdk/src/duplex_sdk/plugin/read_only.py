"""JSON values that nobody can change, yet every encoder takes."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["ReadOnlyDict", "read_only"]


class ReadOnlyDict(dict[str, Any]):
    """A dict that refuses to change.

    A subclass of ``dict``, since encoders (``json``, msgspec) take no other mapping.
    """

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this mapping is a view and cannot be changed; copy it with dict()")

    __setitem__ = _refuse
    __delitem__ = _refuse
    __ior__ = _refuse
    clear = _refuse
    pop = _refuse
    popitem = _refuse
    setdefault = _refuse
    update = _refuse

    def __copy__(self) -> ReadOnlyDict:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ReadOnlyDict:
        return self

    def __reduce__(self) -> tuple[type[ReadOnlyDict], tuple[dict[str, Any]]]:
        return (ReadOnlyDict, (dict(self),))


def read_only(value: Any) -> Any:
    """A deep copy of a JSON value whose mappings and sequences cannot be changed."""
    if isinstance(value, ReadOnlyDict):
        return value
    if isinstance(value, dict):
        return ReadOnlyDict({key: read_only(inner) for key, inner in value.items()})
    if isinstance(value, list | tuple):
        return tuple(read_only(inner) for inner in value)
    return value
