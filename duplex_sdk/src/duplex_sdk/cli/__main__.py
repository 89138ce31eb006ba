"""``python -m duplex_sdk.cli`` is ``duplex``."""

from __future__ import annotations

from . import main

main()
