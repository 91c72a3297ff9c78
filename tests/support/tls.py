"""A TLS proxy in front of a server that has none, and the papers to pass it."""

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Papers:
    """A certificate for both sides, and that of the authority which made it."""

    authority: Path
    certificate: Path
    key: Path


def papers(folder: Path) -> Papers:
    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    top, name = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in ("authority", "localhost"))
    loopback = x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))
    found = Papers(folder / "authority.pem", folder / "certificate.pem", folder / "key.pem")
    ca = _certificate(top, top, authority.public_key())
    ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    found.authority.write_bytes(_pem(ca.sign(authority, hashes.SHA256())))
    leaf = _certificate(top, name, own.public_key())
    leaf = leaf.add_extension(x509.SubjectAlternativeName([loopback]), critical=False)
    found.certificate.write_bytes(_pem(leaf.sign(authority, hashes.SHA256())))
    plain, unlocked = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    found.key.write_bytes(own.private_bytes(serialization.Encoding.PEM, plain, unlocked))
    return found


def _certificate(issuer: x509.Name, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    day, now = timedelta(days=1), datetime.now(UTC)
    number = x509.random_serial_number()
    return x509.CertificateBuilder(issuer, subject, key, number, now - day, now + day)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


@asynccontextmanager
async def tls_proxy(address: str, mine: Papers) -> AsyncGenerator[str]:
    """Lets those in who show the same papers; gives its own address."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(mine.authority))
    context.load_cert_chain(mine.certificate, mine.key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    host, _, port = address.rpartition(":")

    open_ones: set[asyncio.Task[None]] = set()

    async def through(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs, ours = await asyncio.open_connection(host, int(port))
        pours = [asyncio.create_task(_poured(*way)) for way in ((reader, ours), (theirs, writer))]
        open_ones.update(pours)
        await asyncio.wait(pours)

    server = await asyncio.start_server(through, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for one in open_ones:  # clients of the engine are never closed
            one.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)


async def _poured(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while piece := await source.read(PIECE):
            target.write(piece)
            await target.drain()
    except ConnectionError:
        pass  # its other half ends then as well
    finally:
        target.transport.abort()
