"""Signatures, verified by the libraries that receivers use."""

from base64 import b64decode, b64encode
from datetime import UTC, datetime

import pytest
import standardwebhooks
import svix.webhooks
from hypothesis import given
from hypothesis import strategies as st

from billhook.providers.signing import SECRET_BYTES, TOLERANCE_SECONDS, new_signing_secret, signature, verify

# The vector of the Standard Webhooks libraries.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, TIMESTAMP, PAYLOAD = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def headers(signed: str, at: int) -> dict[str, str]:
    return {"webhook-id": ID, "webhook-timestamp": str(at), "webhook-signature": signed}


def now() -> int:
    return int(datetime.now(UTC).timestamp())


def test_the_published_vector_comes_out() -> None:
    assert signature([SECRET], ID, TIMESTAMP, PAYLOAD) == SIGNATURE


def test_a_new_secret_is_long_and_never_the_same() -> None:
    made = {new_signing_secret() for _ in range(100)}
    assert len(made) == 100
    assert {len(b64decode(secret.removeprefix("whsec_"), validate=True)) for secret in made} == {SECRET_BYTES}


def test_there_is_a_signature_for_each_secret_in_their_order() -> None:
    secrets = [new_signing_secret(), new_signing_secret()]
    both = signature(secrets, ID, TIMESTAMP, PAYLOAD).split(" ")
    assert both == [signature([secret], ID, TIMESTAMP, PAYLOAD) for secret in secrets]


@pytest.mark.parametrize("library", [standardwebhooks.Webhook, svix.webhooks.Webhook])
def test_receivers_libraries_accept_it_with_either_secret(library: type[standardwebhooks.Webhook]) -> None:
    new, old, at = new_signing_secret(), new_signing_secret(), now()
    signed = signature([new, old], ID, at, PAYLOAD)
    for secret in (new, old):
        library(secret).verify(PAYLOAD, headers(signed, at))


@pytest.mark.parametrize(
    ("verifier", "refusal"),
    [
        (standardwebhooks.Webhook, standardwebhooks.WebhookVerificationError),
        (svix.webhooks.Webhook, svix.webhooks.WebhookVerificationError),
    ],
)
def test_receivers_libraries_refuse_what_was_changed(
    verifier: type[standardwebhooks.Webhook], refusal: type[Exception]
) -> None:
    secret, at = new_signing_secret(), now()
    sent = headers(signature([secret], ID, at, PAYLOAD), at)
    changed = [
        (PAYLOAD + b" ", sent),
        (PAYLOAD, sent | {"webhook-id": "msg_other"}),
        (PAYLOAD, sent | {"webhook-timestamp": str(at - 1)}),
    ]
    for payload, given_headers in changed:
        with pytest.raises(refusal):
            verifier(secret).verify(payload, given_headers)
    with pytest.raises(refusal):
        verifier(new_signing_secret()).verify(PAYLOAD, sent)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=64), st.binary(min_size=24, max_size=64))
def test_any_payload_is_signed_as_the_library_signs_it(payload: str, key: bytes) -> None:
    expected = standardwebhooks.Webhook(key).sign(ID, datetime.fromtimestamp(TIMESTAMP, UTC), payload)
    assert signature(["whsec_" + b64encode(key).decode()], ID, TIMESTAMP, payload.encode()) == expected


def test_what_we_sign_we_also_verify() -> None:
    new, old, at = new_signing_secret(), new_signing_secret(), now()
    sent = headers(signature([new, old], ID, at, PAYLOAD), at)
    assert verify(new, sent, PAYLOAD, now=at) is None
    assert verify(old, sent, PAYLOAD, now=at + TOLERANCE_SECONDS) is None


def test_what_is_wrong_with_a_request_is_said() -> None:
    secret, at = new_signing_secret(), now()
    sent = headers(signature([secret], ID, at, PAYLOAD), at)
    for name in sent:
        assert verify(secret, sent | {name: ""}, PAYLOAD, now=at) == "it is not signed"
    late = "its timestamp is too far from now"
    assert verify(secret, sent, PAYLOAD, now=at + TOLERANCE_SECONDS + 1) == late
    assert verify(secret, sent, PAYLOAD, now=at - TOLERANCE_SECONDS - 1) == late
    assert verify(secret, sent | {"webhook-timestamp": "soon"}, PAYLOAD, now=at) == late
    other = "its signature is not made with this secret"
    assert verify(secret, sent, PAYLOAD + b" ", now=at) == other
    assert verify(new_signing_secret(), sent, PAYLOAD, now=at) == other
    assert verify(secret, sent | {"webhook-id": "msg_other"}, PAYLOAD, now=at) == other
