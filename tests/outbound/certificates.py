"""A certificate authority that only the tests trust."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

DAY = timedelta(days=1)


class Authority:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Test authority")])
        self._name = name
        builder = _certificate(name, issuer=name, key=self._key, until=datetime.now(UTC) + DAY)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self._certificate = builder.sign(self._key, SHA256())

    def client_context(self) -> ssl.SSLContext:
        """As the system's, but for this authority."""
        return ssl.create_default_context(cadata=self._certificate.public_bytes(Encoding.PEM).decode())

    def server_context(self, host: str, *, until: datetime | None = None) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "receiver")])
        builder = _certificate(subject, issuer=self._name, key=key, until=until or datetime.now(UTC) + DAY)
        builder = builder.add_extension(x509.SubjectAlternativeName([_name_of(host)]), critical=False)
        path = self._folder / f"{host}.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.write_bytes(private + builder.sign(self._key, SHA256()).public_bytes(Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


def _certificate(
    subject: x509.Name, *, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(until - 30 * DAY)
        .not_valid_after(until)
    )


def _name_of(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
