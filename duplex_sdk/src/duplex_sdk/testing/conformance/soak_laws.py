"""The law of random lives: what nobody thought of."""

from __future__ import annotations

from time import monotonic

from duplex_sdk.testing.simulation import draw, kinds_of, run, shrink

from .breach import breach
from .subject import Subject

__all__ = ["SoakLaws"]

LONGEST = 80
"""Things that happen in a life at most: an author has few lives to run, and each starts anew."""

TRIES = 200
"""Runs that finding a shorter script may take."""


class SoakLaws:
    """Sessions with random commands, in every manner the plugin allows, while things go wrong."""

    def test_random_lives_keep_the_session_sound(self, conformance: Subject) -> None:
        """The model fails of nothing that is not its own, and every ledger adds up at the end."""
        settings = conformance.settings
        kinds = kinds_of(conformance.plugin, conformance.models, settings.session)
        end = monotonic() + settings.soak_s
        for seed in range(settings.lives):
            if seed and monotonic() > end:
                return
            schedule = draw(seed, kinds, longest=LONGEST)
            began = monotonic()
            failure = run(schedule, kinds)
            if failure is None:
                continue
            tries = _tries(settings.soak_s, monotonic() - began)
            schedule, failure = shrink(schedule, failure, kinds, tries=tries)
            # What a life that broke left in the models is not for the laws that follow.
            conformance.unload()
            breach(
                f"life {seed} broke {failure.message}\n\nthe shortest script that does:\n"
                f"{schedule.script()}",
                "go through the script: which call of the model or hook of the plugin cannot take"
                " what it says? A seed is the same life every time: run this test alone",
            )


def _tries(budget_s: float, life_s: float) -> int:
    """How often a failing life of this length may be run again to make it shorter."""
    return min(TRIES, round(budget_s / max(life_s, 1e-3)))
