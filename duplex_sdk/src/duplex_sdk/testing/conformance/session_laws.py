"""Laws of whole sessions in virtual time: the real session core around the author's model."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from duplex_sdk.protocol.duplex import (
    AppendAudio,
    AudioDelta,
    BargeIn,
    CancelResponse,
    ClearOutputAudio,
    CloseSession,
    CreateItem,
    CreateResponse,
    FunctionCallArgumentsDone,
    RealtimeCommand,
    ResponseCreated,
    SessionClosed,
    TextDelta,
    TranscriptDelta,
    encode_base64,
)
from duplex_sdk.testing.session_lab import tone

from .bench import StageBench
from .breach import breach, does_not_apply, require
from .conversation import take_turn
from .lab import ModelLab, completed, no_errors, says_something
from .pictures import PICTURE, takes_pictures
from .subject import Subject

__all__ = ["SessionLaws"]

POINTS = (0, 1, 3, 7, 15, 31, 63)
"""After so many pieces of audio an answer is interrupted."""

QUESTION: dict[str, Any] = {
    "type": "message",
    "role": "user",
    "content": [{"type": "input_text", "text": "What is seven plus five?"}],
}
BESIDE = {"conversation": "none", "input": [QUESTION], "output_modalities": ["text"]}

SPEECH_MS = 900
PAUSE_MS = 1500


class SessionLaws:
    """A client that speaks, interrupts and leaves sees what the protocol promises."""

    def test_a_conversation_keeps_the_session_sound(self, conformance: Subject) -> None:
        """Two turns, each ledger of the session watched at every step."""
        with ModelLab(conformance) as lab:
            for number in range(2):
                lab.take_turn(number)
            no_errors(lab)
            if conformance.native:
                begun = sum(isinstance(event, ResponseCreated) for event in lab.events)
                silent_s = lab.now - lab.said_at
                require(
                    # One that is still talking need not have ended.
                    len(lab.statuses) == begun
                    or silent_s < conformance.settings.answers_within_s / 2,
                    f"of {begun} answers {len(lab.statuses)} had ended after {silent_s:.1f} s"
                    " in which the model said nothing",
                    "say end_of_turn in the last output of an utterance, and `listen` outside of"
                    " one: until then the answer is open, and nothing of it is history",
                )
                return
            require(
                completed(lab.statuses, 2),
                f"two turns ended {lab.statuses}",
                "let each answer come to rest; failures are told in the log of the run",
            )
            lab.watched.at_rest()

    def test_what_the_model_says_reaches_the_client(self, conformance: Subject) -> None:
        """Sound that leaves the last stage is heard, words are read."""
        with ModelLab(conformance) as lab:
            lab.take_turn(0)
        text = "".join(output.text or "" for output in lab.outputs)
        loud = any(output.audio and np.any(output.audio.numpy()) for output in lab.outputs)
        heard = any(isinstance(event, AudioDelta) for event in lab.events)
        read = any(isinstance(event, TextDelta | TranscriptDelta) for event in lab.events)
        told = heard or read
        # A native model's sound may be silence; its words never are.
        lost = bool(text.strip()) and not (told if conformance.native else read)
        if not conformance.native:
            lost = lost or (loud and not heard)
        require(
            not lost,
            f"the stages said {text!r}, {'with' if loud else 'without'} sound; of the words the"
            f" client was told {'some' if read else 'none'}, of the sound"
            f" {'some' if heard else 'none'}",
            "the data plane's project() yields a ModelResult for all that is said",
        )

    def test_a_cancel_ends_the_response(self, conformance: Subject) -> None:
        """``response.cancel`` ends the answer, and the next turn has one of its own."""
        self._interrupted_by(conformance, CancelResponse())

    def test_a_barge_in_ends_the_response(self, conformance: Subject) -> None:
        """``barge_in`` does the same for a user who speaks over the answer."""
        conformance.needs("barge_in")
        self._interrupted_by(conformance, BargeIn())

    def test_cleared_audio_ends_the_response(self, conformance: Subject) -> None:
        """``output_audio_buffer.clear`` does the same for a client that stops its loudspeaker."""
        self._interrupted_by(conformance, ClearOutputAudio())

    @staticmethod
    def _interrupted_by(subject: Subject, command: RealtimeCommand) -> None:
        if subject.native:
            does_not_apply("when a native model speaks is its own affair")
        for pieces in POINTS[: subject.settings.cancel_points]:
            with ModelLab(subject) as lab:
                lab.begin_turn(0)
                if pieces and not (lab.wait_for_audio(pieces) and not lab.statuses):
                    return
                lab.send(command)
                lab.wait(0.1)
                require(
                    lab.statuses == ["cancelled"],
                    f"a response interrupted after {pieces} pieces of audio ended {lab.statuses}",
                    "nothing in cancel() may raise; say the end of a turn in the epoch it belongs"
                    " to",
                )
                lab.take_turn(1)
                require(
                    completed(lab.statuses[1:], 1),
                    f"interrupted after {pieces} pieces of audio, the responses ended"
                    f" {lab.statuses}",
                    "after cancel() the state must be ready for a new turn",
                )
                lab.watched.at_rest()

    def test_a_detected_turn_is_answered(self, conformance: Subject) -> None:
        """With turn detection nobody commits: silence ends the turn."""
        conformance.needs("barge_in")
        if conformance.native:
            does_not_apply("a native model needs no detector of turns")
        with ModelLab(conformance, {"turn_detection": {"type": "server_vad"}}) as lab:
            lab.pause(PAUSE_MS)
            lab.speak(SPEECH_MS)
            lab.pause(PAUSE_MS)
            lab.run(conformance.settings.answers_within_s * 1000)
            no_errors(lab)
            require(
                completed(lab.statuses, 0) and not lab.stages.failures,
                f"a turn that the detector found ended {lab.statuses}; {lab.failed}",
                "a detected turn holds the pause at its end, and with early_input its last unit is"
                " filled up: the last prompt.padding samples are zeros that nobody said",
            )
            lab.watched.at_rest()

    def test_a_written_message_is_answered(self, conformance: Subject) -> None:
        """A client that types: an item, then a response."""
        conformance.needs("text_only_turn")
        with ModelLab(conformance) as lab:
            lab.send(CreateItem(item=QUESTION))
            lab.send(CreateResponse())
            lab.wait(conformance.settings.answers_within_s)
            no_errors(lab)
            require(
                completed(lab.statuses, 1) and says_something(lab.events),
                f"a written message was answered with nothing; responses ended {lab.statuses}",
                "answer prompt.messages when prompt.kind is 'conversation', or do not claim"
                " supports_text_only_turn",
            )

    def test_pictures_reach_the_model(self, conformance: Subject) -> None:
        """A camera frame that comes with speech is in a prompt of that turn."""
        if not takes_pictures(conformance):
            does_not_apply("the model takes no camera frames (optional_input_modalities)")
        with ModelLab(conformance) as lab:
            sound = tone(100, conformance.capabilities.input_sample_rate_hz)
            lab.send(AppendAudio(audio=sound, video_frames=(PICTURE.data,)))
            lab.take_turn(0)
            no_errors(lab)
            seen = [image for each in lab.submitted for image in each.prompt.images]
            require(
                seen == [PICTURE] and not lab.stages.failures,
                f"of one picture {len(seen)} reached the model; {lab.failed}",
                "the audio buffer keeps a unit's images, and plan_append() hands them on; a model"
                " that sees nothing sets optional_input_modalities=() in capabilities()",
            )

    def test_a_still_picture_is_answered(self, conformance: Subject) -> None:
        """A message may hold an ``input_image``, which reaches the model among the messages."""
        conformance.needs("image_input")
        with ModelLab(conformance) as lab:
            url = f"data:{PICTURE.mime};base64,{encode_base64(PICTURE.data)}"
            content = [*QUESTION["content"], {"type": "input_image", "image_url": url}]
            lab.send(CreateItem(item={**QUESTION, "content": content}))
            if "text_only_turn" in conformance.capabilities.supported:
                lab.send(CreateResponse())
                lab.wait(conformance.settings.answers_within_s)
            else:
                lab.take_turn(0)
            require(
                not lab.stages.failures and (conformance.native or completed(lab.statuses, 1)),
                f"a message with a picture ended {lab.statuses}; {lab.failed}",
                "the content of a message is text, or parts: {'type': 'text', 'text': ...} and"
                " {'type': 'image_url', 'image_url': {'url': ...}}; a model that sees no stills"
                " does not claim supports_image_input",
            )

    def test_an_answer_beside_another_mixes_with_none(self, conformance: Subject) -> None:
        """A question outside the conversation, while the answer to a turn is being said."""
        conformance.needs("out_of_band_responses")
        if conformance.native:
            does_not_apply("when a native model speaks is its own affair")
        alone, beside = (_answers_by_response(conformance, ask) for ask in (False, True))
        require(
            len(beside) == 2 and all(beside),
            f"a turn and a question beside it were answered {beside}",
            "a request has an id of its own: answer each with output() of the unit that asked",
        )
        require(
            beside[:1] == alone,
            f"with a question beside it a turn is answered {beside[0]!r} instead of {alone[0]!r}",
            "keep what is still to be said by request_id: a tick carries the id of the unit before"
            " it, whichever that was",
        )

    def test_a_function_call_can_be_made(self, conformance: Subject) -> None:
        """The model calls what the session declares, with JSON, and each call by its own id."""
        calling = _calling_turn(conformance)
        with StageBench(conformance) as bench:
            session = bench.open("call", tools=list(conformance.settings.tools))
            for _ in range(2):
                take_turn(conformance, bench, "call", calling)
        calls = [each.output.tool_call for each in session.said if each.output.tool_call]
        declared = {str(tool.get("name")) for tool in conformance.settings.tools}
        for call in calls:
            require(
                call.name in declared,
                f"the model called {call.name!r}; the session declares {sorted(declared)}",
                "call only what config['tools'] names: the client has nothing else to run",
            )
            require(
                _is_json_object(call.arguments),
                f"the arguments of a call are {call.arguments!r}",
                "ToolCall.arguments is a JSON object as text: json.dumps(arguments)",
            )
        ids = [call.call_id for call in calls if call.call_id]
        require(
            len(set(ids)) == len(ids),
            f"two calls of one session have one id: {ids}",
            "leave call_id empty, or make a new one for each call: results are told apart by it",
        )

    def test_a_tool_result_is_answered(self, conformance: Subject) -> None:
        """The model calls a function; its result brings the answer."""
        calling = _calling_turn(conformance)
        with ModelLab(conformance, {"tools": list(conformance.settings.tools)}) as lab:
            lab.take_turn(calling)
            calls = [each for each in lab.events if isinstance(each, FunctionCallArgumentsDone)]
            require(
                len(calls) == 1,
                f"the turn that should call a function brought {len(calls)} calls",
                "yield unit.output(tool_call=ToolCall(name, arguments)) once, or name another"
                " `calling_turn`",
            )
            before = len(lab.events)
            lab.send(CreateItem(item=_result_of(calls[0].call_id)))
            if not conformance.native:
                lab.send(CreateResponse())
            lab.wait(conformance.settings.answers_within_s)
            no_errors(lab)
            require(
                says_something(lab.events[before:]),
                f"the result of a function was not answered; responses ended {lab.statuses}",
                "queue results in runtime_config_for_function_output(), hand them on in the prompt"
                " by plan_append(), and answer the prompt that brings them",
            )

    def test_a_closed_session_is_released(self, conformance: Subject) -> None:
        """A close in the middle of an answer ends everything, and nothing follows it."""
        with ModelLab(conformance) as lab:
            lab.begin_turn(0)
            lab.wait(0.05)
            lab.send(CloseSession())
            lab.run(1000)
            require(
                bool(lab.events) and isinstance(lab.events[-1], SessionClosed),
                f"after a close the session said {lab.types()[-3:]}",
                "close() must return; what it raises is logged",
            )
            require(
                not lab.stages.open_count and not lab.stages.close_failures,
                f"a closed session is still open in {lab.stages.open_count} stages, and"
                f" {lab.stages.close_failures} close() calls raised",
                "close() is called for each open(), in the middle of an answer too",
            )
            lab.watched.at_rest()

    def test_the_same_conversation_gives_the_same_events(self, conformance: Subject) -> None:
        """With the same ids and seeds everything a client reads is the same."""
        first, again = (_told(conformance) for _ in range(2))
        for number, (one, other) in enumerate(zip(first, again, strict=False)):
            if one != other:
                breach(
                    f"event {number} is {other} instead of {one}",
                    "draw random numbers from StageSession.seed, read no clock but `now`",
                )
        require(
            len(first) == len(again),
            f"{len(again)} events instead of {len(first)}",
            "draw random numbers from StageSession.seed, read no clock but `now`",
        )


def _answers_by_response(subject: Subject, ask_beside: bool) -> list[str]:
    """The words of each response, in the order in which they began."""
    with ModelLab(subject) as lab:
        lab.begin_turn(0)
        if ask_beside:
            lab.wait_for_audio()
            lab.send(CreateResponse(response=BESIDE))
        lab.wait(subject.settings.answers_within_s)
        no_errors(lab)
        words: dict[str, str] = {}
        for event in lab.events:
            if isinstance(event, ResponseCreated):
                words[event.response.id] = ""
            elif isinstance(event, TextDelta | TranscriptDelta):
                words[event.response_id] += event.delta
        return list(words.values())


def _calling_turn(subject: Subject) -> int:
    subject.needs("tools")
    if subject.settings.calling_turn is None:
        does_not_apply("the suite names no `calling_turn` that makes the model call a function")
    return subject.settings.calling_turn


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _result_of(call_id: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "42"}


def _told(subject: Subject) -> list[Any]:
    with ModelLab(subject) as lab:
        for number in range(2):
            lab.take_turn(number)
    return [_plain(event.to_realtime()) for event in lab.events]


def _plain(event: dict[str, Any]) -> dict[str, Any]:
    """An event with sound by its length: the last bit of a sample is nobody's promise."""
    if event["type"] == "response.output_audio.delta":
        return {**event, "delta": len(event["delta"])}
    return event
