"""What a ``response.create`` asks for this one response only."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from duplex_sdk.protocol.duplex import (
    ANY_RATE_PROTOCOL,
    OPENAI_PROTOCOL,
    AudioFormat,
    RealtimeProtocolError,
)

from .config_errors import DuplexConfigError
from .format_merge import merged_format
from .session_fields import SessionReader

if TYPE_CHECKING:
    from .config import DuplexSessionConfig

__all__ = ["ResponseCreateOptions"]

MAX_METADATA_PAIRS = 16
MAX_METADATA_KEY_CHARS = 64
MAX_METADATA_VALUE_CHARS = 512
RESERVED_METADATA_KEY = "duplex"

_NATIVE_REFUSED = ("instructions", "voice", "temperature", "max_tokens", "tools", "tool_choice")
_OPTIONS = ("modalities", "speed", "prompt", *_NATIVE_REFUSED)


class ResponseCreateOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one response; None where the session's own value holds.

    Attributes:
        out_of_band: the response stays outside the conversation.
        input: items it answers instead of the conversation; None: the conversation.
        metadata: the client's own pairs, echoed.
    """

    modalities: tuple[str, ...] | None = None
    instructions: str | None = None
    voice: str | None = None
    response_format: str | None = None
    output_sample_rate_hz: int | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    speed: float | None = None
    tools: tuple[dict[str, Any], ...] | None = None
    tool_choice: str | dict[str, Any] | None = None
    prompt: Any = None
    metadata: dict[str, str] | None = None
    extra_body: Mapping[str, Any] | None = None
    out_of_band: bool = False
    input: tuple[Any, ...] | None = None

    @classmethod
    def from_realtime(
        cls,
        response: Mapping[str, Any],
        *,
        native: bool,
        lenient: bool = False,
        out_of_band: bool = False,
        private_keys: Collection[str] = (),
    ) -> ResponseCreateOptions:
        """Read the ``response`` of a ``response.create``.

        Args:
            response: the client's object.
            native: the model takes its own turns and cannot be told otherwise for one of them.
            lenient: drop what such a model cannot honour instead of refusing it.
            out_of_band: whether the model can answer outside the conversation.
            private_keys: keys of ``extra_body`` that no client may set; they are dropped.

        Raises:
            DuplexConfigError: ``unsupported_audio_format``,
                ``unsupported_native_response_options``, ``invalid_tools`` or ``bad_event``;
                ``param`` begins with ``response``.
        """
        protocol = OPENAI_PROTOCOL if lenient else ANY_RATE_PROTOCOL
        reader = SessionReader(
            {
                name: value
                for name, value in response.items()
                if value is not None and name not in _HANDLED_HERE
            },
            code="bad_event",
            protocol=protocol,
            lenient=lenient,
        )
        try:
            output = reader.output_format()
            extra = reader.extra_body()
            fields = reader.other_fields()
        except RealtimeProtocolError as error:
            raise _refusal(error.code, error.message, error.param) from None
        stated = {name: value for name, value in fields.items() if name in _OPTIONS}
        if native:
            stated = _allowed_for_native(stated, lenient=lenient)
        extra = {name: value for name, value in extra.items() if name not in private_keys}
        return cls(
            **stated,
            response_format=output.name or None,
            output_sample_rate_hz=output.rate
            or (protocol.pcm_rate if output.name == "pcm16" else None),
            metadata=_metadata(response.get("metadata"), lenient=lenient),
            extra_body=extra or None,
            out_of_band=_conversation(response.get("conversation"), out_of_band),
            input=_input(response.get("input"), out_of_band),
        )

    def apply_to(self, config: DuplexSessionConfig) -> DuplexSessionConfig:
        """The session's configuration with these options in force."""
        changes = {
            name: getattr(self, name) for name in _OPTIONS if getattr(self, name) is not None
        }
        spoken = merged_format(
            AudioFormat(config.response_format, config.output_sample_rate_hz),
            AudioFormat(self.response_format or "", self.output_sample_rate_hz),
        )
        changes |= {"response_format": spoken.name, "output_sample_rate_hz": spoken.rate}
        if self.extra_body is not None:
            changes["extra_body"] = {**config.extra_body, **self.extra_body}
        return msgspec.structs.replace(config, **changes)


_HANDLED_HERE = ("type", "metadata", "conversation", "input")


def _allowed_for_native(stated: dict[str, Any], *, lenient: bool) -> dict[str, Any]:
    refused = [name for name in _NATIVE_REFUSED if name in stated]
    if refused and not lenient:
        raise _refusal(
            "unsupported_native_response_options",
            "this model takes its own turns: set it for the session",
            refused[0],
        )
    return {name: value for name, value in stated.items() if name not in refused}


def _metadata(value: Any, *, lenient: bool) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or len(value) > MAX_METADATA_PAIRS:
        raise _refusal(
            "bad_event", f"must be an object of at most {MAX_METADATA_PAIRS} pairs", "metadata"
        )
    for key, entry in value.items():
        if not isinstance(entry, str) or len(entry) > MAX_METADATA_VALUE_CHARS:
            raise _refusal(
                "bad_event",
                f"values are strings of at most {MAX_METADATA_VALUE_CHARS} characters",
                "metadata",
            )
        if len(key) > MAX_METADATA_KEY_CHARS:
            raise _refusal(
                "bad_event", f"keys have at most {MAX_METADATA_KEY_CHARS} characters", "metadata"
            )
    if RESERVED_METADATA_KEY in value and not lenient:
        raise _refusal("bad_event", "the key duplex is reserved", "metadata")
    return dict(value)


def _conversation(value: Any, supported: bool) -> bool:
    if value is None or value == "auto":
        return False
    if value != "none":
        raise _refusal("bad_event", "must be auto or none", "conversation")
    if not supported:
        raise _refusal(
            "unsupported_native_response_options",
            "this model answers inside the conversation only",
            "conversation",
        )
    return True


def _input(value: Any, supported: bool) -> tuple[Any, ...] | None:
    if value is None:
        return None
    if not supported:
        raise _refusal(
            "unsupported_native_response_options",
            "this model answers the conversation only",
            "input",
        )
    if not isinstance(value, list | tuple):
        raise _refusal("bad_event", "must be a list", "input")
    return tuple(value)


def _refusal(code: str, message: str, param: str | None) -> DuplexConfigError:
    path = "response" if param is None else f"response.{param}"
    return DuplexConfigError(code, f"{path}: {message}", param=path)
