"""Credentials by reference: resolved on the worker when they are typed, and masked in everything that is kept."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol
from xml.sax.saxutils import escape

from droidherd.adb.quote import SPACE
from droidherd.contracts.accounts import AccountRecord
from droidherd.contracts.tasks import MASK
from droidherd.domain.errors import CredentialError, DroidherdError
from droidherd.domain.references import AllowedReferences
from droidherd.domain.text import visible
from droidherd.files.regular import read_regular

SIZE_MAX = 4_096
ANYWHERE = AllowedReferences()


class AccountReader(Protocol):
    """Reads the records of accounts."""

    def read(self, account: str, *, fresh: bool = False) -> AccountRecord | None:
        """None: the account has no record. `fresh`: bypass any cache."""
        ...


@dataclass(frozen=True, slots=True)
class CredentialStore:
    """Resolves the credentials of accounts on this machine."""

    accounts: AccountReader
    environment: Mapping[str, str]
    allowed: AllowedReferences = ANYWHERE

    def reveal(self, account: str, name: str) -> str:
        """The credential's text. CredentialError names the reference, never the text."""
        reference = self._reference(account, name)
        if remedy := self.allowed.refusal(reference):
            raise CredentialError("may not be read", to=reference, remedy=remedy)
        scheme, _, target = reference.partition(":")
        text = self._variable(target, reference) if scheme == "env" else self._file(Path(target), reference)
        if not text:
            raise CredentialError("is empty", to=reference)
        return text

    def _reference(self, account: str, name: str) -> str:
        for fresh in (False, True):
            record = self.accounts.read(account, fresh=fresh) if account else None
            if record is not None and name in record.credentials:
                return record.credentials[name]
        remedy = f"droidherd account set {account} --credential {name}=env:NAME" if account else "name an account"
        raise CredentialError(f"has no credential {name}", to=f"account {account}".strip(), remedy=remedy)

    def _variable(self, name: str, reference: str) -> str:
        if name not in self.environment:
            raise CredentialError(
                "is not set on this worker",
                to=reference,
                remedy="set it where the worker is started, and restart the worker",
            )
        return self.environment[name]

    def _file(self, path: Path, reference: str) -> str:
        """The file's text without the line end that editors leave."""
        directory = self.allowed.directory
        try:
            real = path.resolve(strict=True)
            if directory and not real.is_relative_to(Path(directory).resolve()):
                raise CredentialError("may not be read", to=reference, remedy=f"keep it below {directory}")
            content = read_regular(real, SIZE_MAX)
        except OSError as error:
            raise CredentialError(f"cannot be read on this worker: {error.strerror}", to=reference) from None
        try:
            return content.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise CredentialError("is not UTF-8", to=reference) from None


@dataclass(slots=True)
class Redactor:
    """Masks the secrets of one stage attempt in the texts it keeps and in errors that leave it.

    These are the credentials that it has typed, and its secret parameters.
    """

    store: CredentialStore
    account: str
    _secrets: list[str] = field(default_factory=list)

    def reveal(self, name: str) -> str:
        """The credential's text, which is masked from now on."""
        text = self.store.reveal(self.account, name)
        self.hide(text)
        return text

    def hide(self, text: str) -> None:
        """Mask this text from now on."""
        spellings = (
            text,
            text.replace(" ", SPACE),
            text.replace("'", "'\\''"),
            repr(text)[1:-1],
            json.dumps(text)[1:-1],
            escape(text, {'"': "&quot;"}),
            visible(text),
            base64.b64encode(text.encode()).decode(),  # as it goes to the keyboard that types any character
        )
        self._secrets = sorted({*self._secrets, *spellings}, key=len, reverse=True)

    def masked(self, text: str) -> str:
        """The text with every secret replaced, however the secret is spelt."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    def __enter__(self) -> None:
        """Nothing is revealed yet."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Mask the error that leaves, its causes and its contexts."""
        seen: list[BaseException] = []
        rest = [error]
        while rest:
            one = rest.pop()
            if one is None or any(one is other for other in seen):
                continue
            seen.append(one)
            self._mask(one)
            rest += [one.__cause__, one.__context__]

    def _mask(self, error: BaseException) -> None:
        error.args = tuple(self.masked(arg) if isinstance(arg, str) else arg for arg in error.args)
        if isinstance(error, DroidherdError):
            error.what, error.to, error.remedy = map(self.masked, (error.what, error.to, error.remedy))
