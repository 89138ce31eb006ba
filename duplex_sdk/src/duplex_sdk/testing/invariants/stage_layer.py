"""Laws 106 to 116: what stages and transports may do to a session."""

from __future__ import annotations
