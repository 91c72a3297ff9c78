"""Finds the runs of a subscription that were due since the last one and never started."""

from collections.abc import Callable

from temporalio import activity

from activities.errors import translated
from droidherd.contracts.subscriptions import CatchUpWork
from droidherd.domain.schedule.catchup import CatchUp, Start, at_start, latest


class CatchUpActivities:
    """Not done in the workflow, because the time zones are files of this machine."""

    @activity.defn(no_thread_cancel_exception=True)
    @translated
    def settle_missed_runs(self, work: CatchUpWork) -> CatchUp:
        """What was due since the run before and did not start."""
        subscription, before = work.subscription, work.before
        known = latest(subscription.catch_up, *([before.catch_up] if before else []))
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
        return [self.settle_missed_runs]
