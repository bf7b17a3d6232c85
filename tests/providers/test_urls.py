"""Receivers' addresses: what is refused, and the form in which the rest is sent."""

from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billhook.errors import InvalidParameters
from billhook.outbound.target import parse_target
from billhook.providers.kinds import Message
from billhook.providers.urls import LONGEST_SENT, LONGEST_URL, origin, sendable, valid_url, with_query

SENT = [
    ("https://example.com/hook", "https://example.com/hook"),
    ("http://example.com", "http://example.com/"),
    ("HTTPS://Example.COM/Hook", "https://example.com/Hook"),
    ("https://example.com:8443/", "https://example.com:8443/"),
    ("https://example.com:/", "https://example.com/"),
    ("https://example.com./", "https://example.com./"),
    ("https://example.com?a=1", "https://example.com/?a=1"),
    ("https://example.com/a%20b/%zz/%E4?q=%2F+x", "https://example.com/a%20b/%zz/%E4?q=%2F+x"),
    ("https://example.com/ü?q=é€", "https://example.com/%C3%BC?q=%C3%A9%E2%82%AC"),
    ("https://münchen.de/", "https://xn--mnchen-3ya.de/"),
    ("https://MÜNCHEN.de/", "https://xn--mnchen-3ya.de/"),
    ("https://例え。jp/", "https://xn--r8jz45g.jp/"),
    ("https://xn--mnchen-3ya.de/", "https://xn--mnchen-3ya.de/"),
    ("https://localhost/", "https://localhost/"),
    ("http://my_service:9000/", "http://my_service:9000/"),
    ("http://127.0.0.1:8000/", "http://127.0.0.1:8000/"),
    ("http://10.1.2.3/", "http://10.1.2.3/"),
    ("http://[::1]:80/", "http://[::1]:80/"),
    ("http://[2001:DB8::0:1]/", "http://[2001:db8::1]/"),
    ("http://1.2.3.4.example/", "http://1.2.3.4.example/"),
    ("https://example.com/a:b@c;d=1,e!$&'()*", "https://example.com/a:b@c;d=1,e!$&'()*"),
    ("https://example.com/?a=http://x/?y", "https://example.com/?a=http://x/?y"),
    ("  https://example.com/  ", "https://example.com/"),
]


@pytest.mark.parametrize(("written", "sent"), SENT)
def test_a_url_is_kept_as_written_and_sent_in_ascii(written: str, sent: str) -> None:
    assert valid_url(written) == written.strip()
    assert sendable(valid_url(written)) == sent


@pytest.mark.parametrize(
    ("url", "reached"),
    [
        ("https://example.com/a?b=c", ("https", "example.com", 443)),
        ("HTTP://Example.COM:/", ("http", "example.com", 80)),
        ("https://münchen.de:8443", ("https", "xn--mnchen-3ya.de", 8443)),
        ("http://[2001:DB8::0:1]:80/", ("http", "2001:db8::1", 80)),
    ],
)
def test_who_is_reached_is_known_by_scheme_host_and_port(url: str, reached: tuple[str, str, int]) -> None:
    assert origin(url) == reached


@pytest.mark.parametrize(("written", "sent"), SENT)
def test_the_network_reads_what_is_sent_as_it_stands(written: str, sent: str) -> None:
    target = parse_target(sent)
    assert target.raw_host == urlsplit(sent).hostname
    assert sent.endswith(target.raw_path_qs)


REFUSED = [
    ("", "enter the address"),
    ("   ", "enter the address"),
    ("x" * (LONGEST_URL + 1), "characters"),
    ("https://example.com/" + "x" * (LONGEST_URL - 19), "characters"),
    ("https://example.com/" + "€" * 1000, "bytes"),
    ("example.com/hook", "must begin with"),
    ("//example.com/", "must begin with"),
    ("ftp://example.com/", "must begin with"),
    ("file:///etc/passwd", "must begin with"),
    ("javascript:alert(1)", "must begin with"),
    ("https:example.com", "must begin with"),
    ("https:/example.com", "must begin with"),
    ("https:///hook", "host"),
    ("https://", "host"),
    ("https://:443/", "host"),
    ("https://?a=1", "host"),
    ("https://example.com:0/", "port"),
    ("https://example.com:65536/", "port"),
    ("https://example.com:-1/", "port"),
    ("https://example.com:http/", "port"),
    ("https://example.com:١/", "port"),
    ("https://user:secret@example.com/", "user name"),
    ("https://user@example.com/", "user name"),
    ("https://@example.com/", "user name"),
    ("https://example.com/#top", "fragment"),
    ("https://example.com/#", "fragment"),
    ("https://example.com/a b", "spaces"),
    ("https://exam ple.com/", "spaces"),
    ("https://example.com/\t", "control"),
    ("https://example.com/\r\nX-Evil: 1", "control"),
    ("https://example.com/\n", "control"),
    ("https://example.com/\x00", "control"),
    ("https://example.com/\x7f", "control"),
    ("https://example.com/\x85", "control"),
    ("https://example.com/\u2028", "spaces"),
    ("https://example.com/\u00a0", "spaces"),
    ("https://example.com/\ud800", "control"),
    ("https://example.com\\@evil.example/", "backslash"),
    ("http://127.1/", "IPv4"),
    ("http://127.1./", "IPv4"),
    ("http://0x7f.1/", "IPv4"),
    ("http://0x7f.0.0.0x1./", "IPv4"),
    ("http://0x/", "IPv4"),
    ("http://2130706433/", "IPv4"),
    ("http://2130706433./", "IPv4"),
    ("http://0177.0.0.1/", "IPv4"),
    ("http://127.0.0.01/", "IPv4"),
    ("http://127.0.0.1./", "IPv4"),
    ("http://127.0.0.256/", "IPv4"),
    ("http://1.2.3.4.5/", "IPv4"),
    ("http://0/", "IPv4"),
    ("http://１２７.0.0.1/", "IPv4"),
    ("http://①②⑦.1/", "IPv4"),
    ("http://[::1%25eth0]/", "zone"),
    ("http://[fe80::1%eth0]/", "zone"),
    ("http://[::1/", "host"),
    ("http://[]/", "host"),
    ("http://[v1.x]/", "IPv6"),
    ("http://[127.0.0.1]/", "host"),
    ("https://exa%6dple.com/", "host"),
    ("https://a..b/", "host"),
    ("https://.example.com/", "host"),
    ("https://example.com../", "host"),
    ("https://-a.example/", "host"),
    ("https://a-.example/", "host"),
    ("https://" + "a" * 64 + ".example/", "host"),
    ("https://" + "a." * 127 + "example/", "host"),
    ("https://i❤.example/", "xn--"),
    ("https://" + "ü" * 64 + ".example/", "host"),
    ("https://exam℀ple.com/", "host"),
    ("https://a!b.example/", "host"),
]


@pytest.mark.parametrize(("written", "reason"), REFUSED)
def test_what_is_no_address_is_refused_and_named(written: str, reason: str) -> None:
    with pytest.raises(InvalidParameters, match=reason) as refused:
        valid_url(written)
    assert [error.field for error in refused.value.errors] == ["server_url"]


def test_no_message_repeats_the_url() -> None:
    for written, _ in REFUSED:
        if len(written) > 12 and "xn--" not in written:
            with pytest.raises(InvalidParameters) as refused:
                valid_url(written)
            assert written not in refused.value.message


def test_the_longest_url_is_valid() -> None:
    url = "https://example.com/".ljust(LONGEST_URL, "x")
    assert sendable(valid_url(url)) == url


OWN_QUERIES = [
    ("https://x.example/h", "https://x.example/h?title=a&content=b"),
    ("https://x.example", "https://x.example/?title=a&content=b"),
    ("https://x.example/h?", "https://x.example/h?title=a&content=b"),
    ("https://x.example/h?k=1", "https://x.example/h?k=1&title=a&content=b"),
    ("https://x.example/h?k=1&", "https://x.example/h?k=1&title=a&content=b"),
    ("https://x.example/h?flag", "https://x.example/h?flag&title=a&content=b"),
    ("https://x.example/h?b=%20+&a=%2f&b=2", "https://x.example/h?b=%20+&a=%2f&b=2&title=a&content=b"),
    ("https://x.example/h?title=mine", "https://x.example/h?title=mine&title=a&content=b"),
    ("https://x.example/h?q=a?b", "https://x.example/h?q=a?b&title=a&content=b"),
]


@pytest.mark.parametrize(("url", "sent"), OWN_QUERIES)
def test_the_message_comes_behind_the_urls_own_query(url: str, sent: str) -> None:
    assert with_query(valid_url(url), Message("a", "b")) == sent


def test_everything_but_the_unreserved_is_encoded() -> None:
    sent = with_query("https://x.example/", Message("a b+c&d=e/f?g#h%", "Grüße\n~-._"))
    assert sent == ("https://x.example/?title=a%20b%2Bc%26d%3De%2Ff%3Fg%23h%25&content=Gr%C3%BC%C3%9Fe%0A~-._")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


@given(texts, texts)
def test_a_receiver_reads_back_what_was_sent(title: str, content: str) -> None:
    query = urlsplit(with_query("https://x.example/?k=%20v", Message(title, content))).query
    pairs = parse_qsl(query, keep_blank_values=True)
    assert pairs == [("k", " v"), ("title", title), ("content", content)]
    assert [unquote(part.partition("=")[2]) for part in query.split("&")[1:]] == [title, content]


@given(st.text(max_size=60), st.sampled_from(["https://", "http://", "https://x.example/", "https://[", ""]))
def test_whatever_is_written_is_refused_or_sent_as_the_network_reads_it(text: str, prefix: str) -> None:
    try:
        sent = sendable(valid_url(prefix + text))
    except InvalidParameters as refused:
        assert {error.field for error in refused.errors} == {"server_url"}
        return
    assert sent.isascii()
    assert len(sent) <= LONGEST_SENT
    assert sendable(sent) == sent
    assert parse_target(sent).raw_host == urlsplit(sent).hostname
