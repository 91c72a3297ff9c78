"""Did every task of the demo end as it should, and for the reason it should? Each complaint is a sentence."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from droidherd.cli import demo_parts as cast
from droidherd.cli.demo_play import Play, Role
from droidherd.cli.door import Document, Door, rows_of

PNG = b"\x89PNG\r\n\x1a\n"


def complaints(play: Play, door: Door) -> dict[str, list[str]]:
    """By part; an empty list is good."""
    return {name: list(_judge(play, role, door)) for name, role in play.roles.items()}


def _judge(play: Play, role: Role, door: Door) -> Iterator[str]:
    part = role.part
    if role.state != part.expected:
        yield f"ended as {role.state or 'nothing'}, not {part.expected}"
        return
    if part.attempts and role.task.get("attempt") != part.attempts:
        yield f"took {role.task.get('attempt')} attempts, not {part.attempts}"
    if part.pictures:
        yield from _pictures(role, door)
    own = _OWN.get(part.name)
    if own is not None:
        yield from own(play, role, door)


def _pictures(role: Role, door: Door) -> Iterator[str]:
    """They are there, they come over HTTP, and they are pictures."""
    base = f"/api/tasks/{role.task_id}/artifacts"
    names = [str(one["name"]) for one in rows_of(door.get(base), "artifacts")]
    pictures = [name for name in names if name.endswith(".png")]
    if len(pictures) < role.part.pictures:
        yield f"left {len(pictures)} pictures, not {role.part.pictures}"
    for name in pictures:
        if not door.file(f"{base}/{name}").startswith(PNG):
            yield f"{name} is not a PNG"


def _tried_again(_play: Play, role: Role, _door: Door) -> Iterator[str]:
    outcomes = {int(one["n"]): one.get("outcome") for one in rows_of(role.task, "attempts")}
    if outcomes != {1: "failed", 2: "completed"}:
        yield f"its attempts ended as {outcomes}"


def _refused(play: Play, role: Role, _door: Door) -> Iterator[str]:
    holder = play.roles[cast.HELD].task_id
    if role.status != 409 or role.refusal.get("holder") != holder:  # noqa: PLR2004 - Conflict
        yield f"was answered {role.status} naming {role.refusal.get('holder')}, not 409 naming {holder}"


def _paused(_play: Play, role: Role, door: Door) -> Iterator[str]:
    asked = [one["event"] for one in _audit(role, door) if one.get("actor") == cast.ACTOR]
    if asked != ["paused", "resumed"]:
        yield f"its audit says {asked} was asked, not a pause and a resume"
    outcomes = [one.get("outcome") for one in rows_of(role.task, "attempts")]
    if outcomes[:1] != ["paused"] or outcomes[-1:] != ["completed"]:
        yield f"its stays on emulators ended as {outcomes}"


def _cancelled(_play: Play, role: Role, door: Door) -> Iterator[str]:
    last = _audit(role, door)[-1]
    if (last.get("event"), last.get("actor")) != ("cancelled", cast.ACTOR):
        yield f"its audit ends with {last.get('event')} by {last.get('actor')}"
    if not _started(role):
        yield "never ran"


def _failed(_play: Play, role: Role, _door: Door) -> Iterator[str]:
    error = role.task.get("error") or {}
    if error.get("kind") != "ScreenNotReachedError":
        yield f"failed with {error.get('kind')}: {error.get('message')}"


def _later(_play: Play, role: Role, _door: Door) -> Iterator[str]:
    started = _started(role)
    if not started or started[0] < datetime.fromisoformat(str(role.part.body["not_before"])):
        yield f"started at {started[:1]}, before its time"


def _after_sign_in(play: Play, role: Role, _door: Door) -> Iterator[str]:
    """One account is never on two emulators: the second task of carol began after the first had ended."""
    ended = rows_of(play.roles[cast.CAROL].task, "attempts")[-1:]
    started = _started(role)
    if not ended or not started or started[0] < datetime.fromisoformat(str(ended[0].get("ended"))):
        yield "ran while another task of its account did"


def _in_line(play: Play, role: Role, _door: Door) -> Iterator[str]:
    """Tokens only grow, so they tell the order of the grants."""
    tokens = [_token(play.roles[cast.FIRST]), _token(role)]
    if tokens != sorted(tokens):
        yield "overtook the task before it"


_OWN: Mapping[str, Callable[[Play, Role, Door], Iterator[str]]] = {
    cast.AGAIN: _tried_again,
    cast.TWIN: _refused,
    cast.HELD: _paused,
    cast.STOPPED: _cancelled,
    cast.LOST: _failed,
    cast.LATER: _later,
    cast.BUSY: _after_sign_in,
    cast.SECOND: _in_line,
}


def _audit(role: Role, door: Door) -> list[Document]:
    return rows_of(door.get(f"/api/tasks/{role.task_id}/events"), "events")


def _started(role: Role) -> list[datetime]:
    found = [one.get("started") for one in rows_of(role.task, "attempts")]
    return [datetime.fromisoformat(str(one)) for one in found if one]


def _token(role: Role) -> int:
    return next((int(one.get("token") or 0) for one in rows_of(role.task, "attempts")), 0)
