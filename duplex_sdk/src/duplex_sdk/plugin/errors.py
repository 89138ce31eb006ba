"""How a plugin refuses, and how the host refuses a plugin."""

from __future__ import annotations

from duplex_sdk.errors import DuplexError

__all__ = ["DuplexRuntimeConfigError", "PluginSpecError"]


class PluginSpecError(DuplexError, ValueError):
    """A descriptor states something that cannot be."""


class DuplexRuntimeConfigError(DuplexError, ValueError):
    """A plugin's config hook refuses what the client asked for; the client sees ``code``.

    Attributes:
        code: a stable name for programs.
        message: words for a person.
        param: path of the field to blame, when there is one.
    """

    def __init__(
        self,
        code: str,
        message: str | None = None,
        *,
        param: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message or code, hint=hint)
        self.code = code
        self.message = message or code
        self.param = param
