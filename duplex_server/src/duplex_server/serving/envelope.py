"""What a WebSocket upgrade says before any frame: path, query, and so the profile."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl

from .profiles import ConnectionProfile, DuplexProfile, OpenAIProfile

__all__ = ["ConnectionEnvelope"]

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class ConnectionEnvelope:
    """The rules of one connection, read from its URL. Unknown parameters are ignored.

    Attributes:
        duplex: the client asked for the ``duplex`` profile.
        model: as named by the client; None when it named none.
        autostart: the server may open a session by itself.
        resume: the first frame will be ``session.resume``.
    """

    duplex: bool
    model: str | None = None
    autostart: bool = True
    resume: bool = False

    @classmethod
    def from_url(cls, path: str, query: str) -> ConnectionEnvelope:
        """Read path and query string; of a repeated parameter the last one counts."""
        parameters = dict(parse_qsl(query, keep_blank_values=True))
        return cls(
            duplex=path.rstrip("/").endswith("/duplex") or _flag(parameters, "duplex", False),
            model=parameters.get("model") or None,
            autostart=_flag(parameters, "autostart", True),
            resume=_flag(parameters, "resume", False),
        )

    def new_profile(self) -> ConnectionProfile:
        """A fresh profile object for the session of this connection."""
        return DuplexProfile() if self.duplex else OpenAIProfile()

    @property
    def may_autostart(self) -> bool:
        """Whether a session may be opened without the client configuring or resuming one."""
        return self.autostart and not self.resume


def _flag(parameters: dict[str, str], name: str, default: bool) -> bool:
    value = parameters.get(name, "").lower()
    if value in _TRUE:
        return True
    return False if value in _FALSE else default
