"""Laws of what is settled when a session opens: its voice, its sampling, its filter of input."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from duplex_sdk.audio import PcmChunk
from duplex_sdk.plugin import InputProcessor
from duplex_sdk.plugin.read_only import read_only
from duplex_sdk.stage import Json

from .breach import breach, does_not_apply, require
from .policy_laws import called
from .subject import Subject

__all__ = ["ConfigLaws"]

NAMED = (None, "alloy", "marin", "a voice that nobody has")
"""What clients call the voice: nothing, one of OpenAI's names, anything."""

PIECES = (320, 160, 481, 1)
"""Samples of the appends that a filter is given: clients cut their sound as they like."""

TELLS_A_NAME = (
    "voice_in_use() maps what the client named, or did not name, to a voice of the model; a name"
    " that means nothing is given back as it is: expect any, and none"
)


class ConfigLaws:
    """What a session has for its life is made for it alone, and told as it is."""

    def test_the_voice_in_use_is_told(self, conformance: Subject) -> None:
        """Whatever the client says, ``voice_in_use`` names the voice that it will hear."""
        voices = conformance.spec.voices
        for named in (*NAMED, *voices):
            told = _voice(conformance, named)
            require(
                told is None or (isinstance(told, str) and told),
                f"for a client that asks for {named!r} the voice in use is {told!r}",
                f"return a name, or None: {TELLS_A_NAME}",
            )
            require(
                _voice(conformance, named) == told and _voice(conformance, told) == told,
                f"the voice in use is {told!r} for {named!r}, and another one when it is asked"
                " again, or about its own answer",
                "voice_in_use() depends on the config alone, and a voice of the model's own is in"
                " use under its own name: else an update that repeats it would count as a change",
            )
            require(
                not voices or told in (*voices, named, None),
                f"the voice in use is {told!r}, which is none of the descriptor's: {voices}",
                "name it in PluginSpec.voices, or map to one that is there",
            )

    def test_the_descriptor_names_true_voices(self, conformance: Subject) -> None:
        """Each of ``PluginSpec.voices`` may be asked for, and is the one then heard."""
        voices = conformance.spec.voices
        if not voices:
            does_not_apply("the descriptor names no voices")
        for voice in voices:
            config = _config(conformance, voice)
            advice = f"take {voice!r} out of PluginSpec.voices, or let clients have it"
            conformance.prepared(config, advice)
            told = _voice(conformance, voice)
            require(
                told == voice,
                f"a client that asks for {voice!r} gets {told!r}",
                "PluginSpec.voices are the names under which the voices are told: leave out what"
                " is only another name for one",
            )

    def test_sampling_depends_on_the_session_alone(self, conformance: Subject) -> None:
        """The same runtime config twice makes the same parameters."""
        runtime = conformance.runtime_config(conformance.session_config("sampling"))
        first, again = conformance.sampling(runtime), conformance.sampling(runtime)
        require(
            first == again,
            f"configure_sampling_params returned {first!r}, then {again!r}",
            "take runtime_config and defaults, and nothing that another session left on the plugin;"
            " random numbers come from StageSession.seed",
        )

    def test_runtime_configs_are_of_one_session_each(self, conformance: Subject) -> None:
        """Another session's opening changes nothing of what one session has."""
        runtimes = []
        for name in ("mine", "yours"):
            config = conformance.session_config(name, instructions=f"You are {name}.")
            runtimes.append(conformance.prepared(config))
            if name == "mine":
                before = _frozen(runtimes[0])
        require(
            _frozen(runtimes[0]) == before,
            "the runtime config of a session changed when another one opened",
            "make a new mapping in every prepare_runtime_config(): one that is kept on the plugin"
            " is everybody's",
        )

    def test_input_filters_keep_length_and_rate(self, conformance: Subject) -> None:
        """What ``create_input_processor`` makes gives back as much sound as it is given."""
        config = conformance.session_config("filter")
        make = partial(conformance.plugin.create_input_processor, config)
        advice = "return an InputProcessor of this session's own, or None"
        made, another = (called("create_input_processor", make, advice) for _ in range(2))
        if made is None:
            does_not_apply("the plugin filters no input")
        require(
            isinstance(made, InputProcessor) and made is not another,
            f"create_input_processor returned {made!r}, then {another!r}",
            advice,
        )
        assert isinstance(made, InputProcessor)
        _filter(conformance, made)


def _filter(subject: Subject, made: InputProcessor) -> None:
    sound, rate = subject.turn(0), subject.capabilities.input_sample_rate_hz
    start = 0
    for number, size in enumerate(PIECES * 8):
        piece = PcmChunk(sound.data[start * 4 : (start + size) * 4], rate)
        start += size
        if number % 2:
            played = partial(made.played, piece, number * 20.0)
            called("InputProcessor.played", played, "what is played may have any length, 0 too")
        given = called(
            "InputProcessor.process",
            partial(made.process, piece),
            "appends have any length: keep what does not fill a frame, and give silence for it",
        )
        kept = isinstance(given, PcmChunk) and (given.rate, given.count) == (
            piece.rate,
            piece.count,
        )
        require(
            kept,
            f"of {piece.count} samples at {rate} Hz a filter made {_told(given)}",
            "process() gives back the input, cleaned: as many samples at the same rate. What it"
            " holds back shifts everything that follows, the ends of turns too",
        )


def _told(given: object) -> str:
    if isinstance(given, PcmChunk):
        return f"{given.count} at {given.rate} Hz"
    return repr(given)


def _config(subject: Subject, voice: str | None) -> Mapping[str, Json]:
    config: Mapping[str, Json] = read_only({**subject.session_config("voice"), "voice": voice})
    return config


def _voice(subject: Subject, named: str | None) -> str | None:
    ask = partial(subject.plugin.voice_in_use, _config(subject, named))
    told = called("voice_in_use", ask, TELLS_A_NAME)
    if told is not None and not isinstance(told, str):
        breach(f"the voice in use is {told!r}", f"return a name, or None: {TELLS_A_NAME}")
    return told


def _frozen(runtime: Mapping[str, Json]) -> str:
    return repr(dict(runtime))
