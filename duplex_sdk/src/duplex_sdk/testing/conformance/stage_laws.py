"""Laws of the stages one session at a time: what they hand out, and that they come to rest."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

import numpy as np

from duplex_sdk.audio import PcmChunk
from duplex_sdk.stage import StageOutput

from .bench import StageBench
from .breach import LawBrokenError, breach, does_not_apply, require
from .conversation import hear, no_failures, run_alone, take_turn
from .pictures import PICTURE, takes_pictures
from .said import Said
from .subject import Subject

__all__ = ["StageLaws"]

QUICK_S = 0.0002
LATE_S = 0.137
NOISE = 10
"""A measurement of a promise may be so many times worse: test machines are busy."""


class StageLaws:
    """What a model hands out for one session is well-formed, and it comes to an end."""

    def test_the_models_load(self, conformance: Subject) -> None:
        """Each stage loads on a CPU and says what it is."""
        for loaded, stage in zip(conformance.stages, conformance.pipeline.stages, strict=True):
            most = loaded.info.max_sessions
            require(
                most is None or most >= 1,
                f"stage {stage.id!r} loads with max_sessions={most}",
                "say how many sessions the replica can hold, or None for no limit of its own",
            )

    def test_prefill_ends(self, conformance: Subject) -> None:
        """``prefill`` returns None some day; until then the session's units wait."""
        with StageBench(conformance) as bench:
            session = bench.open("prefill")
            try:
                bench.run(conformance.settings.answers_within_s)
            except LawBrokenError:
                breach("prefill() never returns None", "return None once the prompt is worked off")
            failed = no_failures(session)
            require(not failed, f"a session does not open: {failed}", "mend open() or prefill()")
            require(
                bench.at_rest,
                f"prefill() is not done after {conformance.settings.answers_within_s} s",
                "return None once the prompt is worked off",
            )

    def test_a_turn_is_answered(self, conformance: Subject) -> None:
        """The user speaks, the model does something about it."""
        with StageBench(conformance) as bench:
            session = bench.open("answered")
            said = take_turn(conformance, bench, "answered", 0)
            failed = no_failures(session)
            require(
                not failed,
                f"a plain turn fails: {failed}",
                "the log above has the traceback; a unit that cannot be served is unit.failed()",
            )
            done = bool(session.said) if conformance.native else said.says_something
            require(
                done,
                "a turn brought no output at all",
                "yield unit.output(...) for it; if the model only answers real speech, give the"
                " suite `turns` that it understands",
            )

    def test_an_answer_comes_to_rest(self, conformance: Subject) -> None:
        """In turn mode the response is over when no stage has anything more to do."""
        if conformance.native:
            does_not_apply("a native model's answers end by end_of_turn")
        with StageBench(conformance) as bench:
            bench.open("rest")
            take_turn(conformance, bench, "rest", 0)
            require(
                bench.at_rest,
                f"ticks are still asked for {conformance.settings.answers_within_s} s after a turn",
                "leave again_ms None in the last output of an answer, or raise the suite's"
                " answers_within_s if answers are that long",
            )

    def test_samples_are_sound(self, conformance: Subject) -> None:
        """Every sample is a number within full scale, at the plugin's output rate."""
        with StageBench(conformance) as bench:
            session = bench.open("samples")
            take_turn(conformance, bench, "samples", 0)
            require(
                not bench.nan_samples,
                f"{bench.nan_samples} samples are NaN or infinite",
                "look for a division by zero, or float16 that overflows, before PcmChunk.of()",
            )
            refused = no_failures(session)
            require(
                not refused,
                f"an output is refused: {refused}",
                "hand out PcmChunks at capabilities().output_sample_rate_hz and fields of the"
                " types that StageOutput names",
            )
            loudest = max((_peak(said.output.audio) for said in session.said), default=0.0)
            require(
                loudest <= 1.001,
                f"the loudest sample is {loudest:.2f}; full scale is 1.0",
                "scale the audio: what is louder is clipped; int16 becomes float by / 32768",
            )

    def test_outputs_are_new(self, conformance: Subject) -> None:
        """Text and audio of an output follow what was said before; nothing is told again."""
        with StageBench(conformance) as bench:
            session = bench.open("new")
            take_turn(conformance, bench, "new", 0)
            shown = [each for each in session.said if each.shown]
        _nothing_is_doubled(shown)
        _nothing_is_cumulative([each.output for each in shown])

    def test_a_turn_ends_once(self, conformance: Subject) -> None:
        """After ``end_of_turn`` a turn-based model says nothing more of that turn."""
        if conformance.native:
            does_not_apply("a native model may end several turns while it is spoken to")
        with StageBench(conformance) as bench:
            session = bench.open("end")
            said = take_turn(conformance, bench, "end", 0)
            require(
                said.ends <= 1,
                f"one turn was ended {said.ends} times",
                "set end_of_turn in the last output of an answer, and in no other",
            )
            over = False
            for output in (each.output for each in session.said if each.shown):
                require(
                    not (over and (output.audio is not None or output.text)),
                    "audio or text follows the end of the turn",
                    "set end_of_turn in the last output of an answer: what follows is lost",
                )
                over = over or output.end_of_turn

    def test_marks_lie_inside_their_output(self, conformance: Subject) -> None:
        """Marks tie characters to ms of the same output, both rising."""
        with StageBench(conformance) as bench:
            session = bench.open("marks")
            take_turn(conformance, bench, "marks", 0)
        for output in (each.output for each in session.said if each.shown and each.output.marks):
            marks = tuple(output.marks or ())
            rising = all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(marks))
            length = len(output.text or "")
            require(
                rising and marks[-1][0] <= length,
                f"marks {marks} do not lie in a text of {length} characters",
                "count characters and ms from the beginning of this output, not of the answer",
            )

    def test_short_and_long_turns_do_no_harm(self, conformance: Subject) -> None:
        """A click and a monologue are turns as well."""
        rate = conformance.capabilities.input_sample_rate_hz
        whole, longest_s = conformance.turn(0), conformance.settings.longest_turn_s
        long = PcmChunk.join([whole] * max(1, round(longest_s * 1000 / whole.duration_ms)))
        assert long is not None
        click = PcmChunk.silence(rate // 200, rate)
        for what, audio in (("5 ms", click), (f"{longest_s:.0f} s", long)):
            with StageBench(conformance) as bench:
                session = bench.open(f"turn of {what}")
                bench.say(session.session_id, audio)
                bench.listen(conformance.settings.answers_within_s, session.session_id)
                failed = no_failures(session)
            require(
                not failed,
                f"a turn of {what} fails: {failed}",
                "turns have any length; answer nothing, or unit.failed() with scope 'event'",
            )

    def test_a_written_turn_is_answered(self, conformance: Subject) -> None:
        """A prompt of kind ``conversation`` brings messages and no audio."""
        conformance.needs("text_only_turn")
        with StageBench(conformance) as bench:
            session = bench.open("written")
            bench.write("written", "What is seven plus five?")
            bench.listen(conformance.settings.answers_within_s, "written")
            failed = no_failures(session)
            require(
                not failed and hear(session).says_something,
                f"a written turn is not answered: {failed or 'no output'}",
                "answer prompt.messages when prompt.kind is 'conversation', or do not claim"
                " supports_text_only_turn",
            )

    def test_a_changed_session_goes_on(self, conformance: Subject) -> None:
        """``update`` takes new instructions between turns."""
        with StageBench(conformance) as bench:
            session = bench.open("update")
            take_turn(conformance, bench, "update", 0)
            bench.update("update", instructions="Speak like a pirate.")
            take_turn(conformance, bench, "update", 1)
            failed = no_failures(session)
        require(
            not failed,
            f"after an update of the instructions: {failed}",
            "update() may ignore what the model cannot change; it must not raise",
        )

    def test_an_update_breaks_nothing_off(self, conformance: Subject) -> None:
        """An update that comes while the user speaks or is answered ends neither."""
        if conformance.native:
            does_not_apply("what a native model says depends on the input that goes on")
        (whole,) = run_alone(conformance, "updated", 0)
        if conformance.plugin.early_input:
            with StageBench(conformance) as bench:
                session = bench.open("updated")
                bench.begin("updated", conformance.turn(0))
                bench.update("updated")
                bench.commit("updated")
                bench.run(conformance.settings.answers_within_s)
            require(
                hear(session).heard == whole.heard,
                f"a turn with an update in the middle of it is heard as {hear(session).heard},"
                f" without one as {whole.heard}",
                "update() takes the new config, and leaves alone what was heard and said so far",
            )
        with StageBench(conformance) as bench:
            session = bench.open("updated")
            bench.say("updated", conformance.turn(0))
            end = bench.now + conformance.settings.answers_within_s
            while not hear(session).says_something and bench.step(end):
                pass
            begun = hear(session)
            bench.update("updated")
            bench.run(conformance.settings.answers_within_s)
        more = (len(whole.text) > len(begun.text)) or whole.audio.size > begun.audio.size
        said = hear(session)
        require(
            not more or len(said.text) > len(begun.text) or said.audio.size > begun.audio.size,
            "an update of the session broke its answer off",
            "update() takes the new config, and leaves alone what was heard and is still to be"
            " said; only cancel() ends an answer",
        )

    def test_what_was_heard_is_told_once(self, conformance: Subject) -> None:
        """``user_text`` brings new pieces, and with ``user_text_final`` the whole turn, once."""
        if conformance.native:
            does_not_apply("a native model may find several turns in what it hears")
        with StageBench(conformance) as bench:
            session = bench.open("heard")
            take_turn(conformance, bench, "heard", 0)
        told = [each.output for each in session.said if each.output.user_text]
        whole = [output.user_text for output in told if output.user_text_final]
        require(
            len(whole) <= 1,
            f"one turn was told as heard {len(whole)} times: {whole}",
            "say user_text_final in one output of a turn: each is a transcript of its own",
        )
        so_far = ""
        for output in told:
            piece = output.user_text or ""
            require(
                output.user_text_final
                or not (len(so_far) >= 2 and len(piece) > len(so_far) and piece.startswith(so_far)),
                f"the piece {piece!r} of what was heard repeats all pieces before it",
                "user_text is what is new: yield what the recogniser added; only the final one is"
                " the whole turn",
            )
            so_far += piece

    def test_late_ticks_lose_nothing(self, conformance: Subject) -> None:
        """A tick comes when there is time for it: an answer is as long on a busy machine."""
        if conformance.native:
            does_not_apply("a native model brings its answer forward with its input, not by ticks")
        (prompt,) = run_alone(conformance, "late", 0)
        (late,) = run_alone(conformance, "late", 0, late_s=LATE_S)
        difference = prompt.difference(late, conformance.settings.audio_tolerance)
        require(
            difference is None,
            f"when every step comes {LATE_S * 1000:.0f} ms late the answer differs: {difference}",
            "say the next piece of the answer at each tick, however late it is; drop nothing"
            " because its time is over",
        )

    def test_a_turn_with_pictures_is_answered(self, conformance: Subject) -> None:
        """Frames of a camera come with the audio of a turn."""
        if not takes_pictures(conformance):
            does_not_apply("the model takes no camera frames (optional_input_modalities)")
        with StageBench(conformance) as bench:
            session = bench.open("picture")
            bench.say("picture", conformance.turn(0), images=(PICTURE,))
            bench.listen(conformance.settings.answers_within_s, "picture")
            failed = no_failures(session)
            said = hear(session).says_something or (conformance.native and bool(session.said))
            require(
                not failed and said,
                f"a turn with a picture is not answered: {failed or 'no output'}",
                "prompt.images holds JPEG frames beside the audio; a model that sees nothing sets"
                " optional_input_modalities=() in capabilities()",
            )

    def test_a_commit_without_residue_is_answered(self, conformance: Subject) -> None:
        """With ``early_input`` the commit's prompt is empty when all audio was taken before."""
        self._needs_early_input(conformance)
        with StageBench(conformance) as bench:
            session = bench.open("residue")
            bench.begin("residue", conformance.turn(0))
            bench.sessions["residue"].state.audio_buffer.clear()
            bench.commit("residue")
            bench.run(conformance.settings.answers_within_s)
            failed = no_failures(session)
        require(
            not failed and hear(session).says_something,
            f"a commit that brings no audio is not answered: {failed or 'no output'}",
            "prompt.audio is None in a final prompt when no residue was left: answer what came"
            " before",
        )

    def test_quick_stages_are_quick(self, conformance: Subject) -> None:
        """``quick`` promises that no call takes over 0.2 ms: it runs on the engine's own loop."""
        quick = {stage.id for stage in conformance.pipeline.stages if stage.quick}
        if not quick:
            does_not_apply("no stage claims to be quick")
        with StageBench(conformance) as bench:
            bench.open("quick")
            for number in range(3):
                take_turn(conformance, bench, "quick", number)
            took = [seconds for stage, seconds in bench.took if stage in quick]
        usual = median(took) if took else 0.0
        require(
            usual <= QUICK_S * NOISE,
            f"a step of a quick stage takes {usual * 1000:.1f} ms",
            "leave quick=False: the stage then gets a thread and blocks nobody",
        )

    def test_input_without_a_wish_for_an_answer_is_only_heard(self, conformance: Subject) -> None:
        """With ``early_input`` a commit may say ``respond=False``."""
        self._needs_early_input(conformance)
        with StageBench(conformance) as bench:
            session = bench.open("heard")
            bench.begin("heard", conformance.turn(0))
            bench.commit("heard", respond=False)
            bench.run(conformance.settings.answers_within_s)
            failed = no_failures(session)
        require(
            not failed and not hear(session).says_something,
            f"a turn that wants no answer got one, or failed: {failed}",
            "when prompt.final comes with respond=False, keep the input and say nothing",
        )

    def test_discarded_input_is_forgotten(self, conformance: Subject) -> None:
        """After ``discard`` the next turn is heard as if nothing had been said before."""
        self._needs_early_input(conformance)
        heard = []
        for interrupted in (False, True):
            with StageBench(conformance) as bench:
                bench.open("discard")
                if interrupted:
                    bench.begin("discard", conformance.turn(1))
                    bench.discard("discard")
                    bench.run(conformance.settings.answers_within_s)
                heard.append(take_turn(conformance, bench, "discard", 0).heard[-1:])
        require(
            heard[0] == heard[1],
            f"after a discard the turn is heard as {heard[1]} instead of {heard[0]}",
            "drop the units of the unfinished turn when a prompt of kind 'discard' comes",
        )

    @staticmethod
    def _needs_early_input(subject: Subject) -> None:
        if subject.native or not subject.plugin.early_input:
            does_not_apply("the plugin takes whole turns (early_input is False)")


def _peak(audio: PcmChunk | None) -> float:
    return 0.0 if audio is None or not audio.count else float(np.abs(audio.numpy()).max())


def _nothing_is_doubled(shown: list[Said]) -> None:
    for before, after in pairwise(shown):
        if before.step != after.step or before.output != after.output:
            continue
        loud = _peak(after.output.audio) > 0
        require(
            not (loud or after.output.text or after.output.tool_call),
            "one step handed out the same output twice",
            "yield each piece once; the host sends every output it is given",
        )


def _nothing_is_cumulative(outputs: list[StageOutput]) -> None:
    text, audio = "", b""
    for output in outputs:
        new = output.text or ""
        require(
            not (len(text) >= 2 and len(new) > len(text) and new.startswith(text)),
            f"the text {new!r} repeats all that was said before",
            "StageOutput.text is new text only: yield what the decoder added, not the whole so far",
        )
        samples = b"" if output.audio is None else output.audio.data
        require(
            not (any(audio) and len(samples) > len(audio) and samples.startswith(audio)),
            "the audio of an output begins with all the audio before it",
            "StageOutput.audio is new samples only: cut off what earlier outputs brought",
        )
        text, audio = text + new, audio + samples
        if output.end_of_turn:
            text, audio = "", b""
