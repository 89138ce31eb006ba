"""``duplex serve`` as a person runs it: a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import ssl
import sys
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from patience import PATIENCE_S, eventually
from processes import children, runs
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

ADDRESS = re.compile(r"https?://127\.0\.0\.1:(\d+)")


class Served:
    """A server process and what it has said."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.port = 0
        self.said: list[str] = []
        self._rest: asyncio.Task[None] | None = None

    async def wait_listening(self) -> None:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while line := (await self.process.stdout.readline()).decode():
                self.said.append(line)
                if found := ADDRESS.search(line):
                    self.port = int(found.group(1))
                    self._rest = asyncio.create_task(self._listen_on())
                    return
        raise AssertionError("".join(self.said))

    async def _listen_on(self) -> None:
        assert self.process.stdout is not None
        while line := (await self.process.stdout.readline()).decode():
            self.said.append(line)

    async def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(PATIENCE_S):
            code = await self.process.wait()
        if self._rest is not None:
            await self._rest
        return code


async def start(*arguments: str, **environment: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "duplex_sdk.cli",
        "serve",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


@asynccontextmanager
async def serve(*arguments: str, plugin: str = "scripted", **environment: str):
    served = Served(await start("--plugin", plugin, "--port", "0", *arguments, **environment))
    try:
        await served.wait_listening()
        yield served
    finally:
        await served.stop()


async def run(*arguments: str, **environment: str) -> tuple[int | None, str]:
    process = await start(*arguments, **environment)
    async with asyncio.timeout(PATIENCE_S):
        said, _ = await process.communicate()
    return process.returncode, said.decode()


async def closing(client: Any) -> tuple[list[str], int | None]:
    types = []
    try:
        while True:
            types.append(json.loads(await client.recv())["type"])
    except ConnectionClosed:
        return types, client.close_code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_signal_ends_every_session_in_its_profile_and_exits_cleanly(number):
    async with serve() as served:
        url = f"ws://127.0.0.1:{served.port}"
        async with (
            connect(f"{url}/v1/realtime") as stock,
            connect(f"{url}/v1/duplex?model=scripted") as ours,
        ):
            await stock.recv()
            await ours.recv()
            code = await served.stop(number)
            assert await closing(stock) == ([], 1001)
            assert await closing(ours) == (["session.closed"], 1000)
    assert code == 0
    assert "Traceback" not in "".join(served.said)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
async def test_workers_end_with_the_server_however_it_ends(number):
    stage = ("--stage", "scripted.backend=process", "--stage", "scripted.replicas=2")
    async with serve(*stage) as served:
        workers = children(served.process.pid)
        assert len(workers) == 2
        await served.stop(number)
    await eventually(lambda: not any(map(runs, workers)))


async def test_panel_says_where_what_and_how_many():
    async with serve("--max-sessions", "3", "--api-key", "very-secret") as served:
        await served.stop()
    said = "".join(served.said)
    assert f"ws://127.0.0.1:{served.port}/v1/realtime" in said
    assert "scripted" in said
    assert "cpu" in said
    assert "3 at once" in said
    assert "very-secret" not in said


async def test_client_faults_leave_no_traceback_and_a_server_that_serves():
    async with serve() as served:
        url = f"ws://127.0.0.1:{served.port}/v1/duplex?model=scripted"
        async with connect(url) as client:
            await client.recv()
            # A text frame that is not UTF-8: fin + text, masked with zeros.
            client.transport.write(b"\x81\x82\0\0\0\0\xff\xfe")
            assert (await closing(client))[1] == 1007
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"\x16\x03\x01 not http at all\r\n\r\n")
        await writer.drain()
        await reader.read()
        writer.close()
        async with connect(url) as client:
            assert json.loads(await client.recv())["type"] == "session.created"
        await served.stop()
    assert "Traceback" not in "".join(served.said)


async def test_turn_mode_answers_written_questions_and_says_so():
    arguments = ("--session-mode", "turn", "--warmup-frames", "1")
    async with serve(*arguments, plugin="local") as served:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{served.port}") as client:
            question = {"role": "user", "content": "What is two plus three?"}
            answer = await client.post("/v1/chat/completions", json={"messages": [question]})
            health = (await client.get("/health")).json()
            page = await client.get("/")
        code = await served.stop()
    assert answer.json()["choices"][0]["message"]["content"] == "2 plus 3 is 5."
    assert (health["status"], health["session_mode"]) == ("ok", "turn")
    assert page.json()["error"]["code"] == "unsupported"
    assert code == 0
    said = "".join(served.said)
    assert "warmed up" in said
    assert "chat completions: http://127.0.0.1" in said
    assert "realtime" not in said
    assert "Traceback" not in said


async def test_nobody_is_let_in_before_the_engine_is_warm():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    slow = {"faults": [{"where": "config", "nth": 1, "do": {"hang_ms": 1000}}]}
    options = ("--warmup-frames", "1", "--plugin-option", f"script={json.dumps(slow)}")
    served = Served(await start("--plugin", "scripted", "--port", str(port), *options))
    refused = 0
    try:
        listening = asyncio.create_task(served.wait_listening())
        while not listening.done():
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                refused += 1
                await asyncio.sleep(0.02)
            else:
                writer.close()
                break
        await listening
    finally:
        await served.stop()
    said = [line.strip() for line in served.said]
    warm = [number for number, line in enumerate(said) if "warmed up" in line]
    open_at = [number for number, line in enumerate(said) if ADDRESS.search(line)]
    assert warm, said
    assert warm[0] < open_at[0]
    assert refused > 10


async def test_taken_port_is_one_sentence_and_a_hint():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = await run("--plugin", "scripted", "--port", str(port))
    assert code == 1
    assert f"error: port {port} on 127.0.0.1 is taken" in said
    assert "hint: " in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--plugin", "scriptd"], 1, "did you mean 'scripted'"),
        (["--plugin", "scripted", "--port", "no"], 2, "serving.port"),
        (["--plugin", "scripted", "--no-such-flag"], 2, "--no-such-flag"),
        (["--plugin", "scripted", "--plugin-option", "nothing"], 2, "KEY=VALUE"),
        (["--plugin", "scripted", "--plugin-option", "colour=blue"], 2, "no option 'colour'"),
        (["--plugin", "scripted", "--allowed-origin", "friend"], 2, "allowed_origins"),
        (["--plugin", "scripted", "--session-mode", "turn"], 2, "answers in sessions only"),
        (["--plugin", "scripted", "--chat-backend", "engine"], 2, "answers in sessions only"),
        (["--plugin", "scripted", "--stage", "talker.replicas=2"], 2, "stages.talker: no such"),
        (["--plugin", "scripted", "--stage", "scripted.backend=vllm"], 2, "(from --stage)"),
        (["--plugin", "scripted", "--stage", "scripted.replicas=no"], 2, "scripted.replicas"),
        (["--plugin", "scripted", "--stage", "scripted"], 2, "ID.KEY=VALUE"),
        (["--plugin", "scripted", "--device", "cuda:7"], 1, "no CUDA device"),
        (["--plugin", "scripted", "--worker-python", "/no/python"], 1, "does not run"),
        (["--plugin", "scripted", "--host", "no.such.host.invalid"], 1, "no.such.host.invalid"),
    ],
)
async def test_what_cannot_be_is_one_sentence(arguments, code, words):
    returned, said = await run(*arguments)
    assert returned == code
    assert words in said
    assert "Traceback" not in said


async def test_help_lists_the_plugins_own_flags_and_the_session_limits():
    code, said = await run("--plugin", "local", "--help", COLUMNS="160")
    assert code == 0
    for flag in ("--llm-url", "--max-sessions", "--api-key", "--late-unit-policy", "--config"):
        assert flag in said


async def test_print_config_serves_nothing():
    code, said = await run("--plugin", "scripted", "--print-config", DUPLEX_PORT="4711")
    assert code == 0
    (line,) = [line for line in said.splitlines() if line.startswith("serving.port")]
    assert line.split() == ["serving.port", "4711", "$DUPLEX_PORT"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
async def test_certificate_serves_wss(tmp_path):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost")
    names = ("-addext", "subjectAltName=IP:127.0.0.1", "-out", str(certificate))
    maker = await asyncio.create_subprocess_exec(
        "openssl", *make, *names, "-keyout", str(key), stderr=asyncio.subprocess.DEVNULL
    )
    assert await maker.wait() == 0
    flags = ("--ssl-certfile", str(certificate), "--ssl-keyfile", str(key))
    trusted = ssl.create_default_context(cafile=str(certificate))
    async with serve(*flags) as served:
        url = f"wss://127.0.0.1:{served.port}/v1/realtime"
        async with connect(url, ssl=trusted) as client:
            assert json.loads(await client.recv())["type"] == "session.created"
