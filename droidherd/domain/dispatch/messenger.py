"""What a dispatcher says to tasks and emulators: put into the outbox, from where its workflow delivers it."""

from droidherd.domain import messages as m
from droidherd.domain.dispatch.state import Outgoing
from droidherd.domain.outbox import Outbox

ToTask = m.Admitted | m.Rejected | m.Grant | m.Revoked | m.Recall


class Messenger:
    """Owns the outbox."""

    def __init__(self, outbox: Outbox[Outgoing]) -> None:
        self._outbox = outbox

    def to_task(self, task_id: str, message: ToTask) -> None:
        if isinstance(message, m.Admitted):
            before = self._outbox.take_last(task_id, m.Admitted)  # the newer one says all that it would have said
            if isinstance(before, m.Admitted) and before.ticket < min(message.ticket, 0):
                self._outbox.put(
                    task_id, before
                )  # all but its priority: the task has left the line since, and returned
        self._outbox.put_instead(task_id, message, lambda before: _says_as_much(message, before))

    def to_emulator(self, emulator_id: str, message: m.Reset | m.Switch | m.Recall) -> None:
        """The newest order of a kind says what the ones before it said."""
        self._outbox.put_instead(f"emulator/{emulator_id}", message, lambda before: _orders_as_much(message, before))

    def has_for(self, task_id: str) -> bool:
        """Whether something for this task waits or is in flight."""
        return task_id in self._outbox.lines

    def grant_underway(self, task_id: str) -> bool:
        return any(isinstance(message, m.Grant) for message in self._outbox.lines.get(task_id, ()))

    def take_answer(self, task_id: str) -> m.Admitted | m.Rejected | m.Recall | None:
        """Take back the answer that would be sent last, to hand it over directly."""
        answer = self._outbox.take_last(task_id, m.Admitted, m.Rejected, m.Recall)
        return answer if isinstance(answer, m.Admitted | m.Rejected | m.Recall) else None

    def forget_run(self, task_id: str, run: str) -> None:
        """This run of a task is closed: drop what was meant for it, and for no later one."""
        self._outbox.forget(task_id, lambda message: _is_for_run(message, run))


def _says_as_much(message: ToTask, before: Outgoing) -> bool:
    """Whether what waits to be said need not be said any more: nobody bounds how often a task is answered."""
    match message, before:
        case m.Grant(), m.Grant():
            return before.key == message.key and before.lease.token == message.lease.token
        case m.Revoked(), m.Revoked():
            return (before.token, before.reason) == (message.token, message.reason)
        case m.Recall(), m.Recall():
            return before.key == message.key and before.seq <= message.seq
        case m.Rejected(), m.Rejected():
            return before.key == message.key
        case _:
            return False


def _orders_as_much(message: m.Reset | m.Switch | m.Recall, before: Outgoing) -> bool:
    match message, before:
        case m.Reset(), m.Reset():
            return before.token <= message.token
        case m.Switch(), m.Switch():
            return before.seq <= message.seq
        case m.Recall(), m.Recall():
            heard = (before.incarnation, before.seq) <= (message.incarnation, message.seq)
            return heard and before.voids <= message.voids
        case _:
            return False


def _is_for_run(message: Outgoing, run: str) -> bool:
    return not isinstance(message, m.Reset | m.Switch) and message.key is not None and message.key.run == run
