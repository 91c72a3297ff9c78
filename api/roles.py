"""What a key may do: look, work with tasks and emulators, or everything."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

LOOKING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
RULING: Final = (("PUT", "/api/accounts/"), ("DELETE", "/api/accounts/"), ("POST", "/api/maintenance/"))
"""Whom tasks act for, with which credentials; and what is deleted for good."""


class Role(IntEnum):
    """Each may what the ones before it may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


def refusal(roles: Mapping[str, Role], name: str, method: str, path: str) -> str:
    """Empty, or why this key does not do it."""
    needed, role = _needed(method, path), roles.get(name, Role.ADMIN)
    if role >= needed:
        return ""
    return f"the key {name!r} is that of a {role.name.lower()}, and this takes a key of an {needed.name.lower()}"


def _needed(method: str, path: str) -> Role:
    if method in LOOKING:
        return Role.VIEWER
    rules = any(method == verb and path.startswith(place) for verb, place in RULING)
    return Role.ADMIN if rules else Role.OPERATOR
