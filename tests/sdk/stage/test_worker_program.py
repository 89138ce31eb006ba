"""The worker as a program: a real process, spoken to over a real socket."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.stage import StagePrompt, StageSession, UnitRequest
from duplex_sdk.stage.api_version import API_VERSION
from duplex_sdk.stage.worker import (
    PROTOCOL,
    SECRET_VARIABLE,
    Call,
    CallResult,
    Close,
    Closed,
    FrameReader,
    FrameWriter,
    FromWorker,
    Hello,
    HelloReply,
    Load,
    LoadFailed,
    Log,
    Open,
    Opened,
    Outputs,
    Ping,
    Pong,
    Progress,
    Ready,
    Shutdown,
    Units,
)
from duplex_sdk.stage.worker.framing import MAX_FRAME_BYTES
from patience import PATIENCE_S

MODELS = Path(__file__).parents[2] / "worker_models"


class Engine:
    """The other end, with blocking calls."""

    def __init__(self, kind: str, folder: Path) -> None:
        if kind == "unix":
            self.listening = socket.socket(socket.AF_UNIX)
            self.listening.bind(str(folder / "s"))
            self.listening.listen()
            self.address = f"unix:{folder / 's'}"
        else:
            self.listening = socket.create_server(("127.0.0.1", 0))
            self.address = f"tcp:127.0.0.1:{self.listening.getsockname()[1]}"
        self.listening.settimeout(PATIENCE_S)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "duplex_sdk.stage.worker", "--connect", self.address],
            env={**os.environ, SECRET_VARIABLE: "s3cret", "PYTHONPATH": str(MODELS)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.stream = self.listening.accept()[0]
        self.stream.settimeout(PATIENCE_S)
        self._reader: FrameReader[FromWorker] = FrameReader(FromWorker)
        self._arrived: list[FromWorker] = []

    def send(self, *messages: Any) -> None:
        writer = FrameWriter()
        for message in messages:
            writer.add(message)
        self.stream.sendall(writer.take())

    def next(self, *kinds: type) -> Any:
        """The next message of one of these kinds; others are passed over."""
        while True:
            while self._arrived:
                message = self._arrived.pop(0)
                if type(message) in kinds:
                    return message
            count = self.stream.recv_into(self._reader.room())
            if not count:
                raise EOFError
            self._arrived += self._reader.received(count)

    def load(self, **options: Any) -> Any:
        self.send(Hello(PROTOCOL, API_VERSION, "s3cret"))
        self.next(HelloReply)
        self.send(Load("test", "worker_models:Obedient", 0, 0, options=options))
        return self.next(Ready, LoadFailed)

    def unit(self, session_id: str, seq: int = 1, **data: Any) -> UnitRequest:
        return UnitRequest(session_id, "r", 0, 1, seq, StagePrompt(data=data))

    def exit_code(self) -> int:
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        self.stream.close()
        self.listening.close()
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Engine]]:
    engines: list[Engine] = []

    def begin(kind: str = "unix") -> Engine:
        engines.append(Engine(kind, tmp_path))
        return engines[-1]

    yield begin
    for engine in engines:
        engine.close()


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_a_worker_says_who_it_is_loads_works_and_ends(
    start: Callable[..., Engine], kind: str
) -> None:
    engine = start(kind)
    engine.send(Hello(PROTOCOL, API_VERSION, "s3cret"))
    reply = engine.next(HelloReply)
    assert (reply.protocol, reply.api, reply.pid) == (PROTOCOL, API_VERSION, engine.process.pid)
    engine.send(Load("test", "worker_models:Obedient", 0, 0, device="cpu"))
    assert engine.next(Progress) == Progress(0.25, "weights")
    assert engine.next(Ready).info.device == "cpu"
    engine.send(Open(StageSession("a")), Units([engine.unit("a")]))
    assert engine.next(Opened).session_id == "a"
    outputs = engine.next(Outputs)
    while not outputs.outputs:
        outputs = engine.next(Outputs)
    assert outputs.outputs[0].text == "audio"
    assert list(outputs.taken) == [("a", 0, 1)]
    assert list(outputs.idle) == ["a"]
    engine.send(Close("a"))
    assert engine.next(Closed).session_id == "a"
    engine.send(Shutdown(5.0))
    assert engine.exit_code() == 0


def test_a_wrong_secret_is_told_nothing(start: Callable[..., Engine]) -> None:
    engine = start()
    engine.send(Hello(PROTOCOL, API_VERSION, "guessed"))
    with pytest.raises((EOFError, ConnectionResetError)):
        engine.next(HelloReply)
    assert engine.exit_code() == 77


@pytest.mark.parametrize(("protocol", "api"), [(PROTOCOL + 1, API_VERSION), (PROTOCOL, "2.0")])
def test_another_version_is_told_ours_and_refused(
    start: Callable[..., Engine], protocol: int, api: str
) -> None:
    engine = start()
    engine.send(Hello(protocol, api, "s3cret"))
    assert engine.next(HelloReply).protocol == PROTOCOL
    assert engine.exit_code() == 77


def test_a_secret_is_not_left_in_the_environment(start: Callable[..., Engine]) -> None:
    engine = start()
    engine.load()
    engine.send(Call(1, "secret", {}))
    assert engine.next(CallResult).value == []


def test_a_long_step_stops_no_heartbeat(start: Callable[..., Engine]) -> None:
    engine = start()
    engine.load()
    engine.send(Open(StageSession("a")), Units([engine.unit("a", sleep_s=600)]))
    busy: list[float] = []
    n = 0
    while not busy or busy[-1] < 200:
        n += 1
        engine.send(Ping(n))
        pong = engine.next(Pong)
        assert pong.n == n
        assert pong.rss > 1_000_000
        busy.append(pong.busy_ms)
        # Paced by the worker itself: each answer costs it a turn.


def test_what_a_model_logs_and_warns_of_reaches_the_engine(start: Callable[..., Engine]) -> None:
    engine = start()
    engine.send(Hello(PROTOCOL, API_VERSION, "s3cret"))
    engine.send(Load("test", "worker_models:Obedient", 0, 0, options={"warning": "old weights"}))
    log = engine.next(Log)
    assert log.level == "warning"
    assert "old weights" in log.text


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"load_error": "no weights"}, "no weights", "try another"),
        ({"load_raises": "bad header"}, "did not load: RuntimeError: bad header", None),
    ],
)
def test_a_failed_load_tells_message_hint_and_trace(
    start: Callable[..., Engine], options: dict[str, str], message: str, hint: str | None
) -> None:
    failed = start().load(**options)
    assert isinstance(failed, LoadFailed)
    assert message in failed.message
    assert failed.hint == hint
    assert "worker_models.py" in failed.trace


def test_a_model_too_big_for_the_machine_is_not_loaded(start: Callable[..., Engine]) -> None:
    engine = start()
    engine.send(Hello(PROTOCOL, API_VERSION, "s3cret"))
    engine.send(Load("test", "worker_models:Obedient", 0, 0, device="cpu", memory_bytes=1 << 60))
    failed = engine.next(LoadFailed)
    assert "are free there" in failed.message
    assert failed.hint is not None


def test_an_output_no_message_carries_fails_alone(start: Callable[..., Engine]) -> None:
    engine = start()
    engine.load()
    engine.send(
        *(Open(StageSession(name)) for name in "ab"),
        Units([engine.unit("a", odd=True), engine.unit("b")]),
    )
    outputs: list[Any] = []
    while len(outputs) < 3:
        outputs += engine.next(Outputs).outputs
    by_session = {name: [o for o in outputs if o.session_id == name] for name in "ab"}
    assert [o.text for o in by_session["b"]] == ["audio"]
    assert by_session["a"][0].text == "before"
    error = by_session["a"][1].error
    assert error.code == "runtime_append_failed"
    assert error.scope == "response"


def test_outputs_too_long_for_one_frame_come_in_several(start: Callable[..., Engine]) -> None:
    engine = start()
    engine.load()
    third = MAX_FRAME_BYTES // 3 + 1
    units = [engine.unit(name, huge=third) for name in "abc"]
    units.append(engine.unit("d", huge=MAX_FRAME_BYTES))
    engine.send(*(Open(StageSession(name)) for name in "abcd"), Units(units))
    outputs: list[Any] = []
    while len(outputs) < 4:
        outputs += engine.next(Outputs).outputs
    assert [len(o.data.get("huge", b"")) for o in outputs] == [third, third, third, 0]
    assert "bytes" in outputs[3].error.message


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "in a long step"])
def test_an_orphan_ends_by_itself(start: Callable[..., Engine], busy: bool) -> None:
    engine = start()
    engine.load()
    if busy:
        engine.send(Open(StageSession("a")), Units([engine.unit("a", sleep_s=600)]))
        while not (engine.send(Ping(1)) or engine.next(Pong).busy_ms):
            pass
    engine.stream.close()
    assert engine.exit_code() == 0


def test_shutdown_waits_no_longer_than_told(start: Callable[..., Engine]) -> None:
    engine = start()
    engine.load()
    engine.send(Open(StageSession("a")), Units([engine.unit("a", sleep_s=600)]), Shutdown(0.2))
    assert engine.exit_code() == 0


HELLO = Hello(PROTOCOL, API_VERSION, "s3cret")
LOAD = Load("test", "worker_models:Obedient", 0, 0)


@pytest.mark.parametrize(
    "messages", [[HELLO, Close("a")], [HELLO, HELLO], [HELLO, LOAD, LOAD]], ids=repr
)
def test_a_conversation_out_of_order_is_given_up(
    start: Callable[..., Engine], messages: list[Any]
) -> None:
    engine = start()
    engine.send(*messages)
    assert engine.exit_code() == 70


@pytest.mark.parametrize(
    "arguments", [["--connect", "unix:/no/such/socket"], ["--connect", "carrier pigeon"]]
)
def test_no_engine_is_one_sentence(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "duplex_sdk.stage.worker", *arguments],
        env={**os.environ, SECRET_VARIABLE: "s"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 77
    assert done.stderr.startswith("error: no engine at")
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_a_stopped_worker_does_not_outlive_who_started_it(tmp_path: Path) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "s"))
    listening.listen()
    listening.settimeout(PATIENCE_S)
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()",
            *(sys.executable, "-m", "duplex_sdk.stage.worker", "--dies-with-parent"),
            *("--connect", f"unix:{tmp_path / 's'}"),
        ],
        env={**os.environ, SECRET_VARIABLE: "s"},
    )
    stream = listening.accept()[0]
    stream.settimeout(PATIENCE_S)
    writer = FrameWriter()
    writer.add(Hello(PROTOCOL, API_VERSION, "s"))
    stream.sendall(writer.take())
    reader: FrameReader[FromWorker] = FrameReader(FromWorker)
    (reply,) = reader.received(stream.recv_into(reader.room()))
    os.kill(reply.pid, signal.SIGSTOP)  # type: ignore[union-attr]
    parent.kill()
    parent.wait()
    # The kernel closes a process's sockets only when the process is gone.
    assert stream.recv(1) == b""
    stream.close()
    listening.close()
