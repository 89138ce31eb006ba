"""What installed packages add to a server: who comes in, who watches, which routes there are."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import httpx
import pluggy
import pytest
from duplex_sdk.discovery import (
    Authenticator,
    Figure,
    HookFailure,
    LoadedHooks,
    MetricsSink,
    Observer,
    hookimpl,
)
from duplex_sdk.discovery.hookspecs import Hookspecs
from duplex_sdk.protocol.duplex import SpeechStarted
from duplex_server.serving import ServerExtensions, find_extensions
from duplex_server.serving.admission import Admission, AdmitsNobody
from duplex_server.serving.auth import ApiKeys
from duplex_server.serving.extensions import AuthenticatorMissingError
from duplex_server.serving.metrics_sinks import MetricsSinkThreads
from duplex_server.serving.observers import ObserverThreads
from duplex_server.serving.traces import session_trace
from starlette.responses import PlainTextResponse
from starlette.routing import Host, Mount, Route, WebSocketRoute
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

HEARD = SpeechStarted(audio_start_ms=0, item_id="item_1")
WAIT_S = 5.0


class Door(Authenticator):
    """Admits one key, on the loop."""

    async def admit(self, key: str | None, headers: Mapping[str, str]) -> bool:
        return key == "friend"


class PlainDoor(Authenticator):
    """Admits by a header, and remembers the thread it was asked on."""

    def __init__(self) -> None:
        self.asked_on: threading.Thread | None = None

    def admit(self, key: str | None, headers: Mapping[str, str]) -> bool:
        self.asked_on = threading.current_thread()
        return headers.get("x-team") == "ours"


class OddDoor(Authenticator):
    """Answers, raises or waits as it is told."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def admit(self, key: str | None, headers: Mapping[str, str]) -> bool | Awaitable[bool]:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class SlowDoor(Authenticator):
    async def admit(self, key: str | None, headers: Mapping[str, str]) -> bool:
        await asyncio.Event().wait()
        return True


class Notes(Observer):
    """Keeps what it sees."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.came = threading.Semaphore(0)
        self.closed = False

    def session_event(self, session_id: str, event: Mapping[str, Any]) -> None:
        self.seen.append((session_id, event["type"]))
        self.came.release()

    def close(self) -> None:
        self.closed = True


class Stuck(Notes):
    """Sees one event and stays with it."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def session_event(self, session_id: str, event: Mapping[str, Any]) -> None:
        super().session_event(session_id, event)
        assert self.go_on.wait(WAIT_S)


class Breaks(Notes):
    def session_event(self, session_id: str, event: Mapping[str, Any]) -> None:
        super().session_event(session_id, event)
        raise SystemExit("no more")


class Ledger(MetricsSink):
    """Keeps what it is handed; fails as often as it is told."""

    interval_s = 3600.0

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.taken: list[Sequence[Figure]] = []
        self.called = threading.Semaphore(0)
        self.closed = False

    def take(self, figures: Sequence[Figure]) -> None:
        self.called.release()
        if self.failures:
            self.failures -= 1
            raise SystemExit("nobody is at home")
        self.taken.append(figures)

    def close(self) -> None:
        self.closed = True


class Package:
    """A hook package that offers what it was made with."""

    def __init__(self, **offers: Any) -> None:
        self.offers = offers
        self.settings: Mapping[str, Any] | None = None

    def answer(self, name: str) -> Any:
        offer = self.offers.get(name)
        if isinstance(offer, BaseException):
            raise offer
        return offer

    @hookimpl
    def duplex_observers(self, settings: Mapping[str, Any]) -> Any:
        self.settings = settings
        return self.answer("observers")

    @hookimpl
    def duplex_authenticator(self) -> Any:
        return self.answer("authenticator")

    @hookimpl
    def duplex_metrics_sinks(self) -> Any:
        return self.answer("sinks")

    @hookimpl
    def duplex_register_routes(self) -> Any:
        return self.answer("routes")


def installed(*packages: Package) -> LoadedHooks:
    """These packages, asked in this order."""
    manager = pluggy.PluginManager("duplex")
    manager.add_hookspecs(Hookspecs)
    for number, package in reversed([*enumerate(packages)]):
        manager.register(package, name=f"package-{number}")
    return LoadedHooks(manager, (), ())


def extended(*packages: Package) -> ServerExtensions:
    return find_extensions(installed(*packages), {})


async def answer(request: Any) -> PlainTextResponse:
    return PlainTextResponse("acme")


async def call(server: Any, path: str, **options: Any) -> httpx.Response:
    async with httpx.AsyncClient() as client:
        return await client.get(server.url(path, "http"), **options)


async def upgrade_status(url: str, **options: Any) -> int:
    try:
        async with connect(url, **options):
            return 101
    except InvalidStatus as refused:
        return int(refused.response.status_code)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


# Who comes in


async def test_an_authenticator_decides_on_http_and_sockets_alike(start_server, engine):
    async with start_server(engine, extensions=ServerExtensions(Door())) as server:
        assert (await call(server, "/v1/models")).status_code == 401
        assert (await call(server, "/v1/models", headers=bearer("friend"))).status_code == 200
        url = server.url("/v1/realtime")
        assert await upgrade_status(url, additional_headers=bearer("foe")) == 401
        assert await upgrade_status(url, additional_headers=bearer("friend")) == 101
        assert (await call(server, "/health")).status_code == 200


async def test_a_key_of_the_settings_opens_beside_an_authenticator(start_server, engine):
    options = {"api_keys": ["master"], "extensions": ServerExtensions(Door())}
    async with start_server(engine, **options) as server:
        for key, status in (("master", 200), ("friend", 200), ("foe", 401)):
            found = await call(server, "/v1/models", headers=bearer(key))
            assert (key, found.status_code) == (key, status)


async def test_an_authenticator_that_is_no_coroutine_is_asked_beside_the_loop():
    door = PlainDoor()
    admission = Admission(ApiKeys(()), door)
    assert await admission.admits(None, {"x-team": "ours"})
    assert door.asked_on is not threading.current_thread()
    assert not await admission.admits(None, {})


@pytest.mark.parametrize("failure", [RuntimeError("the directory is down"), SystemExit(3)])
async def test_an_authenticator_that_fails_refuses_and_is_logged(failure, start_server, caplog):
    async with start_server(extensions=ServerExtensions(OddDoor(failure))) as server:
        refused = await call(server, "/v1/models", headers=bearer("friend"))
        assert refused.status_code == 401
        assert (await call(server, "/health")).status_code == 200
    assert "the authenticator failed" in caplog.text


async def test_an_authenticator_that_never_answers_refuses(caplog):
    admission = Admission(ApiKeys(()), SlowDoor(), patience_s=0.01)
    assert not await admission.admits("friend", {})
    assert "no answer" in caplog.text


@pytest.mark.parametrize("answer", [None, 1, "yes", object()])
async def test_only_a_plain_yes_admits(answer):
    assert not await Admission(ApiKeys(()), OddDoor(answer)).admits("friend", {})


def test_the_first_package_with_an_authenticator_wins():
    second, third = Door(), Door()
    found = extended(Package(), Package(authenticator=second), Package(authenticator=third))
    assert found.authenticator is second


@pytest.mark.parametrize("offer", [RuntimeError("no users file"), SystemExit(1), object()])
def test_a_package_without_its_authenticator_leaves_the_door_shut(offer, caplog):
    found = extended(Package(authenticator=offer), Package(authenticator=Door()))
    assert isinstance(found.authenticator, AdmitsNobody)
    assert "package-0 has no authenticator" in caplog.text


def named(name: str, *packages: Package, failures: tuple[HookFailure, ...] = ()) -> Any:
    hooks = LoadedHooks(installed(*packages).manager, failures, ())
    return find_extensions(hooks, {}, authenticator=name).authenticator


def test_the_package_that_the_settings_name_admits_and_no_other():
    second = Door()
    found = named("package-1", Package(authenticator=Door()), Package(authenticator=second))
    assert found is second


@pytest.mark.parametrize(
    ("packages", "reason"),
    [
        ([Package()], "it offers none"),
        ([Package(authenticator=RuntimeError("no users file"))], "no users file"),
        ([Package(authenticator=object())], "object is no Authenticator"),
        ([], "no installed package of this name"),
    ],
    ids=["none", "raises", "wrong", "absent"],
)
def test_where_the_named_one_has_no_authenticator_there_is_no_server(packages, reason):
    with pytest.raises(AuthenticatorMissingError, match=reason):
        named("package-0", *packages)


@pytest.mark.parametrize("name", ["acme-doors", "doors"])
def test_where_the_named_one_does_not_load_there_is_no_server(name):
    broken = HookFailure("doors", "acme-doors", "No module named 'ldap'")
    with pytest.raises(AuthenticatorMissingError, match="No module named 'ldap'"):
        named(name, Package(authenticator=Door()), failures=(broken,))


# Who watches


async def test_an_observer_sees_the_events_of_every_session_in_order(start_server, engine):
    notes = Notes()
    async with start_server(engine, extensions=ServerExtensions(observers=(notes,))) as server:
        async with connect(server.url("/v1/realtime")), connect(server.url("/v1/realtime")):
            for session in engine.opened:
                session.say(HEARD)
            for _ in range(4):
                assert await asyncio.to_thread(notes.came.acquire, timeout=WAIT_S)
        await server.app.close_sessions(1.0)
    assert notes.closed
    for session in engine.opened:
        told = [kind for session_id, kind in notes.seen if session_id == session.session_id]
        assert told[:2] == ["session.created", "input_audio_buffer.speech_started"]


async def test_a_stuck_observer_misses_events_and_holds_nobody_up(caplog):
    stuck, notes = Stuck(), Notes()
    threads = ObserverThreads((stuck, notes), longest_queue=4)
    trace = threads.traced("duplex-1", session_trace("duplex-1", "duplex"))
    trace.event(HEARD)
    assert await asyncio.to_thread(stuck.came.acquire, timeout=WAIT_S)
    for _ in range(20):
        trace.event(HEARD)
        assert await asyncio.to_thread(notes.came.acquire, timeout=WAIT_S)
    assert caplog.text.count("observer Stuck is behind and misses events") == 1
    stuck.go_on.set()
    for _ in range(4):
        assert await asyncio.to_thread(stuck.came.acquire, timeout=WAIT_S)
    trace.event(HEARD)
    assert "observer Stuck missed 16 events" in caplog.text
    await asyncio.to_thread(threads.close, WAIT_S)
    assert (len(stuck.seen), len(notes.seen)) == (6, 22)


async def test_an_observer_that_raises_is_switched_off_alone(caplog):
    breaks, notes = Breaks(), Notes()
    threads = ObserverThreads((breaks, notes))
    trace = threads.traced("duplex-1", session_trace("duplex-1", "duplex"))
    for _ in range(3):
        trace.event(HEARD)
        assert await asyncio.to_thread(notes.came.acquire, timeout=WAIT_S)
    await asyncio.to_thread(threads.close, WAIT_S)
    assert (len(breaks.seen), len(notes.seen)) == (1, 3)
    assert "observer Breaks failed and is switched off" in caplog.text


async def test_an_observer_that_does_not_end_is_left_behind(caplog):
    stuck = Stuck()
    threads = ObserverThreads((stuck,))
    threads.traced("duplex-1", session_trace("duplex-1", "duplex")).event(HEARD)
    assert await asyncio.to_thread(stuck.came.acquire, timeout=WAIT_S)
    await asyncio.to_thread(threads.close, 0.01)
    assert "observer Stuck did not end in time" in caplog.text
    stuck.go_on.set()


def test_a_package_that_offers_a_wrong_observer_is_left_out_alone(caplog):
    notes = Notes()
    found = extended(
        Package(observers=[object()]),
        Package(observers=ImportError("no recorder")),
        Package(observers=[notes]),
    )
    assert found.observers == (notes,)
    assert "package-0: duplex_observers is left out: TypeError" in caplog.text
    assert "package-1: duplex_observers is left out: ImportError: no recorder" in caplog.text


# Which routes there are


async def test_added_routes_are_served_behind_the_same_gate(start_server):
    found = extended(Package(routes=[Mount("/acme", routes=[Route("/hello", answer)])]))
    async with start_server(api_keys=["master"], extensions=found) as server:
        assert (await call(server, "/acme/hello")).status_code == 401
        assert (await call(server, "/acme/hello", headers=bearer("master"))).text == "acme"
        assert (await call(server, "/acme/other", headers=bearer("master"))).status_code == 404
        assert (await call(server, "/elsewhere", headers=bearer("master"))).status_code == 404


@pytest.mark.parametrize(
    "path", ["/", "/health", "/metrics/mine", "/v1/models", "/v1/mine", "/static/x", "/{any:path}"]
)
def test_a_route_where_the_server_has_its_own_is_left_out(path, caplog):
    found = extended(Package(routes=[Route("/acme", answer), Route(path, answer)]))
    assert found.routes == ()
    assert "duplex_register_routes is left out: ValueError" in caplog.text


def test_of_two_packages_that_want_one_folder_the_first_has_it(caplog):
    ours = WebSocketRoute("/acme/feed", answer)
    found = extended(Package(routes=[ours]), Package(routes=[Mount("/acme", routes=[])]))
    assert found.routes == (ours,)
    assert "lies where package-0 has its own" in caplog.text


def test_what_is_no_route_with_a_path_is_left_out(caplog):
    assert extended(Package(routes=[Host("acme.example", answer)])).routes == ()
    assert "Host is no route with a path" in caplog.text


# All of them


def test_packages_are_told_the_settings():
    package = Package()
    find_extensions(installed(package), {"plugin": "local"})
    assert package.settings == {"plugin": "local"}


def test_a_package_that_did_not_load_is_named_in_the_log(caplog):
    caplog.set_level(logging.ERROR)
    loaded = LoadedHooks(installed().manager, (HookFailure("x", "acme-x", "ImportError: y"),), ())
    assert find_extensions(loaded, {}) == ServerExtensions()
    assert "acme-x adds nothing to this server: ImportError: y" in caplog.text


# Where the figures go


async def test_a_sink_is_handed_the_figures_of_the_server(start_server, engine):
    ledger = Ledger()
    extensions = ServerExtensions(metrics_sinks=(ledger,))
    async with start_server(engine, extensions=extensions) as server:
        assert await upgrade_status(server.url("/v1/realtime")) == 101
        page = (await call(server, "/metrics")).text
        await server.app.close_sessions(1.0)
    assert ledger.closed
    (figures,) = ledger.taken
    series = {line.partition(" ")[0].partition("{")[0] for line in page.splitlines()}
    assert {figure.name for figure in figures} == {
        name for name in series if name != "#" and not name.endswith("_created")
    }
    assert {figure.kind for figure in figures} == {"counter", "gauge", "histogram"}


def test_a_sink_is_called_again_and_again():
    ledger = Ledger()
    ledger.interval_s = 0.001
    threads = MetricsSinkThreads((ledger,), lambda: ())
    for _ in range(3):
        assert ledger.called.acquire(timeout=WAIT_S)
    threads.close(WAIT_S)
    assert ledger.closed


def test_a_sink_that_fails_is_named_once_and_called_again(caplog):
    caplog.set_level(logging.INFO)
    ledger = Ledger(failures=3)
    ledger.interval_s = 0.001
    threads = MetricsSinkThreads((ledger,), lambda: ())
    for _ in range(5):
        assert ledger.called.acquire(timeout=WAIT_S)
    threads.close(WAIT_S)
    assert caplog.text.count("metrics sink Ledger failed; it is called again") == 1
    assert caplog.text.count("metrics sink Ledger works again") == 1
    assert ledger.taken


def test_what_is_no_sink_is_left_out_alone(caplog):
    hasty, good = Ledger(), Ledger()
    hasty.interval_s = 0.1
    found = extended(Package(sinks=[object()]), Package(sinks=[hasty]), Package(sinks=[good]))
    assert found.metrics_sinks == (good,)
    assert "package-0: duplex_metrics_sinks is left out" in caplog.text
    assert "package-1: duplex_metrics_sinks is left out" in caplog.text
