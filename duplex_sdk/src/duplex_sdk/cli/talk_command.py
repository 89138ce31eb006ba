"""Runs a talk from its options to its summary."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from duplex_sdk.clients import ClientSessionClosedError, DuplexClient
from duplex_sdk.clients.socket import session_url
from duplex_sdk.errors import DuplexError

from .server_process import ServerProcess
from .talk_audio import Device, Microphone, RecordedSpeech, Recorder, load_pcm16
from .talk_screen import show_talk
from .talk_session import Loudspeaker, SpokenSource, TalkSession

__all__ = ["TalkOptions", "run_talk"]

DEFAULT_OUT = Path("out/answer.wav")
ANSWER_TIMEOUT_S = 15.0
AFTERWARDS_S = 0.8


@dataclass(frozen=True, slots=True)
class TalkOptions:
    """What `duplex talk` was told.

    Attributes:
        url: the server; None starts one.
        wav: recording to speak; None takes the microphone.
        out: where the answers go; with a recording ``out/answer.wav`` unless told.
        api_key: the server's key.
        plugin: of the server that is started; None takes its default.
    """

    url: str | None
    wav: Path | None
    out: Path | None
    api_key: str | None
    plugin: str | None


def run_talk(options: TalkOptions) -> bool:
    """Talk to the end of the recording, or until Ctrl-C; True when an answer was heard.

    Raises:
        DuplexError: there is no server, no recording, no microphone, or the session failed.
    """
    console = Console()
    try:
        return asyncio.run(_talk(options, console))
    except KeyboardInterrupt:
        console.print("[dim]good-bye[/dim]")
        return True
    except ExceptionGroup as group:
        raise _first_error(group) from group


async def _talk(options: TalkOptions, console: Console) -> bool:
    if options.url is not None:
        # Before a microphone is asked for: it is no fault of the machine.
        session_url(options.url, model=None, duplex=True)
    recorder = Recorder()
    source: SpokenSource
    loudspeaker: Loudspeaker = recorder
    speech = b""
    if options.wav is not None:
        speech, rate = load_pcm16(options.wav)
        source = RecordedSpeech(rate)
    else:
        source, loudspeaker = Microphone(), Device(recorder)
    async with AsyncExitStack() as stack:
        url = options.url or await _start_server(options, stack, console)
        client = await stack.enter_async_context(DuplexClient(url, api_key=options.api_key))
        session = TalkSession(client, source, loudspeaker)
        async with show_talk(session, console), asyncio.TaskGroup() as tasks:
            if isinstance(source, RecordedSpeech):
                tasks.create_task(_say_and_wait(session, source, speech))
            tasks.create_task(session.run())
    _summary(session, recorder, options, console)
    return session.played_ms > 0


async def _start_server(options: TalkOptions, stack: AsyncExitStack, console: Console) -> str:
    with console.status("starting a server ..."):
        plugin = ("--plugin", options.plugin) if options.plugin else ()
        server = await stack.enter_async_context(ServerProcess(*plugin))
    console.print(f"[dim]server at {server.url}[/dim]")
    return server.url


async def _say_and_wait(session: TalkSession, source: RecordedSpeech, speech: bytes) -> None:
    await source.say(speech)
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            await session.until(lambda: session.played_ms > 0)
        await session.quiet_for(AFTERWARDS_S)
    except TimeoutError:
        pass  # the summary says that nothing was answered
    source.close()


def _summary(
    session: TalkSession, recorder: Recorder, options: TalkOptions, console: Console
) -> None:
    latencies = session.dialogue.latencies_ms
    if latencies:
        shown = ", ".join(f"{ms:.0f}" for ms in latencies)
        console.print(f"end of speech to first audio: {shown} ms")
    if not session.played_ms:
        console.print("[yellow]nothing was answered[/yellow]")
        return
    out = options.out or (DEFAULT_OUT if options.wav else None)
    if out is not None:
        recorder.save(out)
        console.print(f"answer: {out} ({session.played_ms / 1000:.1f} s)")


def _first_error(group: BaseExceptionGroup[BaseException]) -> DuplexError:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            return _first_error(error)
        if isinstance(error, ClientSessionClosedError):
            return DuplexError(f"the server ended the session: {error.reason}")
        if isinstance(error, DuplexError):
            return error
    raise group
