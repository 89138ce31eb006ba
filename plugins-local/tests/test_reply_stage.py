"""The thinking stage: rules, timers, and a chat endpoint that behaves in every way."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from duplex_plugin_local.chat_endpoint import ChatEndpoint, ChatStream
from duplex_plugin_local.reply_stage import APOLOGY, HOLD_S, ReplyStage
from duplex_sdk.stage import (
    LoadContext,
    StageOutput,
    StagePrompt,
    StageSession,
    StageUnit,
    TokenUsage,
    usage_of,
)
from patience import PATIENCE_S


class Brain(BaseHTTPRequestHandler):
    """A chat endpoint; the model's name says how it behaves."""

    requests: list[dict[str, Any]]
    gate: threading.Event
    hung_up: threading.Event

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append({"path": self.path, "headers": dict(self.headers), **body})
        behave = getattr(self, f"_{body['model']}")
        behave()

    def log_message(self, format: str, *args: object) -> None:
        return

    def _begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()

    def _send(self, text: str) -> None:
        chunk = {"choices": [{"delta": {"content": text}}]}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()

    def _talks(self) -> None:
        self._begin()
        self.wfile.write(b': comment\n\ndata: {"choices": [{"delta": {"role": "assistant"}}]}\n\n')
        for piece in ("Paris is", " the capital. It", " has a tower."):
            self._send(piece)
        self.wfile.write(b"data: [DONE]\n\n")

    def _counts(self) -> None:
        self._begin()
        self._send("Paris.")
        assert self.requests[-1]["stream_options"] == {"include_usage": True}
        usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
        self.wfile.write(f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def _stalls(self) -> None:
        self._begin()
        self._send("One moment.")
        self.gate.wait(PATIENCE_S)
        try:
            for _ in range(50):
                self._send("more")
                self.gate.wait(0.01)
        except OSError:
            self.hung_up.set()

    def _refuses(self) -> None:
        self.send_error(401, "Unauthorized")

    def _babbles(self) -> None:
        self._begin()
        self.wfile.write(b"data: {nonsense\n\n")

    def _fails(self) -> None:
        self._begin()
        self._send("Well")
        self.wfile.write(b'data: {"error": {"message": "out of memory"}}\n\n')


@pytest.fixture
def brain() -> Iterator[type[Brain]]:
    class Handler(Brain):
        requests: list[dict[str, Any]] = []  # noqa: RUF012
        gate = threading.Event()
        hung_up = threading.Event()
        url = ""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Handler.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield Handler
    Handler.gate.set()
    server.shutdown()
    thread.join()
    server.server_close()


def finished(stream: ChatStream) -> str:
    stream._thread.join(PATIENCE_S)
    assert stream.done
    return stream.take()


USER = {"role": "user", "content": "What is the capital of France?"}


def test_a_reply_says_what_it_cost_where_the_endpoint_does(brain: Any) -> None:
    models = ("talks", "counts")
    talking, counting = (ChatEndpoint(brain.url, model).ask([USER]) for model in models)
    assert finished(talking)
    assert talking.usage is None
    assert finished(counting) == "Paris."
    assert counting.usage == TokenUsage(7, 2)


def test_a_reply_is_read_as_it_comes(brain: Any) -> None:
    stream = ChatEndpoint(brain.url, "talks", key="secret").ask([USER])
    assert finished(stream) == "Paris is the capital. It has a tower."
    assert stream.error is None
    (request,) = brain.requests
    assert request["path"] == "/v1/chat/completions"
    assert request["stream"] is True
    assert request["headers"]["Authorization"] == "Bearer secret"


def test_the_whole_address_may_be_given(brain: Any) -> None:
    finished(ChatEndpoint(f"{brain.url}/chat/completions/", "talks").ask([USER]))
    assert brain.requests[0]["path"] == "/v1/chat/completions"
    assert "Authorization" not in brain.requests[0]["headers"]


@pytest.mark.parametrize(
    ("model", "error"),
    [
        ("refuses", "answered 401 Unauthorized"),
        ("babbles", "the chat endpoint failed"),
        ("fails", "out of memory"),
    ],
)
def test_failures_end_the_stream_with_a_reason(brain: Any, model: str, error: str) -> None:
    stream = ChatEndpoint(brain.url, model).ask([USER])
    finished(stream)
    assert stream.error is not None
    assert error in stream.error


def test_a_silent_endpoint_is_given_up(brain: Any) -> None:
    stream = ChatEndpoint(brain.url, "stalls", timeout_s=1.0).ask([USER])
    assert finished(stream) == "One moment."
    assert stream.error is not None
    assert "timed out" in stream.error


def test_nobody_at_the_address_is_an_error_not_an_exception() -> None:
    stream = ChatEndpoint("http://127.0.0.1:1/v1", "talks", timeout_s=1).ask([USER])
    finished(stream)
    assert stream.error is not None


def test_stopping_hangs_up_and_is_no_error(brain: Any) -> None:
    stream = ChatEndpoint(brain.url, "stalls").ask([USER])
    while "One moment." not in stream.take():
        assert not stream.done
    stream.stop(wait_s=PATIENCE_S)
    assert stream.done
    assert stream.error is None
    brain.gate.set()
    assert brain.hung_up.wait(PATIENCE_S)


class Thinking:
    """The stage with one session and a clock that stands still."""

    def __init__(self, **options: Any) -> None:
        self.stage = ReplyStage()
        self.stage.load(LoadContext(options=options))
        self.state = self.stage.open(StageSession("s", config={"instructions": "Be kind."}))
        self.now = 100.0

    def step(self, prompt: StagePrompt) -> list[StageOutput]:
        unit = StageUnit(self.state, "s", "r", 0, 1, 0, prompt)
        return list(self.stage.step_unit(unit, self.now))

    def ask(self, text: str | None, *earlier: dict[str, str]) -> list[StageOutput]:
        last = () if text is None else ({"role": "user", "content": text},)
        return self.step(StagePrompt(kind="stage", text=text, messages=(*earlier, *last)))

    def tick(self) -> list[StageOutput]:
        return self.step(StagePrompt(kind="tick"))

    def all(self, outputs: list[StageOutput]) -> list[StageOutput]:
        """Tick on until the turn ends."""
        while not outputs[-1].end_of_turn:
            outputs += self.tick()
        return outputs


def test_a_rule_answers_in_one_step() -> None:
    (output,) = Thinking().ask("What is two plus two?")
    assert (output.text, output.end_of_turn) == ("2 plus 2 is 4.", True)


def test_a_timer_keeps_the_turn_open_and_rings() -> None:
    thinking = Thinking()
    (set_it,) = thinking.ask("Set a timer for ten seconds.")
    assert (set_it.text, set_it.end_of_turn) == ("Timer set for 10 seconds. ", False)
    assert set_it.again_ms == pytest.approx(10_000)
    thinking.now += 10
    (ring,) = thinking.tick()
    assert (ring.text, ring.end_of_turn) == ("Your timer for 10 seconds is over.", True)


def test_a_timer_survives_an_interruption() -> None:
    thinking = Thinking()
    thinking.ask("Set a timer for ten seconds.")
    thinking.stage.cancel(thinking.state, 1, 0.0)
    thinking.now += 4
    (output,) = thinking.ask("What is two plus two?")
    assert output.again_ms == pytest.approx(6_000)
    thinking.now += 6
    assert thinking.tick()[0].text == "Your timer for 10 seconds is over."


def test_a_timer_that_ran_out_unheard_is_told_with_the_next_answer() -> None:
    thinking = Thinking()
    thinking.ask("Set a timer for ten seconds.")
    thinking.stage.cancel(thinking.state, 1, 0.0)
    thinking.now += 60
    (output,) = thinking.ask("What is two plus two?")
    assert output.text == "Your timer for 10 seconds is over. 2 plus 2 is 4."
    assert output.end_of_turn


def test_a_long_timer_holds_no_turn_and_says_so() -> None:
    thinking = Thinking()
    (output,) = thinking.ask("Set a timer for ten minutes.")
    assert HOLD_S < 600
    assert output.end_of_turn
    assert "the next time" in (output.text or "")


def test_the_endpoint_writes_the_reply_with_the_conversation(brain: Any) -> None:
    thinking = Thinking(llm_url=brain.url, llm_model="talks")
    said = {"role": "assistant", "content": "Hello."}
    outputs = thinking.all(thinking.ask("What is the capital of France?", said))
    assert "".join(o.text or "" for o in outputs) == "Paris is the capital. It has a tower."
    messages = brain.requests[0]["messages"]
    assert messages[0]["role"] == "system"
    assert messages[0]["content"].startswith("Be kind.")
    assert messages[1:] == [said, {"role": "user", "content": "What is the capital of France?"}]


def test_what_the_endpoint_counted_goes_with_the_answer(brain: Any) -> None:
    thinking = Thinking(llm_url=brain.url, llm_model="counts")
    outputs = thinking.all(thinking.ask("What is the capital of France?"))
    told = [usage_of(output) for output in outputs if output.data]
    assert told == [TokenUsage(7, 2)]
    assert "".join(o.text or "" for o in outputs) == "Paris."


def test_a_failing_endpoint_is_one_error_and_a_spoken_apology(brain: Any) -> None:
    outputs = Thinking(llm_url=brain.url, llm_model="fails")
    result = outputs.all(outputs.ask("Hello"))
    errors = [output.error for output in result if output.error]
    assert [(error.code, error.scope) for error in errors] == [
        ("runtime_data_plane_stream_failed", "event")
    ]
    assert "".join(o.text or "" for o in result) == f"Well {APOLOGY}"


def test_a_cancel_hangs_up_on_the_endpoint(brain: Any) -> None:
    thinking = Thinking(llm_url=brain.url, llm_model="stalls")
    thinking.ask("Hello")
    stream = thinking.state.stream
    assert stream is not None
    thinking.stage.cancel(thinking.state, 1, 0.0)
    stream._thread.join(PATIENCE_S)
    assert stream.done
    assert thinking.state.stream is None
