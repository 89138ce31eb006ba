"""The floor under the socket layer: the same web server, an answer of the same size, no engine.

``python -m benchmarks.echo_server BYTES`` prints its port, then serves until it is ended.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

__all__ = ["EchoProcess"]


class EchoProcess:
    """The echo server as a child process, an async context manager.

    Attributes:
        url: where it listens, once entered.
    """

    def __init__(self, answer_bytes: int) -> None:
        self._answer_bytes = answer_bytes
        self._process: asyncio.subprocess.Process | None = None
        self.url = ""

    @property
    def pid(self) -> int:
        """Id of the process.

        Raises:
            RuntimeError: it was not started.
        """
        if self._process is None:
            raise RuntimeError("the echo server was not started")
        return self._process.pid

    async def __aenter__(self) -> EchoProcess:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "benchmarks.echo_server",
            str(self._answer_bytes),
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(30):
            port = await self._process.stdout.readline()
        self.url = f"ws://127.0.0.1:{int(port)}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            await self._process.wait()


def main() -> None:
    """Serve."""
    audio = base64.b64encode(bytes(int(sys.argv[1]))).decode()
    created = json.dumps({"type": "session.created"})
    # The keys in the order of the real thing: callers look at the beginning of a frame only.
    answer = f'{{"type":"response.output_audio.delta","response_id":"r","delta":"{audio}"}}'

    async def echo(client: WebSocket) -> None:
        await client.accept()
        try:
            await client.receive_text()
            await client.send_text(created)
            while True:
                await client.receive_text()
                await client.send_text(answer)
        except WebSocketDisconnect:
            return

    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(
        uvicorn.Config(
            Starlette(routes=[WebSocketRoute("/v1/duplex", echo)]),
            ws="websockets-sansio",
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
        )
    ).run(sockets=[listening])


if __name__ == "__main__":
    main()
