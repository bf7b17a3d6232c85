"""The functions of docs/how-to/verify-a-delivery.md, as they stand there, against what a receiver was really sent."""

import base64
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from billhook.providers.signing import new_signing_secret
from tests.delivery.receivers import Request, in_turn, received
from tests.outbound.receivers import OK, RawReceiver
from tests.scenarios.processes import Billhook, until

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "verify-a-delivery.md"
MISSING = "missing"  # in place of a header: it is not there
SAID = ("--title", "Budget “Atlas” & co.", "--content", "105 % used\n+ more?")


@dataclass(frozen=True)
class Language:
    fence: str
    needs: tuple[str, ...]  # programs
    file: str  # for what is on the page
    harness: str  # a file that calls it for each line of standard input
    code: str
    steps: tuple[tuple[str, ...], ...]  # the last one is given the cases

    def verifier(self, folder: Path) -> list[str]:
        """The command that judges cases, after all that must be done before it."""
        for program in self.needs:
            if shutil.which(program) is None:
                pytest.skip(f"{program} is not on the PATH")
        (code,) = re.findall(rf"```{self.fence}\n(.*?)```", PAGE.read_text(), re.DOTALL)
        (folder / self.file).write_text(code)
        (folder / self.harness).write_text(self.code)
        *before, last = self.steps
        for step in before:
            subprocess.run(step, cwd=folder, check=True, capture_output=True)
        return list(last)


PYTHON = """
import base64, sys
from verify import is_genuine

for line in sys.stdin:
    secret, id, sent_at, signature, payload, now = line.rstrip("\\n").split("\\t")
    headers = {"webhook-id": id, "webhook-timestamp": sent_at, "webhook-signature": signature}
    headers = {name: value for name, value in headers.items() if value != "missing"}
    print("yes" if is_genuine(secret, headers, base64.b64decode(payload), float(now)) else "no")
"""
NODE = """
import { readFileSync } from "node:fs";
import { isGenuine } from "./verify.mjs";

for (const line of readFileSync(0, "utf8").trimEnd().split("\\n")) {
  const [secret, id, sentAt, signature, payload, now] = line.split("\\t");
  const headers = { "webhook-id": id, "webhook-timestamp": sentAt, "webhook-signature": signature };
  for (const name of Object.keys(headers)) if (headers[name] === "missing") delete headers[name];
  console.log(isGenuine(secret, headers, Buffer.from(payload, "base64"), Number(now)) ? "yes" : "no");
}
"""
GO = """package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"strings"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		f := strings.Split(lines.Text(), "\\t")
		headers := map[string]string{"webhook-id": f[1], "webhook-timestamp": f[2], "webhook-signature": f[3]}
		for name, value := range headers {
			if value == "missing" {
				delete(headers, name)
			}
		}
		payload, _ := base64.StdEncoding.DecodeString(f[4])
		now, _ := strconv.ParseInt(f[5], 10, 64)
		if isGenuine(f[0], headers, payload, now) {
			fmt.Println("yes")
		} else {
			fmt.Println("no")
		}
	}
}
"""
PHP = """<?php
require __DIR__ . '/verify.php';
while (($line = fgets(STDIN)) !== false) {
    [$secret, $id, $sent_at, $signature, $payload, $now] = explode("\\t", rtrim($line, "\\n"));
    $headers = ['webhook-id' => $id, 'webhook-timestamp' => $sent_at, 'webhook-signature' => $signature];
    $headers = array_filter($headers, fn (string $value) => $value !== 'missing');
    echo is_genuine($secret, $headers, base64_decode($payload), (int) $now) ? "yes\\n" : "no\\n";
}
"""
JAVA = """
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Scanner;

final class Main {
    public static void main(String[] arguments) throws Exception {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] f = lines.nextLine().split("\\t", -1);
            Map<String, String> headers =
                new HashMap<>(Map.of("webhook-id", f[1], "webhook-timestamp", f[2], "webhook-signature", f[3]));
            headers.values().removeIf("missing"::equals);
            byte[] payload = Base64.getDecoder().decode(f[4]);
            System.out.println(Webhook.isGenuine(f[0], headers, payload, Long.parseLong(f[5])) ? "yes" : "no");
        }
    }
}
"""
LANGUAGES = [
    Language("python", (), "verify.py", "main.py", PYTHON, ((sys.executable, "main.py"),)),
    Language("js", ("node",), "verify.mjs", "main.mjs", NODE, (("node", "main.mjs"),)),
    Language("go", ("go",), "verify.go", "main.go", GO, (("go", "run", "verify.go", "main.go"),)),
    Language("php", ("php",), "verify.php", "main.php", PHP, (("php", "main.php"),)),
    Language(
        "java",
        ("javac", "java"),
        "Webhook.java",
        "Main.java",
        JAVA,
        (("javac", "Webhook.java", "Main.java"), ("java", "Main")),
    ),
]


@dataclass(frozen=True)
class Case:
    """What a receiver has in hand."""

    secret: str
    id: str
    sent_at: str
    signature: str
    payload: bytes
    now: int

    @property
    def line(self) -> str:
        payload = base64.b64encode(self.payload).decode()
        return "\t".join([self.secret, self.id, self.sent_at, self.signature, payload, str(self.now)])


@pytest.fixture(scope="module")
def genuine(shared_billhook: Billhook) -> Iterator[list[Case]]:
    """A POST and a GET that the service has delivered."""
    with start_blocking_portal() as portal:
        with portal.wrap_async_context_manager(RawReceiver(in_turn(OK))) as receiver:
            shared_billhook.json("group", "create", "alerts")
            secrets = {
                method: added(shared_billhook, method, receiver.url("/hook?a=%20b")) for method in ("POST", "GET")
            }
            shared_billhook.serve(BILLHOOK_OUTBOUND_ALLOW="127.0.0.0/8")
            shared_billhook.json("send", "alerts", *SAID)
            until(lambda: len(receiver.requests) == 2, what="both are delivered")
            requests = received(receiver)
    assert {request.method for request in requests} == {"POST", "GET"}
    yield [case_of(request, secrets[request.method]) for request in requests]


def added(program: Billhook, method: str, url: str) -> str:
    made = program.json("provider", "add", "alerts", "--name", method, "--url", url, "--method", method)
    return str(made["signing_secret"])


def case_of(request: Request, secret: str) -> Case:
    headers = request.webhook_headers
    sent_at = headers["webhook-timestamp"]
    signature, payload = headers["webhook-signature"], request.signed.encode()
    return Case(secret, headers["webhook-id"], sent_at, signature, payload, now=int(sent_at) + 2)


def right_ones(case: Case) -> list[Case]:
    """Also while a secret is rotated, in either order."""
    other = "v1," + base64.b64encode(bytes(32)).decode()
    both = [f"{other} {case.signature}", f"{case.signature} {other}"]
    return [case, *(replace(case, signature=each) for each in both), replace(case, now=case.now - 290)]


def wrong_ones(case: Case) -> list[Case]:
    return [
        replace(case, payload=case.payload + b" "),
        replace(case, payload=case.payload.replace(b"used", b"free")),
        replace(case, payload=b""),
        replace(case, id=case.id[:-1] + "0x"),
        replace(case, sent_at=str(int(case.sent_at) + 1)),
        replace(case, secret=new_signing_secret()),
        replace(case, signature=case.signature[:-4] + "AAA="),
        replace(case, signature=case.signature.replace("v1,", "v1a,")),
        replace(case, signature=""),
        replace(case, now=case.now + 400),
        replace(case, now=case.now - 400),
        *(replace(case, sent_at=junk) for junk in ("", "soon", "12.5", f"{case.sent_at}s", "9" * 400)),
        replace(case, id=MISSING),
        replace(case, sent_at=MISSING),
        replace(case, signature=MISSING),
    ]


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.fence)
def test_what_we_sent_is_genuine_and_what_was_changed_is_not(
    language: Language, genuine: list[Case], tmp_path: Path
) -> None:
    command = language.verifier(tmp_path)
    right = [case for each in genuine for case in right_ones(each)]
    wrong = [case for each in genuine for case in wrong_ones(each)]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"GO111MODULE": "off", "GOCACHE": str(tmp_path / "cache")},
        input="".join(f"{case.line}\n" for case in right + wrong),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["yes"] * len(right) + ["no"] * len(wrong)


def test_every_language_of_the_page_is_run() -> None:
    assert re.findall(r"```(\w+)\n", PAGE.read_text()) == [language.fence for language in LANGUAGES]
