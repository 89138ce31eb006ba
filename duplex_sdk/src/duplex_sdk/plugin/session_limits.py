"""What a deployment allows its sessions: sizes, times and the policies at their limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from .config_errors import DuplexConfigError

__all__ = ["DuplexSessionRuntimeConfig"]

MIB = 1024 * 1024
RESERVED_COMMANDS = 64
"""Places in the mailbox that only commands other than appends may take."""


class DuplexSessionRuntimeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one server's sessions; times in seconds unless the name says ms.

    Attributes:
        max_sessions: slots; None: the plugin's own figure, else 1.
        idle_ttl_s: life of a session that nobody uses; None: for ever.
        disconnect_grace_s: life of a session without a socket.
        reaper_interval_s: expiry is noticed at most so much late.
        resume_replay_ttl_s: age at which an event can no longer be replayed.
        resume_replay_max_bytes_per_session: size of the replay journal.
        max_pending_input_bytes_per_session: input not yet taken by the model.
        max_pending_turns_per_session: commits not yet answered.
        max_pending_commands_per_session: places in the mailbox; the last 64 are for commands
            other than appends.
        max_pending_stage_output_bytes_per_session: stage output not yet projected.
        max_pending_output_bytes_per_session: events not yet taken by the reader.
        max_pending_output_events_per_session: the same, counted.
        overflow_policy: what an overflowing output ends.
        input_stall_timeout_s: longest wait for room of a connection that stops reading instead of
            refusing.
        output_stall_timeout_s: longest wait for a reader that takes nothing.
        late_unit_policy: what becomes of input that the model cannot keep up with.
        max_unit_lag_ms: lateness at which that policy begins; None: four periods, at least 500.
        stage_call_timeout_s: longest time of one plan, submit, abort or cleanup.
        close_timeout_s: longest wait for the cleanup before the terminal event.
        server_vad_model_path: another detector model; None: the one that comes with the server.
        warmup_frames: silent units before the server listens; below 0 switches warm-up off.
    """

    max_sessions: int | None = None
    idle_ttl_s: float | None = 300.0
    disconnect_grace_s: float = 30.0
    reaper_interval_s: float = 5.0
    resume_replay_ttl_s: float = 60.0
    resume_replay_max_bytes_per_session: int = 8 * MIB
    max_pending_input_bytes_per_session: int = 16 * MIB
    max_pending_turns_per_session: int = 4
    max_pending_commands_per_session: int = 1024
    max_pending_stage_output_bytes_per_session: int = 8 * MIB
    max_pending_output_bytes_per_session: int = 2 * MIB
    max_pending_output_events_per_session: int = 512
    overflow_policy: Literal["close_session", "fail_response"] = "close_session"
    input_stall_timeout_s: float = 30.0
    output_stall_timeout_s: float = 5.0
    late_unit_policy: Literal["skip_silence", "drop_oldest", "fail"] = "skip_silence"
    max_unit_lag_ms: float | None = None
    stage_call_timeout_s: float = 10.0
    close_timeout_s: float = 5.0
    server_vad_model_path: str | None = None
    warmup_frames: int = 0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name == "warmup_frames" or not isinstance(value, int | float):
                continue
            least = RESERVED_COMMANDS if name == "max_pending_commands_per_session" else 0
            if not least < value < math.inf:
                raise ValueError(f"{name} must be a number above {least}")
        if self.server_vad_model_path == "":
            raise ValueError("server_vad_model_path must not be empty")

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> DuplexSessionRuntimeConfig:
        """Read the ``duplex_session`` settings of a deployment.

        Raises:
            DuplexConfigError: ``invalid_argument`` for an unknown key, a wrong type or a figure
                out of range; ``param`` is the key where one is to blame.
        """
        unknown = sorted(str(name) for name in settings if name not in cls.__struct_fields__)
        if unknown:
            raise DuplexConfigError(
                "invalid_argument", f"no such setting: {', '.join(unknown)}", param=unknown[0]
            )
        for name, value in settings.items():
            _check_setting(name, value)
        return cls(**settings)


def _check_setting(name: str, value: Any) -> None:
    try:
        # One at a time, so that the message can name it.
        msgspec.convert({name: value}, DuplexSessionRuntimeConfig)
    except msgspec.ValidationError as error:
        problem = str(error).partition(" - at ")[0]
        text = problem if problem.startswith(name) else f"{name}: {problem}"
        raise DuplexConfigError("invalid_argument", text, param=name) from None
