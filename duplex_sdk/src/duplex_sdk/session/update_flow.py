"""``session.update``: all of it or nothing."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from duplex_sdk.plugin import DuplexConfigError, DuplexRuntimeConfigError, DuplexSessionConfig
from duplex_sdk.protocol.duplex import RealtimeProtocolError, SessionUpdated, UpdateSession

from .effects import ConfigureInput
from .voice import voice_in_use
from .waiting_line import HeldStep

if TYPE_CHECKING:
    from .input_buffer import InputBuffer
    from .inputs import InputConfigured
    from .intake import Intake
    from .state import SessionState
    from .waiting_line import WaitingLine

__all__ = ["UpdateFlow"]

_SETTLED = {
    "instructions_update_unsupported": "instructions",
    "persona_update_unsupported": "instructions",
    "voice_update_after_audio_unsupported": "voice",
    "voice_update_unsupported": "voice",
}
_VOICE = "session.voice"


class UpdateFlow:
    """Changes the config of one session.

    Args:
        state: the session.
        buffer: whose pre-roll follows the detector's figures.
        line: where an update waits for the audio before it.
        intake: what a change of format resets.
    """

    __slots__ = ("_buffer", "_configuring", "_intake", "_line", "_state")

    def __init__(
        self, state: SessionState, buffer: InputBuffer, line: WaitingLine, intake: Intake
    ) -> None:
        self._state = state
        self._buffer = buffer
        self._line = line
        self._intake = intake
        self._configuring: int | None = None

    def receive(self, command: UpdateSession, *, lenient: bool) -> None:
        """A client updates: the update takes its turn behind the audio before it."""
        step = HeldStep(
            run=lambda: self._carry_out(command, lenient, spoiled=step.spoiled), settled=True
        )
        self._line.push(step)

    def _carry_out(self, command: UpdateSession, lenient: bool, *, spoiled: bool) -> None:
        state = self._state
        if spoiled:
            state.fail(
                "session_update_aborted", "the audio before this update failed", command=command
            )
            return
        try:
            candidate = self._candidate(command, lenient)
            candidate, runtime = self._taken(candidate, lenient)
        except RealtimeProtocolError as error:
            state.fail(error.code, error.message, command=command, param=error.param)
            return
        except DuplexRuntimeConfigError as error:
            param = error.param or "session.extra_body"
            state.fail(error.code, str(error), command=command, param=param)
            return
        self._publish(candidate, runtime)
        state.emit(SessionUpdated, session=state.public_session())

    def _candidate(self, command: UpdateSession, lenient: bool) -> DuplexSessionConfig:
        state = self._state
        candidate = state.config.updated(
            command.session,
            audio_started=state.audio_started,
            context_locked=state.context_locked,
            capabilities=state.capabilities,
            lenient=lenient,
            voice_in_use=lambda config: voice_in_use(state.plugin, config, state.session_id),
        )
        private = sorted(set(candidate.extra_body) & state.plugin.private_runtime_config_keys)
        if private:
            raise DuplexConfigError(
                "invalid_duplex_runtime_config",
                f"the key {private[0]!r} is the model's own",
                param=f"session.extra_body.{private[0]}",
            )
        if "extra_body" in command.session:
            state.plugin.validate_client_extra_body(MappingProxyType(dict(candidate.extra_body)))
        return candidate

    def _taken(
        self, candidate: DuplexSessionConfig, lenient: bool
    ) -> tuple[DuplexSessionConfig, object]:
        """The config that the plugin takes, and what it makes of it.

        Args:
            candidate: the config as the client wants it.
            lenient: what the plugin says is settled, or a voice it does not have, stays as it was.
        """
        while True:
            try:
                return candidate, self._runtime(candidate)
            except DuplexRuntimeConfigError as error:
                name = _SETTLED.get(error.code, "voice" if error.param == _VOICE else None)
                if not lenient or name is None:
                    raise
                kept = candidate.keeping(self._state.config, name)
                if kept == candidate:
                    raise
                candidate = kept

    def _runtime(self, candidate: DuplexSessionConfig) -> object:
        """What the plugin makes of the new config; it may refuse, nothing else of it matters."""
        state = self._state
        try:
            runtime = state.plugin.runtime_config_for_update(
                MappingProxyType(candidate.for_stages(state.session_id)),
                state.runtime_config,
                started=state.stages_opened,
            )
            state.plugin.configure_sampling_params(
                runtime_config=runtime,
                defaults=tuple(stage.sampling for stage in state.pipeline.stages),
            )
        except DuplexRuntimeConfigError:
            raise
        except Exception as error:
            raise DuplexConfigError(
                "runtime_signal_failed", f"the model could not take the update: {error!r}"
            ) from error
        return runtime

    def _publish(self, candidate: DuplexSessionConfig, runtime: object) -> None:
        state = self._state
        previous = state.config
        state.adopt(candidate)
        if not state.early_input:
            # Of a model that answers unasked no commit covers what it has heard.
            state.turn_input.release_early()
        state.runtime_config = runtime  # type: ignore[assignment]
        state.publish_config()
        if _input_of(candidate) != _input_of(previous):
            self._line.reset_stream()
        if candidate.turn_detection != previous.turn_detection:
            self.configure_input()

    def configure_input(self) -> None:
        """Have the shell exchange the detector, and keep as much pre-roll as it needs."""
        state = self._state
        detection = state.config.turn_detection
        state.trust_detector(True)
        length = 0.0
        if detection is not None:
            length = detection.prefix_padding_ms + detection.min_speech_duration_ms
        self._buffer.set_preroll(int(length))
        self._configuring = state.next_op()
        state.do(ConfigureInput(self._configuring, detection))

    def configured(self, item: InputConfigured) -> None:
        """The detector is there, or it is not and the session goes on without."""
        if item.op == self._configuring and item.fault is not None:
            self._intake.detector_lost(item.fault.message)


def _input_of(config: DuplexSessionConfig) -> tuple[str, int | None]:
    return config.input_format, config.input_sample_rate_hz
