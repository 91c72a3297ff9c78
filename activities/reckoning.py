"""Reckons up what was due since the occasion before, for the occasion that begins."""

from collections.abc import Callable

from temporalio import activity

from activities.failures import translated
from droidherd.contracts.subscriptions import ReckonWork
from droidherd.domain.reckoning import Reckoning, Start, at_start, latest


class ReckoningActivities:
    """Pure, but for the time zones of this machine: that is why it is not done in the workflow."""

    @activity.defn(name="reckon", no_thread_cancel_exception=True)
    @translated
    def reckon(self, work: ReckonWork) -> Reckoning:
        subscription, before = work.subscription, work.before
        known = latest(subscription.reckoning, *([before.reckoning] if before else []))
        start = Start(
            scheduled_at=work.scheduled_at,
            started_at=work.started_at,
            before_ended_at=before.ended_at if before else None,
            by_hand=subscription.by_hand(work.scheduled_at),
            paused_at=subscription.paused_at,
        )
        found = at_start(subscription.rules(), known, start)
        if found.missed > known.missed:
            count = found.missed - known.missed
            activity.logger.warning("subscription %s missed %d runs: %s", subscription.id, count, found.rows[-1].why)
        return found

    def all(self) -> list[Callable[..., object]]:
        return [self.reckon]
