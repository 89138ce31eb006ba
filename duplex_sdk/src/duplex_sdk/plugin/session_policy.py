"""What a plugin decides about a session: abilities, configuration, state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .session_state import DuplexModelSessionState
from .unit_buffer import UnitBuffer

if TYPE_CHECKING:
    from duplex_sdk.stage import Json

    from .capabilities import DuplexCapabilities
    from .input_processor import InputProcessor
    from .views import OutputContext

__all__ = ["SessionPolicy"]

# For a model without a unit of its own: ten pieces a second, and at most so much silence at the
# end of a turn.
_DEFAULT_UNIT_MS = 100


class SessionPolicy(ABC):
    """Session side of a plugin. A hook refuses with ``DuplexRuntimeConfigError(code)``.

    ``config`` is always the public session object, ``current`` the runtime config in force. Both
    are read-only; a hook that changes something returns a new mapping.

    Attributes:
        private_runtime_config_keys: keys of ``extra_body`` that no client may set.
    """

    private_runtime_config_keys: frozenset[str] = frozenset()

    @abstractmethod
    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        """What the model can do. Pure; the same for the life of the process."""

    def create_session_state(self) -> DuplexModelSessionState:
        """A fresh state, shared with no other session.

        By default its buffer cuts the model's units, or pieces of 100 ms for a model without.
        """
        known = self.capabilities(max_sessions=1)
        rate = known.input_sample_rate_hz
        return DuplexModelSessionState(
            UnitBuffer(known.unit_samples or rate * _DEFAULT_UNIT_MS // 1000, rate)
        )

    def validate_client_extra_body(  # noqa: B027 -- to accept everything is the default
        self, extra_body: Mapping[str, Json] | None
    ) -> None:
        """Check what the client puts into ``extra_body``. By default everything is welcome.

        Raises:
            DuplexRuntimeConfigError: something in it is not.
        """

    async def prepare_runtime_config(
        self, config: Mapping[str, Json], *, model_config: Mapping[str, Json]
    ) -> Mapping[str, Json]:
        """The runtime config a session starts with. Once, at its opening; may fetch.

        Args:
            config: the session object.
            model_config: the plugin's options.

        Raises:
            DuplexRuntimeConfigError: the session is refused with that code.
            ValueError: it is refused with ``invalid_duplex_runtime_config``.
        """
        return {}

    def runtime_config_for_update(
        self, config: Mapping[str, Json], current: Mapping[str, Json], *, started: bool
    ) -> Mapping[str, Json]:
        """The runtime config after an update of the session.

        Args:
            config: the session object as it will be.
            current: the runtime config in force.
            started: the stages are open, so what the model takes only at its start is settled.

        Raises:
            DuplexRuntimeConfigError: the update is refused and nothing changes.
        """
        return current

    def voice_in_use(self, config: Mapping[str, Json]) -> str | None:
        """The voice that a session with this config really has, as its client is told of it.

        For a model that knows several names for one voice, or has one for clients who name none.
        Pure, and asked again about its own answer it answers the same. A name that means nothing
        is given back as it is: the config hooks refuse it. By default the client's own word.

        Returns:
            A name; None: the voice has none.
        """
        voice: str | None = config.get("voice")
        return voice

    def runtime_config_for_function_output(
        self, config: Mapping[str, Json], current: Mapping[str, Json], item: Mapping[str, Json]
    ) -> Mapping[str, Json] | None:
        """The runtime config once a tool's result has come; None: unchanged."""
        return None

    def runtime_config_after_model_output(
        self, current: Mapping[str, Json], data: Mapping[str, Json]
    ) -> Mapping[str, Json] | None:
        """The runtime config once a stage output with ``data`` has come; None: unchanged."""
        return None

    def data_plane_context(self, context: OutputContext) -> object:
        """What the data plane gets as ``context`` with each output."""
        return context

    def create_input_processor(self, config: Mapping[str, Json]) -> InputProcessor | None:
        """A filter for this session's input; None: none. May import its library here."""
        return None
