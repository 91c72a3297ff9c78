"""What a dead worker's caches cost after its restart."""

from temporalio.api.enums.v1 import TimeoutType
from temporalio.client import Client

from droidherd.contracts import names


async def signals_sent_to_dead_caches(client: Client) -> list[str]:
    """What made the dispatcher's workflow tasks that a dead worker's cache was waited for in vain, if a signal did."""
    history = await client.get_workflow_handle(names.dispatcher_id("default")).fetch_history()
    by_id = {event.event_id: event for event in history.events}
    in_vain = [
        event.workflow_task_timed_out_event_attributes.scheduled_event_id
        for event in history.events
        if event.workflow_task_timed_out_event_attributes.timeout_type == TimeoutType.TIMEOUT_TYPE_SCHEDULE_TO_START
    ]
    causes = (by_id[number - 1].workflow_execution_signaled_event_attributes.signal_name for number in in_vain)
    return [cause for cause in causes if cause]
