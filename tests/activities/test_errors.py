"""What an activity's error says to the workflow that has to go on with it."""

from activities.errors import translate
from droidherd.domain.errors import ServerBusyError, Verdict
from droidherd.domain.task.reaction import DELAY_MAX_S
from droidherd.web.client import patience_s
from workflows.task.running import details_of


def test_a_server_that_asks_for_ages_leaves_the_failure_readable():
    asked_s = patience_s("9" * 40, "", 0.0)
    failure = details_of(translate(ServerBusyError("answered 503", after_s=asked_s)))
    assert failure is not None
    assert (Verdict.RETRYABLE, DELAY_MAX_S) == (failure.verdict, failure.retry_after_s)
