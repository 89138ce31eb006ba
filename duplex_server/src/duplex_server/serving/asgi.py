"""What every application of ours has: one gate, and errors in one shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from .admission import Admission
from .auth import ApiKeys
from .extensions import ServerExtensions
from .gate import Gate
from .http_errors import error_response
from .origin import OriginRule

__all__ = ["ServingOptions", "gated"]


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """What a deployment settles about its doors.

    Attributes:
        api_keys: none: no key is needed.
        allowed_origins: foreign origins whose pages may use the server.
        max_frame_bytes: largest client frame, in bytes of UTF-8.
        config_timeout_s: longest wait for a first frame.
        chat_backend: what answers chat completions; None: the engine, where the model serves
            requests without a session, else sessions, where it answers without being spoken to.
        extensions: what installed packages add.
    """

    api_keys: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()
    max_frame_bytes: int = 15 * 1024 * 1024
    config_timeout_s: float = 10.0
    chat_backend: Literal["engine", "session"] | None = None
    extensions: ServerExtensions = field(default_factory=ServerExtensions)


def gated(
    routes: Sequence[BaseRoute],
    options: ServingOptions,
    *,
    origins: OriginRule,
    open_paths: frozenset[str],
    open_prefix: str | None = None,
) -> Starlette:
    """An application of these routes, behind the gate.

    Args:
        routes: in order of precedence.
        options: of this deployment.
        origins: whose pages may use it.
        open_paths: what may be read without a key.
        open_prefix: the same for everything below a folder.
    """
    gate = Middleware(
        Gate,
        admission=Admission(ApiKeys(options.api_keys), options.extensions.authenticator),
        origins=origins,
        open_paths=open_paths,
        open_prefix=open_prefix,
    )
    return Starlette(
        routes=routes,
        exception_handlers={HTTPException: _refused, Exception: _failed},
        middleware=[gate],
    )


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, "not_found", error.detail)


async def _failed(request: Request, error: Exception) -> Response:
    return error_response(500, "internal_error", "the server failed to answer")
