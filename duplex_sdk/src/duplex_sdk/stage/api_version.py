"""The version of the plugin contract; ``duplex_sdk.plugin.api`` says what it promises.

It lives on this floor because a worker, which knows stages only, tells it when it is called.
"""

from __future__ import annotations

__all__ = ["API_VERSION"]

API_VERSION = "1.0"
