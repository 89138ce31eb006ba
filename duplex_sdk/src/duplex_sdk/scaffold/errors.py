"""Why no project was written."""

from __future__ import annotations

from duplex_sdk.errors import DuplexError

__all__ = ["PluginNameError", "ProjectWriteError"]


class PluginNameError(DuplexError):
    """A name that no plugin may have; the message says which rule it breaks."""


class ProjectWriteError(DuplexError):
    """The folder is there already, or cannot be made. Nothing was written."""
