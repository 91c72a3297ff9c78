"""Accounts, mutexes and places against duplicates; and names that no submission may use."""

import pytest

from droidherd.domain.dispatch.keys import (
    DisabledKey,
    Keys,
    account_key,
    mutex_key,
    subscription_mutex,
    why_reserved,
)


@pytest.mark.parametrize("name", [subscription_mutex("daily"), "subscription.", "subscription.a.b"])
def test_the_mutexes_of_subscriptions_are_theirs_and_the_refusal_says_so(name: str) -> None:
    assert "belong to the tasks of subscriptions; choose another name" in why_reserved(name)


@pytest.mark.parametrize(
    "name", ["shop", "subscription", "subscriptions.daily", "my.subscription.daily", "Subscription.x"]
)
def test_every_other_name_is_free(name: str) -> None:
    assert "" == why_reserved(name)


ACCOUNT, SHOP = account_key("ann"), mutex_key("shop")
BUCKET, OTHER_BUCKET = ("account", ("os=13",)), ("games", ())


def test_a_key_is_busy_for_everybody_but_its_holder():
    keys = Keys()
    keys.take([ACCOUNT, SHOP], "t1")
    assert ("", ACCOUNT, SHOP) == (
        keys.busy([ACCOUNT, SHOP], "t1"),
        keys.busy([ACCOUNT, SHOP], "t2"),
        keys.busy([mutex_key("free"), SHOP], "t2"),
    )


def test_only_its_holder_frees_a_key():
    keys = Keys()
    keys.take([SHOP], "t1")
    keys.free([SHOP], "t2")
    assert {SHOP: "t1"} == keys.held
    keys.free([SHOP], "t1")
    assert {} == keys.held


def test_a_disabled_account_is_busy_for_everybody():
    keys = Keys(disabled={ACCOUNT: DisabledKey("ann", "on holiday", 1)})
    keys.park(ACCOUNT, BUCKET, (0, 1), "t1")
    assert (ACCOUNT, []) == (keys.busy([ACCOUNT], "t1"), keys.next_parked(ACCOUNT))


def test_the_first_of_each_bucket_comes_back_when_a_key_is_free():
    keys = Keys()
    keys.take([SHOP], "holder")
    for line, ticket, task in ((BUCKET, 3, "t3"), (BUCKET, 1, "t1"), (OTHER_BUCKET, 2, "t2")):
        keys.park(SHOP, line, (0, ticket), task)
    assert [] == keys.next_parked(SHOP)
    keys.free([SHOP], "holder")
    assert [["t1", "t2"], ["t3"], []] == [keys.next_parked(SHOP) for _ in range(3)]
    assert {} == keys.parked


def test_who_is_unparked_does_not_come_back():
    keys = Keys()
    keys.park(SHOP, BUCKET, (0, 1), "t1")
    keys.unpark(SHOP, BUCKET, (0, 1), "t1")
    keys.unpark(SHOP, BUCKET, (0, 1), "t1")
    assert ({}, []) == (keys.parked, keys.next_parked(SHOP))


def test_a_duplicate_is_one_of_the_same_account_and_type():
    keys = Keys()
    keys.queue("ann", "check", "t1")
    assert ("duplicate", "t1") == keys.duplicate("ann", "check", "t2")
    assert ("", "") == keys.duplicate("ann", "other", "t2") == keys.duplicate("", "check", "t2")
    assert ("", "") == keys.duplicate("ann", "check", "t1")
    keys.leave("ann", "check", "t1")
    keys.take([ACCOUNT], "t1")
    assert ("account_running", "t1") == keys.duplicate("ann", "other", "t2")
