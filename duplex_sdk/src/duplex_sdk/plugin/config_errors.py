"""A session object that is refused."""

from __future__ import annotations

from duplex_sdk.protocol.duplex import RealtimeProtocolError

__all__ = ["DuplexConfigError"]


class DuplexConfigError(RealtimeProtocolError):
    """A session object, an update of one, or options of one response that cannot be.

    ``code`` is one of the wire's table, ``param`` the path of the field. Nothing was changed.
    """
