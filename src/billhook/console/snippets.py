"""How a receiver verifies what it gets, in code that can be copied; the tests run it."""

from dataclasses import dataclass

PYTHON_POST = '''\
# pip install standardwebhooks
import os

from standardwebhooks import Webhook

webhook = Webhook(os.environ["WEBHOOK_SECRET"])


def notification(headers: dict[str, str], body: bytes) -> dict[str, str]:
    """`body` as it came. An exception means: it is not genuine, or older than five minutes."""
    return webhook.verify(body, headers)
'''

PYTHON_GET = '''\
import base64
import hmac
import os
import time
from urllib.parse import parse_qs

key = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))


def notification(headers: dict[str, str], query: str) -> dict[str, str]:
    """Names of headers in lower case; `query` as it came, all behind the first "?"."""
    sent_at = headers.get("webhook-timestamp", "0")
    if abs(time.time() - int(sent_at)) > 300:
        raise ValueError("older than five minutes")
    signed = f"{headers.get('webhook-id')}.{sent_at}.{query}".encode()
    expected = b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256"))
    given = headers.get("webhook-signature", "").encode().split()
    if not any(hmac.compare_digest(expected, one) for one in given):
        raise ValueError("not genuine")
    said = parse_qs(query, keep_blank_values=True)
    return {"title": said["title"][-1], "content": said["content"][-1]}
'''

NODE = """\
import {{ createHmac, timingSafeEqual }} from "node:crypto";

const key = Buffer.from(process.env.WEBHOOK_SECRET.replace("whsec_", ""), "base64");

// {payload_help}
export function notification(headers, {payload}) {{
  const sentAt = headers["webhook-timestamp"];
  if (!(Math.abs(Date.now() / 1000 - Number(sentAt)) <= 300)) throw new Error("older than five minutes");
  const signed = createHmac("sha256", key).update(`${{headers["webhook-id"]}}.${{sentAt}}.`).update({payload});
  const expected = signed.digest();
  const isGenuine = (headers["webhook-signature"] ?? "").split(" ").some((one) => {{
    const given = Buffer.from(one.replace("v1,", ""), "base64");
    return given.length === expected.length && timingSafeEqual(given, expected);
  }});
  if (!isGenuine) throw new Error("not genuine");
{result}
}}
"""

NODE_POST = NODE.format(
    payload="body",
    payload_help="`body` is the raw body, a Buffer or a string: take it before anything parses it.",
    result="  return JSON.parse(body);",
)
NODE_GET = NODE.format(
    payload="query",
    payload_help="`query` is a string, as it came: all of the request's URL behind the first `?`.",
    result="""\
  const said = new URLSearchParams(query);
  return { title: said.getAll("title").at(-1), content: said.getAll("content").at(-1) };""",
)

PAYLOAD = {
    "POST": "the body, byte for byte as it came",
    "GET": "the query string, exactly as it came: all behind the first “?”, not decoded",
}


@dataclass(frozen=True)
class Snippet:
    id: str
    language: str
    code: str


def snippets_for(method: str) -> list[Snippet]:
    codes = (PYTHON_GET, NODE_GET) if method == "GET" else (PYTHON_POST, NODE_POST)
    return [Snippet("python", "Python", codes[0]), Snippet("node", "Node", codes[1])]


def scheme_for(method: str) -> list[str]:
    """The same in words, step by step."""
    return [
        "Join webhook-id, webhook-timestamp and " + PAYLOAD[method] + ", with a dot between them.",
        "The key is the signing secret without “whsec_”, decoded from base64.",
        "HMAC-SHA256 of the joined text under this key, encoded in base64, is the signature.",
        "webhook-signature has one or more of them, each after “v1,”, with a space between. One that is equal is "
        "enough; compare in constant time. There are two for 24 hours after a rotation.",
        "Refuse a webhook-timestamp (Unix seconds) that is more than five minutes from now.",
        "A webhook-id that you have seen already is the same delivery, tried again: answer 2xx and do nothing more.",
    ]
