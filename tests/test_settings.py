"""Every setting comes from the environment, and a wrong one is named without being repeated."""

from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from billhook.errors import Refusal
from billhook.settings import PREFIX, Settings, read_settings


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


GIVEN: dict[str, tuple[str, object]] = {
    "DATA_DIR": ("/srv/billhook", Path("/srv/billhook")),
    "DATABASE_URL": ("postgresql://u:hunter2@host/x", SecretStr("postgresql://u:hunter2@host/x")),
    "BASE_URL": (" https://api.example.com/finops/ ", "https://api.example.com/finops"),
    "HOST": ("0.0.0.0", "0.0.0.0"),
    "PORT": ("9000", 9000),
    "MASTER_KEY": ("k" * 40, SecretStr("k" * 40)),
    "OTHER_MASTER_KEY": ("o" * 40, SecretStr("o" * 40)),
    "TRUSTED_PROXIES": ("10.0.0.0/8, ::1,", (ip_network("10.0.0.0/8"), ip_network("::1"))),
    "OUTBOUND_ALLOW": ("127.0.0.0/8", (ip_network("127.0.0.0/8"),)),
    "RETRY_SCHEDULE": ("10s, 2m,1h,0.5s", (seconds(10), seconds(120), seconds(3600), seconds(0.5))),
    "MAX_GROUPS": ("7", 7),
    "MAX_PROVIDERS": ("8", 8),
    "IN_FLIGHT_PER_PROVIDER": ("3", 3),
    "IN_FLIGHT_PER_ORGANIZATION": ("30", 30),
    "IN_FLIGHT_PER_PROCESS": ("300", 300),
    "RETENTION_DAYS": ("90", 90),
    "LOG_LEVEL": ("WARNING", "warning"),
    "LOG_FORMAT": ("Json", "json"),
}

REFUSED: list[tuple[str, str]] = [
    ("PORT", "no-number"),
    ("PORT", "65536"),
    ("PORT", "-1"),
    ("PORT", ""),
    ("BASE_URL", "api.example.com"),
    ("BASE_URL", "ftp://example.com"),
    ("BASE_URL", "https://"),
    ("BASE_URL", "https://example.com/?hunter2=1"),
    ("BASE_URL", "https://example.com/#hunter2"),
    ("BASE_URL", "https://ada:hunter2@example.com"),
    ("BASE_URL", "https://[::1"),
    ("TRUSTED_PROXIES", "10.0.0.1/8"),
    ("TRUSTED_PROXIES", "somewhere"),
    ("OUTBOUND_ALLOW", "here"),
    ("RETRY_SCHEDULE", ""),
    ("RETRY_SCHEDULE", "10"),
    ("RETRY_SCHEDULE", "-1s"),
    ("RETRY_SCHEDULE", "8d"),
    ("RETRY_SCHEDULE", ",".join(["1s"] * 51)),
    ("IN_FLIGHT_PER_PROVIDER", "0"),
    ("RETENTION_DAYS", "0"),
    ("LOG_LEVEL", "loud"),
    ("LOG_FORMAT", "xml"),
]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(PREFIX + name.upper(), raising=False)


def test_every_setting_is_tried_here() -> None:
    assert {name.lower() for name in GIVEN} == set(Settings.model_fields)


@pytest.mark.parametrize("name", GIVEN)
def test_each_setting_comes_from_its_variable(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    text, value = GIVEN[name]
    monkeypatch.setenv(PREFIX + name, text)
    assert getattr(read_settings(), name.lower()) == value


def test_nothing_needs_to_be_set() -> None:
    settings = read_settings()
    assert (settings.host, settings.port, settings.base_url) == ("127.0.0.1", 8080, "")
    assert settings.database_location == "sqlite:///billhook-data/billhook.db"
    assert settings.master_key_file == Path("billhook-data/master.key")


def test_what_is_not_a_setting_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BILLHOOK_SOMETHING_ELSE", "1")
    monkeypatch.setenv("PORT", "1")
    assert read_settings().port == 8080


@pytest.mark.parametrize(("name", "text"), REFUSED)
def test_a_wrong_value_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv(PREFIX + name, text)
    with pytest.raises(Refusal) as refused:
        read_settings()
    assert refused.value.message.startswith(f"{PREFIX}{name}: ")
    assert "\n" not in refused.value.message
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize("text", ["https://example.com:port", "https://example.com:99999"])
def test_a_base_url_with_an_impossible_port_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("BILLHOOK_BASE_URL", text)
    with pytest.raises(Refusal, match="BILLHOOK_BASE_URL"):
        read_settings()


def test_no_error_and_no_picture_of_the_settings_shows_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BILLHOOK_MASTER_KEY", "hunter2" * 6)
    monkeypatch.setenv("BILLHOOK_DATABASE_URL", "postgresql://u:hunter2@host/x")
    settings = read_settings()
    assert "hunter2" not in f"{settings!r} {settings}"
    monkeypatch.setenv("BILLHOOK_PORT", "no")
    with pytest.raises(ValidationError) as invalid:
        Settings()
    assert "hunter2" not in str(invalid.value)


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(Settings(), "port", 1)  # noqa: B010 - the type checker would refuse it as well


def test_every_setting_says_what_it_is_for() -> None:
    assert all(field.description for field in Settings.model_fields.values())


@pytest.mark.parametrize(
    ("base_url", "prefix"),
    [("", ""), ("https://x.example", ""), ("https://x.example/a", "/a"), ("https://x.example/a/b/", "/a/b")],
)
def test_the_path_of_the_base_url_is_the_prefix(base_url: str, prefix: str) -> None:
    assert Settings(base_url=base_url).path_prefix == prefix


@pytest.mark.parametrize(
    ("host", "base_url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8001"),
        ("0.0.0.0", "http://localhost:8001"),
        ("::", "http://localhost:8001"),
        ("::1", "http://[::1]:8001"),
    ],
)
def test_without_a_base_url_the_bound_address_is_it(host: str, base_url: str) -> None:
    bound = Settings().listening_on(host, 8001)
    assert (bound.host, bound.port, bound.base_url) == (host, 8001, base_url)


def test_a_base_url_that_was_set_stays() -> None:
    assert Settings(base_url="https://x.example").listening_on("::", 1).base_url == "https://x.example"
