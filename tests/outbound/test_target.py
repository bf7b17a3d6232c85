"""URLs that may be sent to, unchanged, and those that readers of URLs disagree about."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.outbound.target import BadUrl, parse_target


@pytest.mark.parametrize(
    ("url", "host", "port", "sent"),
    [
        ("http://example.com", "example.com", 80, "/"),
        ("https://example.com/hook", "example.com", 443, "/hook"),
        ("https://example.com:8443?a=1", "example.com", 8443, "/?a=1"),
        (
            "https://example.com/a%20b/%E2%82%AC?x=%2B+&x=1&&y#part",
            "example.com",
            443,
            "/a%20b/%E2%82%AC?x=%2B+&x=1&&y",
        ),
        ("https://example.com/../a/./b//c?q=a'b!*()", "example.com", 443, "/../a/./b//c?q=a'b!*()"),
        ("https://under_score.example.com./", "under_score.example.com.", 443, "/"),
        ("https://münchen.example/%C3%BC", "xn--mnchen-3ya.example", 443, "/%C3%BC"),
        ("http://[2001:db8::1]:81/", "2001:db8::1", 81, "/"),
        ("http://127.0.0.1/", "127.0.0.1", 80, "/"),
        ("http://1e100.net/", "1e100.net", 80, "/"),
    ],
)
def test_a_good_url_is_sent_byte_for_byte(url: str, host: str, port: int, sent: str) -> None:
    parsed = parse_target(url)
    assert (parsed.raw_host, parsed.port, parsed.raw_path_qs) == (host, port, sent)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com/",
        "http://",
        "http:///path",
        "ftp://example.com/",
        "ws://example.com/",
        "tcp://example.com/",
        "file:///etc/passwd",
        "http://user@example.com/",
        "http://user:password@example.com/",
        "http://example.com\\@evil.test/",
        "http://example.com /",
        "http://example.com/a b",
        "http://example.com/\r\nX: y",
        "http://example.com/\x00",
        "http://example.com/ü",
        "http://example.com/?q=ü",
        "http://example.com:0/",
        "http://example.com:65536/",
        "http://example.com:http/",
        "http://2130706433/",
        "http://127.1/",
        "http://127.0.0.1./",
        "http://0x7f.1/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.0.0.0x1/",
        "http://1.2.3.4.5/",
        "http://256.1.1.1/",
        "http://127%2e0.0.1/",
        "http://[::1%25lo]/",
        "http://[fe80::1%eth0]/",
        "http://[::1/",
        "http://[example.com]/",
        "http://" + "a" * 64 + ".example/",
        "http://" + "a." * 127 + "example/",
        "http://a..example/",
        "http://.example/",
        "http://xn--\ud800.example/",
        "http://\u2488.example/",
        "http://exa\u200bmple\u3002\u3002com/",
    ],
)
def test_a_url_that_can_be_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(BadUrl):
        parse_target(url)


def test_digits_of_other_scripts_are_read_as_what_they_mean() -> None:
    assert parse_target("http://１２７.0.0.1/").raw_host == "127.0.0.1"


@given(st.text())
def test_any_text_is_a_url_or_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"https://{text}/", f"http://example.com/{text}", f"http://example.com:{text}"):
        try:
            parsed = parse_target(url)
        except BadUrl as refusal:
            assert refusal.args == ("the URL cannot be used",)
        else:
            assert str(parsed.raw_host).isascii() and parsed.raw_path_qs.isascii()
