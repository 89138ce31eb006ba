"""A server without sessions, and chat completions that need none, on real servers."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import wave
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import numpy
import openai
import pytest
from duplex_sdk.audio import PcmChunk
from duplex_sdk.discovery import Figure, MetricsSink
from duplex_sdk.errors import DuplexError
from duplex_sdk.plugin import (
    DuplexCapabilities,
    DuplexModelPlugin,
    DuplexRuntimeConfigError,
    DuplexSessionRuntimeConfig,
    PluginSpec,
)
from duplex_sdk.stage import (
    LoadContext,
    PipelineConfig,
    StageConfig,
    StageInfo,
    StageModel,
    StageOutput,
    StageSession,
    StageUnit,
    ToolCall,
)
from duplex_server.entrypoints import Question, RequestFailedError, TurnModel, warm_up_turns
from duplex_server.serving import ServerExtensions, ServingOptions
from duplex_server.testing import Harness, RunningServer, RunningTurnServer
from patience import PATIENCE_S, eventually
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

ROUTE = "/v1/chat/completions"
RATE = 16_000
OPEN: set[str] = set()
TOLD: list[tuple[StageSession, Any]] = []


class Parrot(StageModel[StageSession]):
    """Says the last message again, 20 ms a word, one word per step; "forever" it never ends."""

    def load(self, context: LoadContext) -> StageInfo:
        self.left: dict[str, list[str]] = {}
        return StageInfo(max_sessions=2)

    def open(self, session: StageSession) -> StageSession:
        OPEN.add(session.session_id)
        return session

    def close(self, state: StageSession) -> None:
        OPEN.discard(state.session_id)

    def step_unit(self, unit: StageUnit[StageSession], now: float) -> Iterable[StageOutput]:
        if unit.prompt.kind != "tick":
            TOLD.append((unit.state, unit.prompt))
            self.left[unit.session_id] = unit.prompt.messages[-1]["content"][0]["text"].split()
        words = self.left[unit.session_id]
        if words[0] == "fail":
            return [unit.failed("runtime_failed", "it cannot be")]
        word = words[0] if words[0] == "forever" else words.pop(0)
        audio = PcmChunk.of(numpy.full(RATE // 50, 0.25, dtype=numpy.float32), RATE)
        again = 5.0 if words else None
        return [unit.output(text=f"{word} ", audio=audio, end_of_turn=not words, again_ms=again)]


class Parroting(DuplexModelPlugin):
    """The stage as a model."""

    requests = True

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return DuplexCapabilities.turn_based(
            supports_text_only_turn=True,
            supports_chat_completions=True,
            output_sample_rate_hz=RATE,
        )

    def pipeline(self) -> PipelineConfig:
        stage = StageConfig("parrot", f"{__name__}:Parrot", quick=True)
        return PipelineConfig((stage,), turn_requests=self.requests)


class SessionsOnly(Parroting):
    """The same, without requests."""

    requests = False


class Choosy(Parroting):
    """Sees pictures, takes no heat, and has a say in what its stage is told."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return replace(super().capabilities(max_sessions=max_sessions), supports_image_input=True)

    async def prepare_runtime_config(
        self, config: Mapping[str, Any], *, model_config: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        if config.get("temperature") == 2.0:
            raise DuplexRuntimeConfigError("invalid_argument", "too hot", param="temperature")
        return {"heat": config.get("temperature", 1.0)}

    def configure_sampling_params(
        self, *, runtime_config: Mapping[str, Any], defaults: tuple[Mapping[str, Any], ...]
    ) -> tuple[Mapping[str, Any], ...]:
        return tuple({**stage, "temperature": runtime_config["heat"]} for stage in defaults)


class Listener(StageModel[None]):
    """Says how it was asked: the length and rate of the sound, and what was said before."""

    def load(self, context: LoadContext) -> StageInfo:
        return StageInfo()

    def open(self, session: StageSession) -> None:
        return None

    def step_unit(self, unit: StageUnit[None], now: float) -> Iterable[StageOutput]:
        prompt = unit.prompt
        before = [message["content"][0]["text"] for message in prompt.messages]
        assert prompt.audio is not None
        ms, rate = round(prompt.audio.duration_ms), prompt.audio.rate
        text = f"{prompt.kind}, {ms} ms at {rate} Hz after {before}"
        return [unit.output(text=text, end_of_turn=prompt.final)]


class Caller(StageModel[StageSession]):
    """Asks for two functions, and says what they gave."""

    def load(self, context: LoadContext) -> StageInfo:
        return StageInfo()

    def open(self, session: StageSession) -> StageSession:
        return session

    def step_unit(self, unit: StageUnit[StageSession], now: float) -> Iterable[StageOutput]:
        TOLD.append((unit.state, unit.prompt))
        if unit.prompt.messages[-1]["role"] == "tool":
            results = [each["content"] for each in unit.prompt.messages if each["role"] == "tool"]
            return [unit.output(text=" and ".join(results), end_of_turn=True)]
        names = [tool["name"] for tool in unit.state.config["tools"]]
        calls = [
            ToolCall(name, '{"where": "here"}', "" if n else "mine") for n, name in enumerate(names)
        ]
        return [
            *(unit.output(tool_call=call) for call in calls),
            unit.output(end_of_turn=True),
        ]


class Calling(Parroting):
    """Calls functions, from the first of two stages."""

    def capabilities(self, *, max_sessions: int) -> DuplexCapabilities:
        return replace(super().capabilities(max_sessions=max_sessions), supports_tools=True)

    def pipeline(self) -> PipelineConfig:
        stages = [
            StageConfig(name, f"{__name__}:{name}", quick=True) for name in ("Caller", "Saying")
        ]
        return PipelineConfig(tuple(stages), turn_requests=True)


class Saying(StageModel[None]):
    """Says what the stage before it wrote."""

    def load(self, context: LoadContext) -> StageInfo:
        return StageInfo()

    def open(self, session: StageSession) -> None:
        return None

    def step_unit(self, unit: StageUnit[None], now: float) -> Iterable[StageOutput]:
        return [unit.output(text=unit.prompt.text, end_of_turn=unit.prompt.final)]


class Listening(Parroting):
    """Hears requests."""

    def pipeline(self) -> PipelineConfig:
        stage = StageConfig("listener", f"{__name__}:Listener", quick=True)
        return PipelineConfig((stage,), turn_requests=True, spoken_requests=True)


class LocalSpec(PluginSpec):
    """The descriptor of a class of this module."""

    def load(self) -> type[DuplexModelPlugin]:
        kind: type[DuplexModelPlugin] = globals()[self.factory.partition(":")[2]]
        return kind


def spec(kind: type[DuplexModelPlugin] = Parroting) -> LocalSpec:
    return LocalSpec(
        name="parrot",
        api="1.0",
        factory=f"{__name__}:{kind.__name__}",
        output_sample_rate=RATE,
        max_sessions=1,
    )


@pytest.fixture
async def server() -> AsyncIterator[RunningTurnServer]:
    OPEN.clear()
    TOLD.clear()
    async with Harness().turn_server(spec()) as running:
        yield running


def asking(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **fields}


async def post(url: str, body: dict[str, Any], **options: Any) -> httpx.Response:
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
        return await client.post(ROUTE, json=body, **options)


def http(server: RunningServer) -> str:
    return server.url.replace("ws", "http", 1)


async def nobody_is_left(server: RunningTurnServer) -> None:
    await eventually(lambda: not (server.omni.health().turn_requests or OPEN))


@asynccontextmanager
async def stream(url: str, text: str) -> AsyncIterator[AsyncIterator[str]]:
    async with (
        httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client,
        client.stream("POST", ROUTE, json=asking(text, stream=True)) as response,
    ):
        yield response.aiter_lines()


async def test_realtime_routes_say_which_mode_the_server_runs_in(server: RunningTurnServer) -> None:
    for path in ("/v1/realtime", "/v1/duplex", "/v1/realtime?duplex=1"):
        with pytest.raises(InvalidStatus) as refused:
            async with connect(server.url.replace("http", "ws", 1) + path):
                pass
        assert refused.value.response.status_code == 404
        error = json.loads(refused.value.response.body)["error"]
        assert error["code"] == "unsupported"
        assert "turn mode" in error["message"]


async def test_plain_routes_are_there(server: RunningTurnServer) -> None:
    async with httpx.AsyncClient(base_url=server.url) as client:
        health = (await client.get("/health")).json()
        assert (health["status"], health["session_mode"]) == ("ok", "turn")
        assert [stage["id"] for stage in health["stages"]] == ["parrot"]
        models = (await client.get("/v1/models")).json()
        assert [model["id"] for model in models["data"]] == ["parrot"]
        await client.post(ROUTE, json=asking("hi"))
        metrics = (await client.get("/metrics")).text
        assert "duplex_turn_requests 0.0" in metrics
        assert 'duplex_stage_step_seconds_count{stage="parrot"} 1.0' in metrics
        assert (await client.get("/")).status_code == 404


async def read_with_the_openai_client(url: str) -> None:
    messages: Any = asking("good morning")["messages"]
    async with openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0) as client:
        whole = await client.chat.completions.create(model="parrot", messages=messages)
        assert whole.choices[0].message.content == "good morning "
        assert whole.choices[0].finish_reason == "stop"
        pieces = await client.chat.completions.create(
            model="parrot", messages=messages, stream=True
        )
        text = [chunk.choices[0].delta.content or "" async for chunk in pieces]
        assert [piece for piece in text if piece] == ["good ", "morning "]
        with pytest.raises(openai.NotFoundError, match="no such model"):
            await client.chat.completions.create(model="gpt-4o", messages=messages)


async def test_the_openai_client_reads_both_kinds_of_answer(server: RunningTurnServer) -> None:
    await read_with_the_openai_client(server.url)


async def test_the_openai_client_is_answered_by_the_engine_of_sessions_too() -> None:
    async with Harness().server(spec()) as server:
        TOLD.clear()
        await read_with_the_openai_client(http(server))
        assert [prompt.kind for _, prompt in TOLD] == ["conversation"] * 2
        assert all(session.session_id.startswith("turn-") for session, _ in TOLD)


async def test_stages_are_told_what_a_session_would_tell_them(server: RunningTurnServer) -> None:
    body = {
        "messages": [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "hello"},
            {"role": "user", "content": "again"},
        ],
        "temperature": 0.5,
    }
    assert (await post(server.url, body)).status_code == 200
    ((session, prompt),) = TOLD
    assert (session.config["instructions"], session.config["temperature"]) == ("be kind", 0.5)
    assert list(session.config["output_modalities"]) == ["text"]
    said = [(each["role"], each["content"][0]["text"]) for each in prompt.messages]
    assert said == [("user", "hi"), ("assistant", "hello"), ("user", "again")]


async def test_spoken_answer_comes_at_the_rate_of_the_route(server: RunningTurnServer) -> None:
    modes = {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}
    answer = (await post(server.url, asking("good morning", **modes))).json()
    message = answer["choices"][0]["message"]
    assert message["audio"]["transcript"] == "good morning "
    with wave.open(io.BytesIO(base64.b64decode(message["audio"]["data"]))) as file:
        assert (file.getframerate(), file.getnframes()) == (24_000, 960)


@pytest.mark.parametrize("streamed", [False, True])
async def test_failed_answer_is_an_error(server: RunningTurnServer, streamed: bool) -> None:
    response = await post(server.url, asking("fail", stream=streamed))
    assert response.status_code == 500
    assert response.json()["error"]["message"] == "it cannot be"
    await nobody_is_left(server)


async def test_answer_that_fails_late_ends_its_stream_with_the_error(
    server: RunningTurnServer,
) -> None:
    response = await post(server.url, asking("well fail", stream=True))
    assert response.status_code == 200
    *_, error, done = [line for line in response.text.split("\n\n") if line]
    assert (json.loads(error[6:])["error"]["code"], done) == ("engine_error", "data: [DONE]")


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ([{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "pcm16"}}], 400),
        ([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}], 400),
    ],
)
async def test_what_the_model_cannot_read_is_refused(
    server: RunningTurnServer, content: Any, status: int
) -> None:
    response = await post(server.url, {"messages": [{"role": "user", "content": content}]})
    assert (response.status_code, response.json()["error"]["code"]) == (status, "unsupported")
    assert TOLD == []


def spoken(seconds: float, rate: int = 24_000) -> dict[str, Any]:
    data = base64.b64encode(bytes(int(2 * rate * seconds))).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": "pcm16"}}


async def test_model_that_hears_gets_the_spoken_turn_with_what_was_said_before() -> None:
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": [{"type": "text", "text": "listen"}, spoken(2.5)]},
    ]
    async with Harness().turn_server(spec(Listening)) as server:
        answer = (await post(server.url, {"messages": messages})).json()
    content = answer["choices"][0]["message"]["content"]
    assert content == "audio, 2500 ms at 16000 Hz after ['hi', 'hello', 'listen']"


@pytest.mark.parametrize(
    ("parts", "code", "says"),
    [
        ([[spoken(0.1)], [{"type": "text", "text": "well?"}]], "unsupported", "the last message"),
        ([[spoken(0.1)], [spoken(0.1)]], "unsupported", "only the last message"),
        ([[spoken(0.0)]], "bad_audio", "no sound"),
    ],
)
async def test_sound_elsewhere_is_refused(parts: list[Any], code: str, says: str) -> None:
    async with Harness().turn_server(spec(Listening)) as server:
        messages = [{"role": "user", "content": content} for content in parts]
        refused = await post(server.url, {"messages": messages})
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (400, code)
    assert says in error["message"]


async def test_engine_refuses_sound_that_its_model_does_not_take() -> None:
    async with TurnModel.load(spec()).async_omni() as omni:
        with pytest.raises(RequestFailedError, match="written requests only"):
            await anext(omni.generate(Question(audio=PcmChunk.silence(1600, RATE))))


def tool(name: str) -> Any:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


async def test_the_openai_client_calls_the_functions_and_tells_what_they_gave() -> None:
    TOLD.clear()
    messages: list[Any] = [{"role": "user", "content": "weather?"}]
    tools = [tool("look"), tool("listen")]
    async with (
        Harness().turn_server(spec(Calling)) as server,
        openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0) as client,
    ):
        create = client.chat.completions.create
        whole = await create(model="parrot", messages=messages, tools=tools)
        choice = whole.choices[0]
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
        calls: Any = choice.message.tool_calls
        assert [call.function.name for call in calls] == ["look", "listen"]
        assert calls[0].id == "mine"
        assert calls[1].id.startswith("call_")

        chunks = [
            chunk.choices[0]
            async for chunk in await create(
                model="parrot", messages=messages, tools=tools, stream=True
            )
        ]
        streamed = [call for chunk in chunks for call in chunk.delta.tool_calls or ()]
        assert [(call.index, call.function.name) for call in streamed] == [
            (0, "look"),
            (1, "listen"),
        ]
        assert chunks[-1].finish_reason == "tool_calls"

        messages.append(choice.message.model_dump(exclude_none=True))
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": f"{call.function.name}ed"}
            for call in calls
        ]
        last = await create(model="parrot", messages=messages, tools=tools)
        assert last.choices[0].message.content == "looked and listened"
        assert last.choices[0].finish_reason == "stop"
    told = TOLD[-1][1].messages
    assert [message["role"] for message in told] == ["user", "assistant", "tool", "tool"]
    assert [call["function"]["name"] for call in told[1]["tool_calls"]] == ["look", "listen"]


async def test_model_that_calls_no_functions_refuses_them(server: RunningTurnServer) -> None:
    refused = await post(server.url, asking("hi", tools=[tool("look")]))
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "tools")
    assert TOLD == []


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": "all"},
        {"tools": [{"type": "retrieval"}]},
        {"tools": [tool("")]},
        {"tools": [tool("look")], "tool_choice": {"type": "function"}},
    ],
)
async def test_what_is_no_function_is_refused(fields: Any) -> None:
    async with Harness().turn_server(spec(Calling)) as server:
        refused = await post(server.url, asking("hi", **fields))
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_tools")


async def test_the_plugin_has_its_say_as_in_a_session() -> None:
    async with Harness().turn_server(spec(Choosy)) as server:
        TOLD.clear()
        assert (await post(server.url, asking("hi", temperature=0.5))).status_code == 200
        ((session, _),) = TOLD
        assert dict(session.runtime) == {"heat": 0.5}
        assert dict(session.sampling) == {"temperature": 0.5}
        refused = await post(server.url, asking("hi", temperature=2.0))
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "temperature")


async def test_model_that_sees_gets_the_picture() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    content = [{"type": "text", "text": "look"}, picture]
    async with Harness().turn_server(spec(Choosy)) as server:
        TOLD.clear()
        body = {"messages": [{"role": "user", "content": content}]}
        assert (await post(server.url, body)).status_code == 200
        ((_, prompt),) = TOLD
        assert prompt.messages[0]["content"][1] == picture


async def test_client_that_leaves_stops_the_model(server: RunningTurnServer) -> None:
    async with stream(server.url, "forever") as lines:
        async for line in lines:
            if "forever" in line:
                break
        assert OPEN
    await nobody_is_left(server)


async def test_client_that_leaves_a_whole_answer_stops_the_model(
    server: RunningTurnServer,
) -> None:
    waiting = asyncio.create_task(post(server.url, asking("forever")))
    await eventually(lambda: bool(OPEN))
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await nobody_is_left(server)


async def test_full_server_says_when_to_come_back(server: RunningTurnServer) -> None:
    async with stream(server.url, "forever") as one, stream(server.url, "forever") as other:
        for lines in (one, other):
            await anext(lines)
        refused = await post(server.url, asking("me too"))
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.json()["error"]["code"] == "resource_exhausted"
        async with httpx.AsyncClient(base_url=server.url) as client:
            metrics = (await client.get("/metrics")).text
        assert 'duplex_admission_rejections_total{code="resource_exhausted"} 1.0' in metrics
    await nobody_is_left(server)
    assert (await post(server.url, asking("me too"))).status_code == 200


async def test_key_is_needed_for_all_but_health() -> None:
    options = ServingOptions(api_keys=("sk-1",))
    async with Harness().turn_server(spec(), serving=options) as server:
        assert (await post(server.url, asking("hi"))).status_code == 401
        bearer = {"Authorization": "Bearer sk-1"}
        assert (await post(server.url, asking("hi"), headers=bearer)).status_code == 200
        async with httpx.AsyncClient(base_url=server.url) as client:
            assert (await client.get("/health")).status_code == 200
            assert (await client.get("/v1/models")).status_code == 401


async def test_answer_under_way_ends_with_its_server() -> None:
    async with Harness().turn_server(spec()) as server, stream(server.url, "forever") as lines:
        await anext(lines)
        await server.omni.stop()
        rest = [line async for line in lines if line]
    assert json.loads(rest[-2][6:])["error"]["code"] == "engine_dead"
    assert rest[-1] == "data: [DONE]"


async def test_duplex_server_answers_chat_without_a_session_beside_sessions() -> None:
    OPEN.clear()
    async with Harness().server(spec()) as server, await server.omni.open_session():
        answer = (await post(http(server), asking("good morning"))).json()
        assert answer["choices"][0]["message"]["content"] == "good morning "
        assert server.omni.health().slots_used == 1
        whole = await post(http(server), asking("me too", stream=True))
        assert whole.status_code == 200


async def test_deployment_may_ask_for_sessions_all_the_same() -> None:
    options = ServingOptions(chat_backend="session")
    async with Harness().server(spec(), serving=options) as server:
        async with await server.omni.open_session():
            assert (await post(http(server), asking("hi"))).status_code == 503
        assert (await post(http(server), asking("hi"))).status_code == 200


async def test_model_without_a_place_to_spare_answers_in_sessions() -> None:
    # Both places of the stage belong to the two sessions of this deployment.
    limits = DuplexSessionRuntimeConfig(max_sessions=2)
    async with Harness().server(spec(), limits=limits) as server:
        assert server.omni.turn_request_places == 0
        async with await server.omni.open_session(), await server.omni.open_session():
            assert (await post(http(server), asking("hi"))).status_code == 503
        assert (await post(http(server), asking("hi"))).status_code == 200


async def test_model_of_sessions_alone_answers_in_them() -> None:
    async with Harness().server(spec(SessionsOnly)) as server:
        async with await server.omni.open_session():
            assert (await post(http(server), asking("hi"))).status_code == 503
        assert (await post(http(server), asking("hi"))).status_code == 200


async def test_model_of_sessions_alone_has_no_turn_server() -> None:
    with pytest.raises(DuplexError, match="no requests without a session"):
        async with Harness().turn_server(spec(SessionsOnly)):
            pytest.fail("it started")


async def test_warm_up_asks_once_and_survives_a_failure() -> None:
    async with TurnModel.load(spec()).async_omni() as omni:
        TOLD.clear()
        # The parrot reads parts, and a plain text has none: the model fails at it.
        assert await warm_up_turns(omni) is False
        assert len(TOLD) == 1


def test_sync_engine_of_a_plugin_answers() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "good morning"}]}
    with TurnModel.load(spec()).omni() as omni:
        assert "".join(piece.text for piece in omni.generate([message])) == "good morning "


class Ledger(MetricsSink):
    """Keeps what it is handed."""

    def __init__(self) -> None:
        self.taken: list[Sequence[Figure]] = []

    def take(self, figures: Sequence[Figure]) -> None:
        self.taken.append(figures)


async def test_metrics_sinks_are_handed_the_figures_of_this_mode_too():
    ledger = Ledger()
    options = ServingOptions(extensions=ServerExtensions(metrics_sinks=(ledger,)))
    async with Harness().turn_server(spec(), serving=options):
        pass
    assert "duplex_turn_requests" in {figure.name for figure in ledger.taken[-1]}
