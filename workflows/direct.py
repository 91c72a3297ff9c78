"""Two messages of a task that need not wait until the engine has written down that they are sent.

A question that the engine then does not remember is one more place in line, given back when its turn comes. A last
word would be said again, whatever else arrives. Everything else decides about who holds what, and goes as a signal,
which leaves only together with the decision (docs/adr/0019-two-messages-go-directly.md).
"""

from collections.abc import Callable

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from droidherd.contracts.post import Asking, Parting, Verdict
    from droidherd.domain import messages as m
    from workflows import options

Hear = Callable[[m.Admitted | m.Rejected | m.Recall], None]


class Direct:
    """For a courier: carries what may go directly. What fails goes as a signal, which needs nobody to be awake."""

    def __init__(self, hear: Hear) -> None:
        """`hear` takes the answer to a question."""
        self._hear = hear

    async def carry(self, target: str, message: object) -> bool:
        """Whether it was carried."""
        try:
            if isinstance(message, m.Enqueue):
                await self._ask(target, message)
                return True
            if isinstance(message, m.Done) and message.parting:
                await workflow.execute_local_activity(
                    "part",
                    Parting(dispatcher=target, message=message),
                    start_to_close_timeout=options.DIRECT_TIMEOUT,
                    retry_policy=options.ONCE,
                )
                return True
        except FailureError as error:  # as an ActivityError the first time, and unwrapped when it is replayed
            workflow.logger.debug("%s is told by a signal: %s", target, error)
        return False

    async def _ask(self, target: str, message: m.Enqueue) -> None:
        verdict = await workflow.execute_local_activity(
            "ask",
            Asking(dispatcher=target, message=message),
            result_type=Verdict,
            start_to_close_timeout=options.DIRECT_TIMEOUT,
            retry_policy=options.ONCE,
        )
        news = verdict.news()
        if news is not None:
            self._hear(news)
