"""Who did it: the name of the key a request came with. What a body claims beside it is whom it was for."""

from typing import TypeVar

from api.account_views import AccountBody, Disabling
from api.schemas import Capacity, CleanupWish, Command, Insistence, LaneOrder, Precedence, Reply, Wish
from api.subscribing import Wanted
from droidherd.contracts.tasks import TaskSpec

Signed = TypeVar(
    "Signed",
    TaskSpec,
    Wish,
    Command,
    Capacity,
    LaneOrder,
    Precedence,
    Insistence,
    Reply,
    AccountBody,
    Disabling,
    CleanupWish,
    Wanted,
)
ACTOR_MAX = 1000


def signed(request: Signed, caller: str) -> Signed:
    """By whoever the key belongs to. Without keys, who is on this machine may say who it is."""
    if not caller:
        return request
    told = request.actor if "actor" in request.model_fields_set else ""
    actor = f"{caller} for {told}" if told not in ("", caller) else caller
    return request.model_copy(update={"actor": actor[:ACTOR_MAX]})
