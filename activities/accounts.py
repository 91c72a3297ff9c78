"""Records of accounts as their workflows wrote them down, kept for a few seconds: every task that is planned asks."""

import asyncio
import threading
import time
from concurrent.futures import TimeoutError as NoAnswerError

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from droidherd.contracts import names
from droidherd.contracts.accounts import AccountRecord
from droidherd.domain.errors import InfrastructureError

LIFE_S = 5.0
KEPT = 10_000
READ_S = 15.0


class AccountBook:
    """Read from any thread. That an account has no record is known for as long as a record is."""

    def __init__(self, client: Client, loop: asyncio.AbstractEventLoop, life_s: float = LIFE_S) -> None:
        """`loop` is where the client lives."""
        self._client = client
        self._loop = loop
        self._life_s = life_s
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, AccountRecord | None]] = {}

    def read(self, account: str, *, fresh: bool = False) -> AccountRecord | None:
        """None: there is no record. `fresh`: as it is now, and not some seconds ago."""
        with self._lock:
            at_s, known = self._known.get(account, (-self._life_s, None))
        if not fresh and time.monotonic() - at_s < self._life_s:
            return known
        record = self._ask(account)
        with self._lock:
            self._known.pop(account, None)
            if len(self._known) >= KEPT:
                del self._known[next(iter(self._known))]
            self._known[account] = (time.monotonic(), record)
        return record

    def _ask(self, account: str) -> AccountRecord | None:
        asking = asyncio.run_coroutine_threadsafe(self._written(account), self._loop)
        try:
            return asking.result(READ_S)
        except (NoAnswerError, RPCError) as error:
            asking.cancel()
            what = f"its record cannot be read: {type(error).__name__}"
            raise InfrastructureError(what, to=f"account {account}", remedy="is the engine there?") from error

    async def _written(self, account: str) -> AccountRecord | None:
        try:
            found = await self._client.get_workflow_handle(names.account_id(account)).describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise
        if found.workflow_type != names.Workflow.ACCOUNT or found.status is not WorkflowExecutionStatus.RUNNING:
            return None
        try:
            return await found.memo_value(names.MEMO_ACCOUNT, None, type_hint=AccountRecord)
        except (ValueError, TypeError, RuntimeError):
            return None  # a foreign client wrote something else there
