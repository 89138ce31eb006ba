"""What a session does, read from JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, ValidationError, convert

from duplex_sdk.plugin import DuplexRuntimeConfigError
from duplex_sdk.testing.faults import Count, Fault, Ms

__all__ = ["Answer", "Script", "merged", "parse"]

_CODE, _PATH = "invalid_duplex_runtime_config", "session.extra_body.script"
_SERVER_KEYS = ("unit_ms", "in_rate", "out_rate", "turns", "limit_units")


class Answer(Struct, frozen=True, forbid_unknown_fields=True):
    """What to say; ``text`` None: "turn N"."""

    text: str | None = None
    ms: Ms = 2000
    audio: Literal["counter", "tone", "noise", "silence", "none"] = "counter"
    hz: float = 440
    delay_ms: Ms = 200
    words: bool = True
    heard: bool = False
    instructions: bool = False


class Act(Struct, frozen=True, forbid_unknown_fields=True):
    """What a native model does when its input clock reaches ``ms``."""

    ms: Ms
    say: Answer | None = None
    listen: bool = False


class Backchannel(Struct, frozen=True, forbid_unknown_fields=True):
    """A short utterance that takes no turn."""

    at_ms: Ms
    ms: Ms


class ToolScript(Struct, frozen=True, forbid_unknown_fields=True):
    """The tool to call on a turn, and what to say once its result came."""

    name: str
    arguments: dict[str, Any] = {}
    turn: Count = 1
    then: Answer = Answer()


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole script; the defaults answer each turn of the server's detector."""

    unit_ms: Annotated[int, Meta(ge=20, le=1000)] = 80
    in_rate: Annotated[int, Meta(ge=8000)] = 16_000
    out_rate: Annotated[int, Meta(ge=8000)] = 24_000
    turns: Literal["vad", "commit", "native"] = "vad"
    answers: tuple[Answer | None, ...] = (Answer(),)
    at: tuple[Act, ...] = ()
    yield_after_ms: Ms | None = 80
    backchannel: Backchannel | None = None
    limit_units: Count | None = None
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

    @property
    def tells_heard(self) -> bool:
        """Whether an answer describes its input."""
        said = (*self.answers, *(act.say for act in self.at))
        return any(answer is not None and answer.heard for answer in said)


def parse(data: object, path: str = _PATH) -> Script:
    """Read a script; ``DuplexRuntimeConfigError`` names the key that is wrong."""
    try:
        return convert(data, Script)
    except ValidationError as error:
        place = re.search(r"`\$(.*?)`", str(error))
        key = re.search(r"unknown field `(.*?)`", str(error))
        param = path + (place.group(1) if place else "") + (f".{key.group(1)}" if key else "")
        raise DuplexRuntimeConfigError(_CODE, f"{param}: {error}", param=param) from error


def merged(server: Mapping[str, Any], session: Mapping[str, Any]) -> dict[str, Any]:
    """A session's script over the server's, key by key; refuses what only the server may set."""
    if not isinstance(session, Mapping):
        raise DuplexRuntimeConfigError(_CODE, f"{_PATH} must be an object", param=_PATH)
    whole = _overlay(server, session)
    script, base = parse(whole), parse(server)
    changed = [key for key in _SERVER_KEYS if getattr(script, key) != getattr(base, key)]
    if (script.tools is None) != (base.tools is None):
        changed.append("tools")
    if changed:
        param = f"{_PATH}.{changed[0]}"
        raise DuplexRuntimeConfigError(_CODE, f"{param} is the server's to set", param=param)
    return whole


def _overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    whole = dict(below)
    for key, value in above.items():
        nested = isinstance(value, Mapping) and isinstance(whole.get(key), Mapping)
        whole[key] = _overlay(whole[key], value) if nested else value
    return whole
