"""Which stack a deployment asks for: the engine, the application, and how they are warmed up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeAlias

from duplex_sdk.discovery import load_hooks

from duplex_server.entrypoints import DuplexOmni, TurnModel, warm_up, warm_up_turns
from duplex_server.serving import DuplexApp, ServingOptions, TurnApp, find_extensions
from duplex_server.settings import SettingsError
from duplex_server.stages import StageSettingError

from .loading import LoadingLog

if TYPE_CHECKING:
    from duplex_server.entrypoints import AsyncOmni
    from duplex_server.settings import ResolvedSettings

__all__ = ["Application", "ServingStack", "stack_of"]

Application: TypeAlias = DuplexApp | TurnApp


class ServingStack(ABC):
    """An engine that is not started yet, and what serves it.

    Attributes:
        omni: the engine.
        extensions: what installed packages add to the application.
    """

    omni: AsyncOmni

    def __init__(self, resolved: ResolvedSettings) -> None:
        self._resolved = resolved
        # No package is told a key.
        told = resolved.settings.model_dump(
            mode="json", exclude={"worker_secret": True, "serving": {"api_keys"}}
        )
        self.extensions = find_extensions(
            load_hooks(), told, authenticator=resolved.settings.serving.authenticator
        )

    @abstractmethod
    async def warm_up(self) -> None:
        """Have the started engine answer once, before anybody is let in."""

    @abstractmethod
    def application(self) -> Application:
        """What serves the started engine.

        Raises:
            ValueError: an allowed origin is not one.
        """

    def _options(self) -> ServingOptions:
        settings, serving = self._resolved.settings, self._resolved.settings.serving
        return ServingOptions(
            api_keys=tuple(key.get_secret_value() for key in serving.api_keys),
            allowed_origins=serving.allowed_origins,
            max_frame_bytes=serving.max_frame_bytes,
            config_timeout_s=serving.config_timeout_s,
            chat_backend=settings.chat_backend,
            extensions=self.extensions,
        )


def stack_of(resolved: ResolvedSettings) -> ServingStack:
    """The stack of the deployment's mode.

    Raises:
        DuplexError: the plugin can't be loaded, or a setting asks for what it does not have.
    """
    try:
        if resolved.settings.session_mode == "turn":
            return _TurnStack(resolved)
        return _DuplexStack(resolved)
    except StageSettingError as error:
        raise SettingsError(f"{error}{resolved.blame(error.path)}", hint=error.hint) from error


class _DuplexStack(ServingStack):
    def __init__(self, resolved: ResolvedSettings) -> None:
        super().__init__(resolved)
        self.omni: DuplexOmni = DuplexOmni(
            resolved.spec,
            resolved.plugin_options,
            runtime_config=resolved.session_limits,
            progress=LoadingLog(),
            deployment=resolved.deployment,
        )
        if resolved.settings.chat_backend == "engine" and not self.omni.pipeline.turn_requests:
            raise SettingsError(
                f"chat_backend: {resolved.spec.name} answers in sessions only",
                hint="say session, or leave it out",
            )

    async def warm_up(self) -> None:
        await warm_up(self.omni)

    def application(self) -> Application:
        return DuplexApp(self.omni, self._options())


class _TurnStack(ServingStack):
    def __init__(self, resolved: ResolvedSettings) -> None:
        super().__init__(resolved)
        self._model = TurnModel.load(
            resolved.spec,
            resolved.plugin_options,
            deployment=resolved.deployment,
            stage_call_timeout_s=resolved.session_limits.stage_call_timeout_s,
        )
        if not self._model.pipeline.turn_requests:
            raise SettingsError(
                f"session_mode: {resolved.spec.name} answers in sessions only",
                hint="leave it out to serve duplex sessions",
            )
        self.omni = self._model.async_omni(progress=LoadingLog())

    async def warm_up(self) -> None:
        if self._resolved.session_limits.warmup_frames > 0:
            await warm_up_turns(self.omni)

    def application(self) -> Application:
        return TurnApp(self._model, self.omni, self._options())
