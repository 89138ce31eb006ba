"""The client in an environment that has nothing of the server, of models or of figures (B07)."""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
from typing import Any

from duplex_server.testing import Harness
from patience import PATIENCE_S

PROGRAM = textwrap.dedent(
    """
    import asyncio, importlib.abc, json, sys

    ABSENT = (
        "duplex_server", "duplex_plugin_local", "duplex_sdk.plugin", "duplex_sdk.stage",
        "duplex_sdk.session", "duplex_sdk.testing", "numpy", "torch", "soxr", "onnxruntime",
        "pydantic", "starlette", "uvicorn", "prometheus_client", "opentelemetry", "rich", "typer",
        "jinja2", "pluggy", "pytest",
    )

    class Absence(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if any(name == each or name.startswith(each + ".") for each in ABSENT):
                raise ModuleNotFoundError(f"{name} is not installed", name=name)
            return None

    sys.meta_path.insert(0, Absence())

    from duplex_sdk.clients import ClockPlayer, DuplexClient
    from duplex_sdk.clients.commands import SessionCommands
    from duplex_sdk.protocol.duplex import SessionHeartbeatAck

    called = set()

    class Deaf(ClockPlayer):
        def output(self, audio):
            pass

        def silence(self, response_id):
            pass

    class Watched(DuplexClient):
        def __getattribute__(self, name):
            called.add(name)
            return super().__getattribute__(name)

    async def conversation(url):
        client = Watched(url, {"turn_detection": None})
        async with client:
            client.attach(Deaf())
            stream = client.responses()
            await (await client.update({"instructions": "Be brief."})).acknowledged()
            await client.append_audio(bytes(6400))
            await (await client.clear_input()).acknowledged()
            await client.stream_pcm(b"\\x10\\x20" * 3200, sample_rate_hz=16000)
            await (await client.commit(response_create=True)).acknowledged()
            handle = await anext(stream)
            heard = b"".join([piece async for piece in handle.audio()])
            done = await handle.wait()
            item = done.response.output[0].id
            await (await client.ack_playback(200, response_id=handle.response_id)).acknowledged()
            await (await client.truncate_item(item, 100)).acknowledged()
            await (await client.retrieve_item(item)).acknowledged()
            await (await client.delete_item(item)).acknowledged()
            await (await client.send_text("go on")).acknowledged()
            await (await client.create_item({"type": "message", "role": "system",
                "content": [{"type": "input_text", "text": "calmly"}]})).acknowledged()
            await (await client.create_response()).acknowledged()
            await client.interrupt()
            await (await client.clear_output()).acknowledged()
            again = await client.create_response()
            await again.acknowledged()
            await (await client.cancel_response()).acknowledged()
            waiting = asyncio.create_task(client.wait_for(SessionHeartbeatAck, 60))
            await asyncio.sleep(0)
            await client.send({"type": "session.heartbeat"})
            await waiting
            facts = (client.session_id, client.capabilities["chunk_period_ms"], client.closed)
            trace = [frame.payload for frame in client.trace.frames()]
        return {
            "heard": len(heard),
            "transcript": handle.transcript,
            "facts": facts,
            "frames": len(trace),
            "uncalled": sorted(
                name for name in vars(SessionCommands)
                if not name.startswith("_") and callable(getattr(SessionCommands, name))
                and name not in called
            ),
            "loaded": sorted(name for name in sys.modules if name.split(".")[0] in ABSENT
                             or any(name.startswith(each) for each in ABSENT)),
        }

    print(json.dumps(asyncio.run(conversation(sys.argv[1]))))
    """
)


async def test_b07_a_client_alone_holds_a_whole_conversation() -> None:
    answers = [{"text": "two words", "ms": 400, "delay_ms": 0}, {"ms": 60_000, "delay_ms": 0}]
    script = {"turns": "commit", "answers": answers}
    async with Harness().server("scripted", {"script": script}) as server:
        program = await asyncio.create_subprocess_exec(
            sys.executable,
            "-W",
            "error",
            "-c",
            PROGRAM,
            server.url,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(PATIENCE_S):
            told, complaint = await program.communicate()
    assert program.returncode == 0, complaint.decode()
    result: dict[str, Any] = json.loads(told)
    assert result["heard"] == 400 * 48
    assert result["transcript"] == "two words"
    assert result["facts"][0].startswith("duplex-")
    assert result["frames"] > 20
    assert result["uncalled"] == []
    assert result["loaded"] == []
