"""Why an attempt came to nothing, in plain words, and what to do about it. Pure."""

from dataclasses import dataclass
from http import HTTPStatus

from billhook.delivery.holding import HELD_TOO_LONG
from billhook.delivery.retry import Result
from billhook.outbound.request import ERRORS


@dataclass(frozen=True)
class Reason:
    what: str
    advice: str


ADVICE = {
    "bad_url": "Correct the server URL of the provider.",
    "bad_response": "Check that the server URL leads to a web server, that its port is right, and that https is not "
    "written as http.",
    "blocked_address": "Networks that are private, local or reserved cannot be reached from here. Use a public "
    "address, or ask whoever runs Billhook to add this network to BILLHOOK_OUTBOUND_ALLOW.",
    "connection_refused": "Nothing listens there. Check the port in the server URL, and that the receiver is running.",
    "connection_reset": "Look into the log of the receiver: it, or a proxy before it, hung up while it was working.",
    "dns_error": "Check the spelling of the host in the server URL, and that its name is published in DNS.",
    "network_error": "Check that the receiver can be reached from outside its own network.",
    "network_unreachable": "Check that the receiver has a public address, and that Billhook's machine has a way out.",
    "timeout": "A receiver has 15 seconds. Let it answer 2xx at once and do its work afterwards; if it never "
    "answers, check its firewall.",
    "tls_error": "Check that the receiver's certificate has not expired, is made out to the host in the server URL, "
    "and comes with its whole chain.",
}

HELD = Reason(
    "It was held for 7 days while the provider was paused or disabled.",
    "Resume the provider, then deliver again.",
)

BY_STATUS = {
    400: ("could not read the request", "Compare the request with what the receiver expects."),
    401: ("wants to know who is calling", "Check the request headers of the provider, such as Authorization."),
    403: ("does not let Billhook in", "Check the request headers of the provider, and whom the receiver admits."),
    404: ("has nothing at this address", "Check the path of the server URL."),
    405: ("does not take this request method", "Change the request method of the provider: GET or POST."),
    406: ("cannot answer in a form we accept", "Let the receiver answer 2xx, whatever the request accepts."),
    408: ("waited too long for the request", "Look at the proxies before the receiver."),
    409: ("says that it conflicts with what it has", "If it has seen this webhook-id before, let it answer 2xx."),
    410: ("is gone for good", "Correct the server URL. A delivery that gets this answer disables the provider."),
    413: ("finds the notification too large", "Raise the receiver's limit: a content may have 32 KiB."),
    414: ("finds the URL too long", "Choose POST, which puts the notification into the body."),
    415: ("does not take this kind of body", "Let it take application/json, or choose GET, which has no body."),
    422: ("understood the request but not what it says", "Let it expect an object with title and content."),
    429: ("asks for fewer requests", "Deliveries wait until it is ready. A rate limit on the provider avoids this."),
    431: ("finds the headers too large", "Shorten the request headers of the provider."),
    500: ("failed while it worked on the request", "Look into the log of the receiver."),
    501: ("cannot do this", "Change the request method of the provider: GET or POST."),
    502: ("is behind a proxy that could not reach it", "Check that the receiver is running behind its proxy."),
    503: ("is not available at the moment", "Deliveries are tried again. Check that it is running."),
    504: ("took too long for the proxy before it", "Let it answer 2xx at once and do its work afterwards."),
}

BY_CLASS = {
    1: ("switched to another protocol", "Let it answer the request with 2xx."),
    3: ("points to another address", "Redirects are not followed. Put the final address into the server URL."),
    4: ("refused the request", "Compare the request with what the receiver expects."),
    5: ("failed", "Look into the log of the receiver."),
}

STRANGE = ("answered with a status that HTTP does not know", "Let it answer the request with 2xx.")


def reason_of(status: int | None, error: str | None) -> Reason | None:
    """None when the receiver took it, or when nothing was tried yet."""
    if error == HELD_TOO_LONG:
        return HELD
    if error is not None:
        return Reason(ERRORS.get(error, "It failed."), ADVICE.get(error, "Try again."))
    if status is None or Result(status, None).is_success:
        return None
    what, advice = BY_STATUS.get(status) or BY_CLASS.get(status // 100, STRANGE)
    return Reason(f"The receiver answered {spell_status(status)}: it {what}.", advice)


def spell_status(status: int) -> str:
    """`404 Not Found`; of one that nobody has defined, the number alone."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
