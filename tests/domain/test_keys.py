"""Names that a submission may not use, because something else lives by them."""

import pytest

from droidherd.domain.dispatch.keys import reserved, subscription_mutex


@pytest.mark.parametrize("name", [subscription_mutex("daily"), "subscription.", "subscription.a.b"])
def test_the_mutexes_of_subscriptions_are_theirs_and_the_refusal_says_so(name: str) -> None:
    assert "belong to the tasks of subscriptions; choose another name" in reserved(name)


@pytest.mark.parametrize(
    "name", ["shop", "subscription", "subscriptions.daily", "my.subscription.daily", "Subscription.x"]
)
def test_every_other_name_is_free(name: str) -> None:
    assert "" == reserved(name)
