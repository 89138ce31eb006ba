"""A lab on models that others use as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .session_lab import SessionLab

if TYPE_CHECKING:
    from duplex_sdk.stage.host import StageHost

    from .shared_models import SharedModels

__all__ = ["SharedLab"]


class SharedLab(SessionLab):
    """A session on models that are loaded already; the arguments are those of ``SessionLab``.

    Use it with ``with``, or close its ``stages``: the models serve others, so its rows must be free
    again.
    """

    def __init__(self, models: SharedModels, *arguments: Any, **options: Any) -> None:
        self._models = models
        super().__init__(*arguments, **options)

    def _make_hosts(self) -> tuple[StageHost, ...]:
        return self._models.hosts(lambda: self.now, self.capabilities.output_sample_rate_hz)

    def __enter__(self) -> SharedLab:
        return self

    def __exit__(self, *_: object) -> None:
        self.stages.close()
