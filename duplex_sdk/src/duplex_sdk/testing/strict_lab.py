"""A lab for plugins that have no excuse: what they fail of by themselves is a broken law."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .shared_lab import SharedLab

if TYPE_CHECKING:
    from duplex_sdk.plugin import AppendRequest
    from duplex_sdk.session import effects, inputs

__all__ = ["StrictLab"]


ON_PURPOSE = "on purpose"


class StrictLab(SharedLab):
    """A session in which nothing may fail but what is made to.

    A failure that belongs to one unit alone (scope ``event``) is the model's good right. What a
    simulation breaks itself it says so of: such messages hold ``ON_PURPOSE``.

    Raises:
        AssertionError: from whatever lets time pass or feeds the session, once a model or a hook
            has failed; the message begins with the law's name.
    """

    def feed(self, item: inputs.Input) -> None:
        """Hand an input to the core; see :class:`SessionLab`."""
        for error in self.stages.failures if hasattr(self, "stages") else ():
            assert error.scope == "event", f"the_model_fails_of_nothing: {error.message}"
        super().feed(item)

    def _plan(self, op: int, request: AppendRequest) -> inputs.AppendPlanned:
        planned = super()._plan(op, request)
        fault = planned.fault
        assert fault is None or ON_PURPOSE in fault.message, (
            f"the_plugin_plans_every_unit: {fault.message}"
        )
        return planned

    def _release(self, effect: effects.ReleaseStages) -> inputs.StagesReleased:
        released = super()._release(effect)
        assert not self.stages.close_failures, "the_model_closes_every_session: close() raised"
        return released
