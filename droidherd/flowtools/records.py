"""Records of accounts that no workflow keeps: for flows that are tried, and for tests of those that type secrets."""

from collections.abc import Mapping
from types import MappingProxyType

from droidherd.contracts.accounts import AccountRecord
from droidherd.credentials import CredentialStore

SOMEBODY = "somebody"
"""The account of a run that names none."""
NO_SECRETS: Mapping[str, str] = MappingProxyType({})


class Records:
    """One account, whose credentials are variables of the same names, and whoever is written down."""

    def __init__(self, secrets: Mapping[str, str] = NO_SECRETS, account: str = SOMEBODY) -> None:
        """`secrets`: of the account, by name, the texts themselves."""
        references = {name: f"env:{name}" for name in secrets}
        self._known = {account: AccountRecord(account=account, credentials=references)} if secrets else {}

    def write(self, record: AccountRecord) -> None:
        self._known[record.account] = record

    def read(self, account: str, *, fresh: bool = False) -> AccountRecord | None:  # noqa: ARG002 - the port's
        return self._known.get(account)


def credential_store(secrets: Mapping[str, str], account: str = SOMEBODY) -> CredentialStore:
    return CredentialStore(Records(secrets, account), secrets)
