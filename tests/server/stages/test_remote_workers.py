"""Stages in workers that another machine lends; that machine is ``duplex worker``, for real."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from duplex_sdk.stage import StageConfig, StageLoadError, StagePrompt, StageSession, UnitRequest
from duplex_sdk.stage.worker import SECRET_VARIABLE, Load
from duplex_sdk.stage.worker.proof import GREETING, NONCE_BYTES, PROOF_BYTES, proofs_of
from duplex_server.stages import (
    Deployment,
    ReplicaSink,
    RestartPolicy,
    StagePool,
    StageReplica,
    StageSettingError,
)
from duplex_server.stages.process_replica import ProcessReplica, WorkerSettings
from duplex_server.stages.remote_worker import RemotePlace
from patience import PATIENCE_S, eventually, wait_until
from processes import children

MODELS = Path(__file__).parents[2] / "worker_models"
SECRET = "a secret that both sides know"


class Machine:
    """``duplex worker`` in a process of its own."""

    def __init__(self, *arguments: str, listen: str = "127.0.0.1:0", secret: str = SECRET) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "duplex_sdk.cli", "worker", "--listen", listen),
                *arguments,
            ],
            env={**os.environ, SECRET_VARIABLE: secret, "PYTHONPATH": str(MODELS)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()

    @property
    def address(self) -> str:
        found = re.search(r"127\.0\.0\.1:\d+", self.said)
        assert found, self.said
        return found.group()

    def connect(self) -> socket.socket:
        host, _, port = self.address.rpartition(":")
        stream = socket.create_connection((host, int(port)))
        stream.settimeout(PATIENCE_S)
        return stream

    def children(self) -> set[int]:
        return children(self.process.pid)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE_S)
        assert self.process.stdout is not None
        self.said += self.process.stdout.read()
        self.process.stdout.close()
        return code


@pytest.fixture
def start_machine() -> Iterator[Callable[..., Machine]]:
    machines: list[Machine] = []

    def start(*arguments: str, **how: str) -> Machine:
        machines.append(Machine(*arguments, **how))
        return machines[-1]

    yield start
    for machine in machines:
        if machine.process.poll() is None:
            assert machine.end() == 0


@pytest.fixture(scope="module")
def shared_machine() -> Iterator[Machine]:
    machine = Machine()
    yield machine
    assert machine.end() == 0


@pytest.fixture
def machine(shared_machine: Machine) -> Machine:
    """One that runs nothing yet."""
    wait_until(lambda: not shared_machine.children())
    return shared_machine


class Field:
    """Makes pools whose replicas run at the addresses given."""

    def __init__(self, heard: Any) -> None:
        self.heard = heard
        self.pools: list[StagePool] = []
        self._seq = 0

    def unstarted(
        self,
        *addresses: str,
        secret: str = SECRET,
        call_timeout_s: float = 10.0,
        beat_s: float = 0.7,
        **options: Any,
    ) -> StagePool:
        def make(replica_id: int, sink: ReplicaSink) -> StageReplica:
            load = Load(
                "test", "worker_models:Obedient", 0, replica_id, device="cpu", options=options
            )
            place = RemotePlace(addresses[replica_id], secret)
            return ProcessReplica(
                WorkerSettings(load, f"w-{replica_id}", call_timeout_s, None, beat_s, place), sink
            )

        config = StageConfig("w", model="unused:Here", replicas=len(addresses))
        policy = RestartPolicy((0.01,))
        pool = StagePool(0, config, self.heard, make_replica=make, restart=policy)
        self.pools.append(pool)
        return pool

    async def pool(self, *addresses: str, **settings: Any) -> StagePool:
        pool = self.unstarted(*addresses, **settings)
        await pool.start(lambda fraction, text: None)
        return pool

    def submit(self, pool: StagePool, session_id: str, text: str = "", **order: Any) -> None:
        self._seq += 1
        prompt = StagePrompt(text=text or None, data=order)
        pool.submit(UnitRequest(session_id, f"{session_id}/0", 0, 1, self._seq, prompt))


@pytest.fixture
async def field(shop: Any) -> AsyncIterator[Field]:
    field = Field(shop.heard)
    yield field
    for pool in field.pools:
        await pool.stop(2.0)


class TestServed:
    async def test_sessions_are_served_by_replicas_elsewhere(
        self, field: Field, machine: Machine
    ) -> None:
        pool = await field.pool(machine.address, machine.address)
        for name in "ab":
            pool.open(StageSession(name))
            field.submit(pool, name, f"said in {name}")
        await field.heard.until(lambda: len(field.heard.idle) == 2)
        assert {output.text for output in field.heard.outputs} == {"said in a", "said in b"}
        pids = await pool.call("pid", {}, timeout_s=PATIENCE_S)
        assert set(pids) == machine.children()
        assert [status.pid for status in pool.replicas] == [None, None]
        assert all(status.info is not None for status in pool.replicas)

    async def test_nothing_there_can_read_the_secret(self, field: Field, machine: Machine) -> None:
        pool = await field.pool(machine.address)
        assert await pool.call("secret", {}, timeout_s=PATIENCE_S) == [[]]

    async def test_stopping_the_pool_ends_the_processes(
        self, field: Field, start_machine: Callable[..., Machine]
    ) -> None:
        machine = start_machine()
        pool = await field.pool(machine.address)
        await pool.stop(5.0)
        await eventually(lambda: not machine.children())
        assert machine.end() == 0
        assert "it exited with code 0" in machine.said

    async def test_a_model_that_does_not_load_says_why(
        self, field: Field, machine: Machine
    ) -> None:
        with pytest.raises(StageLoadError, match="no weights here") as failure:
            await field.pool(machine.address, load_error="no weights here")
        assert failure.value.hint == "try another"
        await eventually(lambda: not machine.children())

    async def test_a_machine_that_is_not_there_yet_is_waited_for(
        self, field: Field, start_machine: Callable[..., Machine]
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        pool = field.unstarted(address)
        starting = asyncio.create_task(pool.start(lambda fraction, text: None))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(start_machine, listen=address)
        await starting
        assert pool.alive


class TestDeath:
    @pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
    async def test_one_that_is_killed_or_stopped_fails_its_sessions_and_comes_back(
        self, field: Field, machine: Machine, how: signal.Signals
    ) -> None:
        pool = await field.pool(machine.address, machine.address)
        pool.open(StageSession("a"))
        pool.open(StageSession("b"))
        victim, other = await pool.call("pid", {}, timeout_s=PATIENCE_S)
        os.kill(victim, how)
        await field.heard.until(lambda: bool(field.heard.failed))
        ((name, error),) = field.heard.failed
        assert (name, error.code) == ("a", "runtime_failed")
        # Until the stopped one is gone its place may still be taken, never longer.
        await eventually(lambda: (0, 1) in field.heard.ready)
        await eventually(lambda: victim not in machine.children())
        assert (await pool.call("pid", {}, timeout_s=PATIENCE_S))[1] == other
        field.submit(pool, "b", "unharmed")
        await field.heard.until(lambda: bool(field.heard.outputs))

    async def test_a_stuck_call_is_ended_over_there(self, field: Field, machine: Machine) -> None:
        pool = await field.pool(machine.address, call_timeout_s=0.5)
        (stuck,) = await pool.call("pid", {}, timeout_s=PATIENCE_S)
        pool.open(StageSession("a"))
        field.submit(pool, "a", sleep_s=600)
        await field.heard.until(lambda: bool(field.heard.failed))
        assert "took longer than 0.5 s" in field.heard.failed[0][1].message
        await eventually(lambda: stuck not in machine.children())
        await eventually(lambda: (0, 1) in field.heard.ready)

    async def test_a_machine_that_goes_and_comes_back_is_found_again(
        self, field: Field, start_machine: Callable[..., Machine]
    ) -> None:
        machine = start_machine()
        pool = await field.pool(machine.address)
        pool.open(StageSession("a"))
        assert await asyncio.to_thread(machine.end) == 0
        await field.heard.until(lambda: bool(field.heard.failed))
        assert not pool.alive
        await asyncio.to_thread(start_machine, listen=machine.address)
        await eventually(lambda: (0, 1) in field.heard.ready)


class TestAdmission:
    async def test_another_secret_gets_no_worker(
        self, field: Field, start_machine: Callable[..., Machine]
    ) -> None:
        machine = start_machine()
        with pytest.raises(StageLoadError, match="another secret") as failure:
            await field.pool(machine.address, secret="one that nobody told us")
        assert SECRET_VARIABLE in (failure.value.hint or "")
        assert machine.children() == set()
        machine.end()
        assert "does not know the secret" in machine.said

    async def test_more_than_it_lends_are_told_so(
        self, field: Field, start_machine: Callable[..., Machine]
    ) -> None:
        machine = start_machine("--max-workers", "1")
        await field.pool(machine.address)
        with pytest.raises(StageLoadError, match="are taken") as failure:
            await field.pool(machine.address)
        assert "--max-workers" in (failure.value.hint or "")
        assert len(machine.children()) == 1

    async def test_what_is_no_worker_is_named(self, field: Field) -> None:
        def greet(reader: Any, writer: asyncio.StreamWriter) -> None:
            writer.write(b"SSH-2.0-OpenSSH_9.9\r\n" + bytes(200))

        async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(StageLoadError, match="no duplex worker"):
                await field.pool(f"127.0.0.1:{port}")

    async def test_an_impostor_learns_nothing_and_is_found_out(self, field: Field) -> None:
        """One that listens in the machine's place gets a proof that is of no use elsewhere."""
        heard = bytearray()

        async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(GREETING + bytes(NONCE_BYTES))
            heard.extend(await reader.readexactly(NONCE_BYTES + PROOF_BYTES))
            writer.write(b"=" + heard[NONCE_BYTES:])
            heard.extend(await reader.read())
            writer.close()

        async with await asyncio.start_server(pretend, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(StageLoadError, match="another secret"):
                await field.pool(f"127.0.0.1:{port}")
        assert len(heard) == NONCE_BYTES + PROOF_BYTES
        assert SECRET.encode() not in heard

    def test_a_proof_of_one_connection_opens_no_other(self, machine: Machine) -> None:
        with machine.connect() as first, machine.connect() as second:
            nonces = [stream.recv(1000)[len(GREETING) :] for stream in (first, second)]
            ours = bytes(NONCE_BYTES)
            overheard = proofs_of(SECRET, nonces[0], ours).engine
            second.sendall(ours + overheard)
            assert second.recv(1) == b""
            first.sendall(ours + overheard)
            assert first.recv(1) == b"="
        assert nonces[0] != nonces[1]

    def test_who_leaves_right_after_its_proof_leaves_no_process(self, machine: Machine) -> None:
        with machine.connect() as stream:
            nonce = stream.recv(1000)[len(GREETING) :]
            stream.sendall(bytes(NONCE_BYTES) + proofs_of(SECRET, nonce, bytes(NONCE_BYTES)).engine)
            assert stream.recv(1) == b"="
        wait_until(lambda: not machine.children())

    def test_strangers_that_say_nothing_keep_nobody_out(self, machine: Machine) -> None:
        strangers = [machine.connect() for _ in range(15)]
        try:
            assert all(stream.recv(1000) for stream in strangers)
            with machine.connect() as friend:
                nonce, ours = friend.recv(1000)[len(GREETING) :], bytes(NONCE_BYTES)
                friend.sendall(ours + proofs_of(SECRET, nonce, ours).engine)
                assert friend.recv(1) == b"="
        finally:
            for stream in strangers:
                stream.close()

    def test_a_short_secret_is_wrong_usage(self) -> None:
        machine = Machine(secret="guess me")
        assert "at least 16 characters" in machine.said
        assert machine.process.wait(PATIENCE_S) == 2
        assert machine.process.stdout is not None
        machine.process.stdout.close()


class TestDeployment:
    STAGES = (StageConfig("talker", model="a.b:C"),)

    def apply(self, talker: Any, **deployment: Any) -> StageConfig:
        from duplex_sdk.stage import PipelineConfig

        settings = Deployment({"talker": talker}, **deployment)
        return settings.apply(PipelineConfig(self.STAGES)).stages[0]

    def test_workers_make_it_a_process_for_each(self) -> None:
        stage = self.apply({"workers": ["a:1", "[::1]:2"]}, worker_secret=SECRET)
        assert (stage.backends, stage.replicas) == (("process",), 2)
        assert self.apply({"workers": ["a:1"], "replicas": 3}, worker_secret=SECRET).replicas == 3

    def test_places_keep_their_secret_to_themselves(self) -> None:
        deployment = Deployment({"talker": {"workers": ["a:1"]}}, worker_secret=SECRET)
        (place,) = deployment.places_of("talker")
        assert (place.address, place.secret) == ("a:1", SECRET)
        assert SECRET not in repr(place) + repr(deployment)

    @pytest.mark.parametrize(
        ("talker", "secret", "says"),
        [
            ({"workers": ["nowhere"]}, SECRET, "stages.talker.workers: this is written HOST:PORT"),
            ({"workers": ["a:99999"]}, SECRET, "HOST:PORT"),
            ({"workers": "a:1"}, SECRET, "list of HOST:PORT"),
            ({"workers": ["a:1"]}, None, "worker_secret: workers elsewhere need one"),
            ({"workers": ["a:1"]}, "short", "at least 16 characters"),
            ({"workers": ["a:1"], "backend": "inline"}, SECRET, "runs as 'inline' has no workers"),
        ],
    )
    def test_what_cannot_be_is_named(self, talker: Any, secret: str | None, says: str) -> None:
        with pytest.raises(StageSettingError, match=re.escape(says)):
            self.apply(talker, worker_secret=secret)
