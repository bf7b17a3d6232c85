"""billhook user …, billhook organization … and billhook audit"""

import pytest

from tests.cli.conftest import Billhook

PASSWORD = "correct horse\n"


def test_users_and_organizations_are_made_and_audited(on_engine: Billhook) -> None:
    acme = on_engine.json("organization", "create", "Acme")
    ada = on_engine.json("user", "create", "--email", "Ada@Example.com", "--organization", acme["id"], stdin=PASSWORD)
    assert (ada["email"], ada["role"], ada["organization_id"]) == ("ada@example.com", "admin", acme["id"])
    assert [item["name"] for item in on_engine.json("organization", "list")] == ["Default", "Acme"]
    actions = {entry["action"] for entry in on_engine.json("audit")}
    assert actions == {"organization.created", "user.created"}


def test_a_user_belongs_to_the_first_organization_unless_told_otherwise(billhook: Billhook) -> None:
    ada = billhook.json("user", "create", "--email", "ada@example.com", "--role", "viewer", stdin=PASSWORD)
    assert ada["organization_id"] == billhook.json("organization", "list")[0]["id"]
    assert ada["role"] == "viewer"


def test_a_password_is_never_shown(billhook: Billhook) -> None:
    ran = billhook("user", "create", "--email", "ada@example.com", stdin=PASSWORD)
    assert ran.status == 0
    assert PASSWORD.strip() not in ran.out + ran.err
    assert PASSWORD.strip() not in billhook("audit", "--json").out


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\nsecond line\n"])
def test_a_password_is_the_first_line_of_standard_input(billhook: Billhook, ending: str) -> None:
    ran = billhook("user", "create", "--email", "ada@example.com", stdin="12345678" + ending)
    assert ran.status == 0


def test_without_a_terminal_nobody_is_asked(billhook: Billhook) -> None:
    ran = billhook("user", "create", "--email", "ada@example.com", stdin="")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == "billhook: no password: write it to standard input, on one line\n"


REFUSED = [
    (["user", "create", "--email", "ada"], PASSWORD, "email"),
    (["user", "create", "--email", "ada@example.com"], "short\n", "password"),
    (["user", "create", "--email", "ada@example.com"], "x" * 3000, "password"),
    (["user", "create", "--email", "ada@example.com", "--organization", "org_none"], PASSWORD, "org_none"),
    (["organization", "create", ""], "", "name"),
    (["organization", "create", "x" * 101], "", "name"),
]


@pytest.mark.parametrize(("arguments", "stdin", "named"), REFUSED, ids=lambda value: str(value)[:50])
def test_what_is_refused_is_named(billhook: Billhook, arguments: list[str], stdin: str, named: str) -> None:
    ran = billhook(*arguments, stdin=stdin)
    assert (ran.status, ran.out) == (1, "")
    assert named in ran.err
    assert billhook(*arguments, "--json", stdin=stdin).document.keys() == {"code", "message"}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["user", "create"], "--email"),
        (["user", "create", "--email", "a@b.c", "--role", "king"], "king"),
        (["organization", "create"], "NAME"),
        (["audit", "--limit", "0"], "--limit"),
    ],
)
def test_wrong_usage_ends_with_2(billhook: Billhook, arguments: list[str], named: str) -> None:
    ran = billhook(*arguments, stdin=PASSWORD)
    assert (ran.status, ran.out) == (2, "")
    assert named in ran.err


def test_an_email_address_is_taken_once(billhook: Billhook) -> None:
    billhook.json("user", "create", "--email", "ada@example.com", stdin=PASSWORD)
    ran = billhook("user", "create", "--email", "ADA@example.com", "--json", stdin=PASSWORD)
    assert (ran.status, ran.document["code"]) == (1, "user/conflict")


@pytest.mark.parametrize("arguments", [["user", "create", "--email", "\udcff@x"], ["organization", "create", "\udcff"]])
def test_an_argument_that_is_not_text_is_refused(billhook: Billhook, arguments: list[str]) -> None:
    assert billhook(*arguments, stdin=PASSWORD).status == 1


def test_the_audit_trail_can_be_asked_about_one_thing(billhook: Billhook) -> None:
    made = billhook.json("client", "create", "--name", "robot", "--scope", "groups:read")
    billhook.json("client", "rotate", made["client_id"])
    trail = billhook.json("audit", "--subject", made["client_id"])
    assert {entry["action"] for entry in trail} == {"client.created", "client.rotated"}
    assert all(entry["actor"].startswith("cli:") for entry in trail)
    assert len(billhook.json("audit", "--limit", "1")) == 1


def test_the_audit_trail_for_people_says_who_did_what(billhook: Billhook) -> None:
    title, line = billhook("audit").out.splitlines()
    assert title.split() == ["AT", "WHO", "DID", "TO"]
    assert line.split()[2:4] == ["system", "organization.created"]
