"""A run of a subscription by hand: ordered, written down, and what became of it."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial

from api import engine as e
from api.errors import Kind, ProblemError, translated
from api.house import House
from api.schedules import Begun, Edited, Found, Took
from api.schemas import Wish
from api.submission import REASONS
from api.subscribing import line_of, note, rewritten, with_line
from api.subscription_view import Ran, running_task
from droidherd.contracts.subscriptions import REFUSED, RUN, task_id_of
from droidherd.domain.lifecycle import TaskState


class Order:
    """Written down under a moment of its own: whole seconds, and nobody else's."""

    def __init__(self, wish: Wish) -> None:
        """`at` is known once it was written down."""
        self._wish = wish
        self.at = datetime.now(UTC)

    def write(self, found: Found) -> Edited:
        known, now = found.subscription, datetime.now(UTC)
        at = now.replace(microsecond=0)
        taken = {one.scheduled_at for one in found.begun} | {one.moment for one in known.changes if one.what == RUN}
        while at in taken:
            at -= timedelta(seconds=1)
        self.at = at
        line = line_of(RUN, self._wish, now).model_copy(update={"due": at})
        return rewritten(found, with_line(known.changes, line))

    def refuse(self, found: Found, why: str) -> Edited:
        """What was written down as a run did not come about: its moment is free again, and the line says why."""
        others = tuple(one for one in found.subscription.changes if (one.what, one.moment) != (RUN, self.at))
        line = line_of(REFUSED, self._wish, datetime.now(UTC)).model_copy(update={"due": self.at, "why": why})
        return rewritten(found, with_line(others, line))


async def run_by_hand(house: House, subscription_id: str, wish: Wish) -> Ran:
    """Now, once. A run that is refused stands among the changes as what it is."""
    order = Order(wish)
    found = await house.schedules.change(subscription_id, order.write)
    task_id = task_id_of(subscription_id, order.at)
    await note(house, found, task_id)
    try:
        return await _begun(house, found, order.at)
    except (ProblemError, e.BrokenError, e.OverloadedError) as error:
        with suppress(e.EngineError):
            refused = await house.schedules.change(subscription_id, partial(order.refuse, why=translated(error).detail))
            await note(house, refused, task_id)
        raise


async def _begun(house: House, found: Found, at: datetime) -> Ran:
    known = found.subscription
    took = await house.schedules.trigger(known.id, at)
    if took is Took.SKIPPED:
        holder = running_task(found)
        named = f" ({holder})" if holder else ""
        detail = f"a run goes on{named}, and by `overlap` {known.overlap} no other one may wait"
        raise ProblemError(Kind.PLACE_TAKEN, detail, subscription=known.id, holder=holder)
    task_id = task_id_of(known.id, at)
    if not isinstance(took, Begun):
        return Ran(subscription=known.id, task_id=task_id, scheduled_at=at, outcome="waiting")
    task_id = await house.schedules.task_of(took, house.settings.api.answer_s) or task_id
    await _check_verdict(house, task_id)
    return Ran(subscription=known.id, task_id=task_id, scheduled_at=at, outcome="started")


async def _check_verdict(house: House, task_id: str) -> None:
    """A task that was refused at once is told like a submission that was. Silence is no refusal: it is durable."""
    said = await house.schedules.verdict(task_id, house.settings.api.verdict_s)
    if said is not None and said.state not in {TaskState.REJECTED, TaskState.FAILED}:
        return
    try:
        view = (await house.engine.view(task_id)).view
    except e.EngineError:
        return
    refused = view.state is TaskState.REJECTED or (view.state is TaskState.FAILED and not view.attempts)
    if refused and view.error:
        more: dict[str, str] = {"holder": said.holder} if said and said.holder else {}
        kind = REASONS.get(view.error.kind, Kind.PLACE_TAKEN) if view.state is TaskState.REJECTED else Kind.REFUSED
        raise ProblemError(kind, view.error.message, task=task_id, errors=(), reason=view.error.kind, **more)
