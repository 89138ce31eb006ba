"""The law of random lives: what nobody thought of."""

from __future__ import annotations

from duplex_sdk.testing.simulation import draw, kinds_of, run, shrink

from .breach import breach
from .subject import Subject

__all__ = ["SoakLaws"]

TRIES = 200
"""Runs that finding a shorter script may take."""


class SoakLaws:
    """Sessions with random commands, in every manner the plugin allows, while things go wrong."""

    def test_random_lives_keep_the_session_sound(self, conformance: Subject) -> None:
        """The model fails of nothing that is not its own, and every ledger adds up at the end."""
        kinds = kinds_of(conformance.plugin, conformance.models, conformance.settings.session)
        for seed in range(conformance.settings.lives):
            schedule = draw(seed, kinds)
            failure = run(schedule, kinds)
            if failure is None:
                continue
            schedule, failure = shrink(schedule, failure, kinds, tries=TRIES)
            # What a life that broke left in the models is not for the laws that follow.
            conformance.unload()
            breach(
                f"life {seed} broke {failure.message}\n\nthe shortest script that does:\n"
                f"{schedule.script()}",
                "go through the script: which call of the model or hook of the plugin cannot take"
                f" what it says? `duplex simulate --plugin {conformance.spec.name} --seed {seed}"
                " --schedules 1` runs it again",
            )
