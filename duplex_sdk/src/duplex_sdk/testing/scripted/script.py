"""The script: what a session of the ``scripted`` plugin does, read from JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from duplex_sdk.plugin import DuplexRuntimeConfigError

__all__ = ["Answer", "Fault", "Script", "ToolScript", "merged", "parse"]

SERVER_KEYS = ("unit_ms", "in_rate", "out_rate", "turns", "limit_units")
"""Keys that make up the model's capabilities; a session cannot change them."""

_CODE = "invalid_duplex_runtime_config"
_PATH = "session.extra_body.script"

Positive = Annotated[int, msgspec.Meta(gt=0)]
Ms = Annotated[float, msgspec.Meta(ge=0)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A piece of a script; a key it does not know is an error."""


class Answer(_Part):
    """What to say; ``text`` None: "turn N"."""

    text: str | None = None
    ms: Ms = 2000
    audio: Literal["counter", "tone", "noise", "silence", "none"] = "counter"
    hz: float = 440
    delay_ms: Ms = 200
    words: bool = True
    heard: bool = False
    instructions: bool = False


class Act(_Part):
    """Something a native model does when its input clock reaches ``ms``."""

    ms: Ms
    say: Answer | None = None
    listen: bool = False


class Backchannel(_Part):
    """A short utterance that takes no turn."""

    at_ms: Ms
    ms: Ms


class ToolScript(_Part):
    """The tool to call on a turn, and what to say once its result came."""

    turn: Positive = 1
    name: str
    arguments: dict[str, Any] = {}
    then: Answer = Answer()


class Delay(_Part):
    """A fault that lasts."""

    hang_ms: Ms | None = None
    block_ms: Ms | None = None
    late_ms: Ms | None = None


Deed = Literal[
    "raise", "system_exit", "none", "garbage", "unknown_decision", "empty_speak", "die", "double",
    "nan", "clip", "stereo", "float64", "int32", "wrong_rate", "endless",
]  # fmt: skip


class Fault(_Part):
    """What goes wrong, where, and at which call of that place in the session."""

    where: Literal["open", "plan", "step", "project", "close", "config"]
    do: Deed | Delay
    nth: Positive | Literal["every"] = 1

    def hits(self, where: str, count: int) -> bool:
        """Whether the call number ``count`` of a place is the one."""
        return self.where == where and self.nth in ("every", count)


class Script(_Part):
    """A whole script; the defaults answer each turn of the server's detector."""

    unit_ms: Annotated[int, msgspec.Meta(ge=20, le=1000)] = 80
    in_rate: Annotated[int, msgspec.Meta(ge=8000)] = 16_000
    out_rate: Annotated[int, msgspec.Meta(ge=8000)] = 24_000
    turns: Literal["vad", "commit", "native"] = "vad"
    answers: tuple[Answer | None, ...] = (Answer(),)
    at: tuple[Act, ...] = ()
    yield_after_ms: Ms | None = 80
    backchannel: Backchannel | None = None
    limit_units: Positive | None = None
    cost_ms: Ms = 0
    cost_pct: Ms = 0
    prefill_ms: Ms = 0
    pace: Literal["realtime", "burst"] = "realtime"
    faults: tuple[Fault, ...] = ()
    tools: ToolScript | None = None
    seed: int = 0
    jitter_ms: Ms = 0

    @property
    def cost_s(self) -> float:
        """CPU time of one step in seconds."""
        return max(self.cost_ms, self.cost_pct * self.unit_ms / 100) / 1000

    def fault(self, where: str, count: int) -> Fault | None:
        """The fault for call number ``count`` of a place."""
        return next((fault for fault in self.faults if fault.hits(where, count)), None)


def parse(data: object, path: str = _PATH) -> Script:
    """Read a script.

    Raises:
        DuplexRuntimeConfigError: with the path of the key that is wrong.
    """
    try:
        return msgspec.convert(data, Script)
    except msgspec.ValidationError as error:
        where = re.search(r"at `\$(.*?)`", str(error))
        key = re.search(r"unknown field `(.*?)`", str(error))
        param = path + (where.group(1) if where else "") + (f".{key.group(1)}" if key else "")
        raise DuplexRuntimeConfigError(_CODE, f"{param}: {error}", param=param) from error


def merged(server: Mapping[str, Any], session: Mapping[str, Any]) -> dict[str, Any]:
    """A session's script over the server's, key by key.

    Raises:
        DuplexRuntimeConfigError: a key that only the server may set, or a script that is none.
    """
    whole = _overlay(server, session)
    script, base = parse(whole), parse(server)
    for key in SERVER_KEYS:
        if getattr(script, key) != getattr(base, key):
            raise _refused(key, "only the server's own script may set it")
    if (script.tools is None) != (base.tools is None):
        raise _refused("tools", "the server's own script decides whether there are tools")
    return whole


def _overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    whole = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(whole.get(key), Mapping)
        whole[key] = _overlay(whole[key], value) if both else value
    return whole


def _refused(key: str, why: str) -> DuplexRuntimeConfigError:
    param = f"{_PATH}.{key}"
    return DuplexRuntimeConfigError(_CODE, f"{param}: {why}", param=param)
