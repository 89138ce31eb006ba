"""The host: it drives a ``StageModel`` for many sessions, whatever thread or process it runs in."""

from __future__ import annotations

from .host import StageHost
from .result import HostResult, StepReport
from .unit_host import UnitHost

__all__ = ["HostResult", "StageHost", "StepReport", "UnitHost"]
