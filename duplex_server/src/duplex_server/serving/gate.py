"""The one gate every request passes: origin first, then key; HTTP and WebSocket alike."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from .admission import Admission
from .auth import presented_key
from .http_errors import error_response
from .origin import OriginRule

__all__ = ["Gate"]

_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Gate:
    """ASGI middleware that refuses before anything else runs.

    A refused WebSocket gets a plain HTTP answer, so it is never half open.

    Args:
        app: what lies behind.
        admission: who may use the server.
        origins: the rule for pages of other origins.
        open_paths: what may be read without a key: it holds nothing.
        open_prefix: the same for everything below a folder; None: no folder.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        admission: Admission,
        origins: OriginRule,
        open_paths: frozenset[str],
        open_prefix: str | None = None,
    ) -> None:
        self._app = app
        self._admission = admission
        self._origins = origins
        self._open_paths = open_paths
        self._open_prefix = open_prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with 401 or 403."""
        refusal = None
        if scope["type"] in ("http", "websocket"):
            refusal = await self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await refusal(scope, receive, send)
        else:
            await _deny(refusal, scope, receive, send)

    async def _refusal(self, scope: Scope) -> Response | None:
        connection = HTTPConnection(scope)
        if self._changes_something(scope) and not self._origin_allowed(connection.headers, scope):
            return error_response(403, "origin_not_allowed", "this origin may not use the server")
        if self._needs_key(scope):
            key = presented_key(
                connection.headers.get("authorization"), scope.get("subprotocols", ())
            )
            if not await self._admission.admits(key, connection.headers):
                return error_response(
                    401,
                    "invalid_api_key",
                    "a valid API key is required",
                    headers={"WWW-Authenticate": "Bearer"},
                )
        return None

    def _changes_something(self, scope: Scope) -> bool:
        return scope["type"] == "websocket" or scope["method"] not in _READING

    def _origin_allowed(self, headers: Headers, scope: Scope) -> bool:
        origins, hosts = headers.getlist("origin"), headers.getlist("host")
        if len(origins) > 1 or len(hosts) > 1:
            return False
        return self._origins.allows(
            origins[0] if origins else None,
            scheme=scope["scheme"],
            host=hosts[0] if hosts else None,
        )

    def _needs_key(self, scope: Scope) -> bool:
        if not self._admission.needed:
            return False
        reading = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        path = scope["path"]
        prefix = self._open_prefix
        is_open = path in self._open_paths or (prefix is not None and path.startswith(prefix))
        return not (reading and is_open)


async def _deny(refusal: Response, scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008, "reason": ""})
        return
    await send(
        {
            "type": "websocket.http.response.start",
            "status": refusal.status_code,
            "headers": refusal.raw_headers,
        }
    )
    await send({"type": "websocket.http.response.body", "body": refusal.body})
