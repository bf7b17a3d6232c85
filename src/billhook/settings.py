"""Every setting with its default and its meaning; the only reader of the environment."""

import re
from datetime import timedelta
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from billhook.errors import Refusal

PREFIX = "BILLHOOK_"
Network = IPv4Network | IPv6Network


def parse_networks(text: object) -> object:
    """`10.0.0.0/8, ::1` to networks; anything that is not text is left to pydantic."""
    if not isinstance(text, str):
        return text
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


def parse_base_url(text: object) -> object:
    if not isinstance(text, str) or not text:
        return text
    parts = urlsplit(text.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:  # .port refuses what is none
        raise ValueError("must be an http or https URL with a host, such as https://billhook.example.com")
    if parts.query or parts.fragment or parts.username:
        raise ValueError("must have no query, no fragment and no user name")
    if not re.fullmatch(r"[A-Za-z0-9._~/-]*", parts.path):
        raise ValueError("must have a path of letters, digits and ._~- only")
    return text.strip().rstrip("/")


DEFAULT_SCHEDULE = "10s,30s,2m,10m,30m,1h,2h,4h,8h,12h,20h,24h"  # 13 attempts over three days
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST_STEP = timedelta(days=7)
MOST_STEPS = 50


def parse_schedule(text: object) -> object:
    """`10s,30s,2m` to durations."""
    if not isinstance(text, str):
        return text
    steps = tuple(_parse_step(part.strip()) for part in text.split(",") if part.strip())
    if not 1 <= len(steps) <= MOST_STEPS:
        raise ValueError(f"must have 1 to {MOST_STEPS} steps, such as 10s,30s,2m")
    return steps


def _parse_step(text: str) -> timedelta:
    form = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smhd])", text)
    step = timedelta(seconds=float(form[1]) * UNITS[form[2]]) if form else None
    if step is None or step > LONGEST_STEP:
        raise ValueError(f"{text!r} is no duration such as 10s, 2m, 1h or 1d, of at most 7d")
    return step


Schedule = Annotated[tuple[timedelta, ...], NoDecode, BeforeValidator(parse_schedule)]
Networks = Annotated[tuple[Network, ...], NoDecode, BeforeValidator(parse_networks)]
Lowered = BeforeValidator(lambda text: text.lower() if isinstance(text, str) else text)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore", hide_input_in_errors=True)

    data_dir: Path = Field(
        default=Path("billhook-data"),
        description="Folder of the installation: the SQLite database file and the master key.",
    )
    database_url: SecretStr = Field(
        default=SecretStr(""),
        description="Where everything is kept. Empty: the SQLite file `billhook.db` in `DATA_DIR`. "
        "`postgresql://user:password@host/name` is taken as people write it.",
    )
    base_url: Annotated[str, BeforeValidator(parse_base_url)] = Field(
        default="",
        description="What the world calls this service: issuer and audience of its tokens. A path in it is the prefix "
        "that everything is served under. Empty: `http://HOST:PORT`.",
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    master_key: SecretStr = Field(
        default=SecretStr(""),
        description="The secret that everything stored is protected with: at least 32 characters, best from "
        "`openssl rand -base64 32`. Empty: the file `master.key` in `DATA_DIR`, which is made on first start.",
    )
    other_master_key: SecretStr = Field(
        default=SecretStr(""),
        description="While the master key is rotated: the other one of the two. What is stored is read with either "
        "and written with `MASTER_KEY`.",
    )
    trusted_proxies: Networks = Field(
        default=(),
        description="Comma-separated networks of reverse proxies whose `X-Forwarded-For` is believed.",
    )
    outbound_allow: Networks = Field(
        default=(),
        description="Comma-separated networks that a webhook may reach although they are private, such as "
        "`127.0.0.0/8`. Empty: only public addresses.",
    )
    retry_schedule: Schedule = Field(
        default=DEFAULT_SCHEDULE,
        validate_default=True,
        description="How long to wait before each further attempt of a delivery that failed.",
    )
    max_groups: int = Field(default=100, ge=1, le=100_000, description="Notification groups an organization may have.")
    max_providers: int = Field(default=20, ge=1, le=1000, description="Providers a group may have.")
    in_flight_per_provider: int = Field(
        default=10, ge=1, le=1000, description="Requests to one provider that may be under way at once."
    )
    in_flight_per_organization: int = Field(
        default=50, ge=1, le=10_000, description="Requests of one organization that may be under way at once."
    )
    in_flight_per_process: int = Field(
        default=500, ge=1, le=10_000, description="Requests that one worker may have under way at once."
    )
    retention_days: int = Field(
        default=30, ge=1, le=3650, description="How long finished deliveries and their attempts are kept."
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Lowered] = Field(
        default="info", description="The least important lines that are still logged."
    )
    log_format: Annotated[Literal["auto", "json", "console"], Lowered] = Field(
        default="auto", description="`json` for machines, `console` for people, `auto`: people when on a terminal."
    )

    @cached_property
    def database_location(self) -> str:
        return self.database_url.get_secret_value() or f"sqlite:///{self.data_dir / 'billhook.db'}"

    @cached_property
    def master_key_file(self) -> Path:
        return self.data_dir / "master.key"

    @property
    def path_prefix(self) -> str:
        return urlsplit(self.base_url).path.rstrip("/")

    @classmethod
    def whatever_is_set(cls, **wanted: Any) -> "Settings":
        """Defaults but for what is wanted: nothing that the person has set for an installation of theirs counts."""
        return cls(**({name: field.default for name, field in cls.model_fields.items()} | wanted))

    def listening_on(self, host: str, port: int) -> "Settings":
        """The same settings with the address that was really bound, and a base URL if none was set."""
        named = "localhost" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host  # noqa: S104
        base_url = self.base_url or f"http://{named}:{port}"
        return self.model_copy(update={"host": host, "port": port, "base_url": base_url})


def read_settings() -> Settings:
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = PREFIX + str(first["loc"][0]).upper()
        raise Refusal(f"{name}: {first['msg'].removeprefix('Value error, ')}") from None
