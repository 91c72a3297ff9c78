"""Which addresses droidherd may send requests to: origins, named in the settings."""

import re
from dataclasses import dataclass
from typing import Self

import httpx

from droidherd.domain.errors import AddressRefusedError, BadParametersError

PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\]", re.ASCII)


@dataclass(frozen=True, slots=True)
class AllowedOrigin:
    """Scheme, host and port. A host that begins with `*.` means every host below that one, not itself."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Self:
        """From the settings. ValueError says what is wrong with it."""
        scheme, found, rest = text.strip().lower().partition("://")
        host, colon, port = rest.rstrip("/").rpartition(":")
        if not colon or port.endswith("]"):
            host, port = rest.rstrip("/"), str(PORTS.get(scheme, 0))
        if not found or scheme not in PORTS or not _HOST.fullmatch(host) or not port.isascii() or not port.isdigit():
            raise ValueError(f"{text!r} is not an origin: write https://files.example.com or http://*.example.com:8080")
        if not 0 < int(port) < 65_536:  # noqa: PLR2004 (ports have 16 bits)
            raise ValueError(f"{text!r} names no port between 1 and 65535")
        return cls(scheme, host.strip("[]"), int(port))

    def covers(self, other: "AllowedOrigin") -> bool:
        if (self.scheme, self.port) != (other.scheme, other.port):
            return False
        if self.host.startswith("*."):
            return other.host.endswith(self.host[1:])
        return other.host == self.host


@dataclass(frozen=True, slots=True)
class AllowList:
    """The origins of the settings. Empty: nothing is allowed."""

    origins: tuple[AllowedOrigin, ...]

    @classmethod
    def of(cls, texts: tuple[str, ...]) -> Self:
        return cls(tuple(AllowedOrigin.of(text) for text in texts))

    def check(self, url: str) -> httpx.URL:
        """The address as it will be requested. It is read once, by who sends the request."""
        if not url.isprintable():
            raise BadParametersError("an address holds characters that cannot be seen", to="url")
        try:
            parsed = httpx.URL(url)
            host = parsed.host  # decoded only now: an internationalised name may be none
        except (httpx.InvalidURL, UnicodeError) as error:
            raise BadParametersError(f"not an address: {error}", to="url") from error
        if parsed.scheme not in PORTS or not host:
            raise BadParametersError("not an address: it begins with http:// or https:// and a host", to="url")
        if parsed.userinfo:
            raise BadParametersError(
                "an address holds no user and no password", to=without_query(parsed), remedy="send a header"
            )
        origin = AllowedOrigin(
            parsed.scheme, parsed.raw_host.decode("ascii").lower().rstrip(".").strip("[]"), _port(parsed)
        )
        if not any(allowed.covers(origin) for allowed in self.origins):
            at = f"{origin.scheme}://{origin.host}:{origin.port}"
            raise AddressRefusedError(
                f"{at} is not in `web.allow`", to=without_query(parsed), remedy="add the origin there"
            )
        return parsed


def without_query(url: httpx.URL) -> str:
    """For people and logs: without the query, which may hold secrets."""
    return f"{url.scheme}://{url.netloc.decode('ascii').rpartition('@')[2]}{url.path}"[:200]


def _port(url: httpx.URL) -> int:
    return url.port or PORTS[url.scheme]
