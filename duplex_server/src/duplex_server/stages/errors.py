"""Why a stage cannot do what it was asked."""

from __future__ import annotations

from duplex_sdk.errors import DuplexError

__all__ = [
    "NoCreditError",
    "RequestCancelledError",
    "StageCallError",
    "StageSettingError",
    "StageUnavailableError",
]


class StageUnavailableError(DuplexError):
    """No replica of the stage can take the session: none is alive, or all are full."""


class RequestCancelledError(StageUnavailableError):
    """The request's owner called it off before the stage took it: an outcome, and no failure."""


class NoCreditError(DuplexError):
    """The session already has as many units with the stage as it may have."""


class StageCallError(DuplexError):
    """A collective call failed or did not end in time."""


class StageSettingError(DuplexError):
    """What a deployment says of a stage cannot be.

    Attributes:
        path: the setting to blame, such as ``stages.talker.backend``.
    """

    def __init__(self, path: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(f"{path}: {message}", hint=hint)
        self.path = path
