"""What the settings say about the world around."""

from typing import Any

import pytest

from billhook.cli.doctor import surroundings
from billhook.settings import Settings


def settings(**given: Any) -> Settings:
    return Settings(**given)


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({}, "well"),
        ({"host": "0.0.0.0"}, "well"),
        ({"host": "8.8.8.8"}, "notice"),
        ({"base_url": "https://billhook.example.com"}, "well"),
        ({"base_url": "http://localhost:8080"}, "well"),
        ({"base_url": "http://10.1.2.3"}, "well"),
        ({"base_url": "http://billhook.internal"}, "well"),
        ({"base_url": "http://billhook"}, "well"),
        ({"base_url": "http://billhook.example.com/hub"}, "problem"),
        ({"base_url": "http://8.8.8.8"}, "problem"),
    ],
)
def test_the_base_url_is_https_where_others_can_listen(given: dict[str, Any], state: str) -> None:
    assert surroundings.base_url(settings(**given)).state == state


def test_the_fix_of_the_base_url_can_be_copied() -> None:
    fix = surroundings.base_url(settings(base_url="http://billhook.example.com/hub")).fix
    assert fix is not None
    assert "BILLHOOK_BASE_URL=https://billhook.example.com/hub" in fix


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ({}, "well"),
        ({"trusted_proxies": "10.0.0.0/8, ::1"}, "well"),
        ({"base_url": "https://billhook.example.com"}, "notice"),
        ({"base_url": "https://billhook.example.com", "trusted_proxies": "127.0.0.1/32"}, "well"),
        ({"trusted_proxies": "0.0.0.0/0"}, "problem"),
        ({"trusted_proxies": "10.0.0.1/32, ::/0"}, "problem"),
    ],
)
def test_only_proxies_are_trusted(given: dict[str, Any], state: str) -> None:
    assert surroundings.proxies(settings(**given)).state == state


@pytest.mark.parametrize(
    ("allow", "state"),
    [("", "well"), ("127.0.0.0/8", "well"), ("169.254.0.0/16", "problem"), ("0.0.0.0/0", "problem")],
)
def test_webhooks_must_not_reach_the_credentials_of_a_cloud(allow: str, state: str) -> None:
    assert surroundings.allowed_networks(settings(outbound_allow=allow)).state == state
