"""``duplex doctor`` about machines that run stages for this one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from duplex_sdk.discovery import Check
from duplex_sdk.stage.worker.listener import WorkerListener
from duplex_server.cli.doctor import examine_server

SECRET = "a secret that both sides know"


@pytest.fixture
def machine() -> Iterator[str]:
    listening = socket.create_server(("127.0.0.1", 0))
    host, port = listening.getsockname()
    listener = WorkerListener(listening, SECRET, max_workers=1)
    serving = threading.Thread(target=listener.serve)
    serving.start()
    yield f"{host}:{port}"
    listener.close()
    serving.join()


@pytest.fixture
def stranger() -> Iterator[str]:
    """Something else that listens; what it says comes as soon as somebody calls."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def greet() -> None:
            stream, _ = listening.accept()
            with stream:
                stream.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=greet, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture(autouse=True)
def settings_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def checks(folder: Path, *addresses: str, secret: str = SECRET) -> list[Check]:
    workers = ", ".join(f'"{address}"' for address in addresses)
    (folder / "duplex.yaml").write_text(
        f"plugin: scripted\nstages:\n  scripted: {{workers: [{workers}]}}\n"
    )
    report = examine_server({"DUPLEX_WORKER_SECRET": secret, "DUPLEX_PORT": "0"})
    return [check for check in report.checks if check.name in ("stages", "workers")]


def test_a_machine_that_listens_is_sound(settings_folder: Path, machine: str) -> None:
    (check,) = checks(settings_folder, machine, machine)
    assert (check.ok, check.detail) == (True, f"{machine} takes engines")


def test_one_that_does_not_answer_is_told_how_to(settings_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    (check,) = checks(settings_folder, address)
    assert not check.ok
    assert f"duplex worker --listen {address}" in (check.hint or "")


def test_what_is_no_worker_is_named(settings_folder: Path, stranger: str) -> None:
    (check,) = checks(settings_folder, stranger)
    assert not check.ok
    assert "no duplex worker" in check.detail


def test_an_address_that_is_none_is_blamed_to_its_line(settings_folder: Path) -> None:
    (check,) = checks(settings_folder, "nowhere")
    assert not check.ok
    assert "duplex.yaml, line 3" in check.detail


def test_a_secret_that_is_missing_is_trouble(settings_folder: Path, machine: str) -> None:
    (check,) = checks(settings_folder, machine, secret="")
    assert not check.ok
    assert "worker_secret" in check.detail
