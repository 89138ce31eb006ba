"""A light half that imports a library at its top, as a model's would."""

from __future__ import annotations

import hypothesis
from right_plugin import Right

__all__ = ["Heavy", "hypothesis"]


class Heavy(Right):
    """Right, but for what its module imports."""
