"""Install and start node oidc-provider, and make sure it really issues ES256 JWTs."""

import base64
import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.credentials import Credentials, oauth_request
from bench.servers import SCOPES, Failed, Server, free_port, serving

PACKAGE = "oidc-provider@9"
SCRIPT = Path(__file__).with_name("oidc_provider.mjs")
INSTALLED = Path(__file__).parent.parent / ".peers"
RESOURCE = "https://api.example.com"
CREDENTIALS = Credentials("bench", "a-secret-of-the-same-length-as-billhooks-own-000000000000")


def token_request() -> str:
    return oauth_request(CREDENTIALS, resource=RESOURCE, scope=" ".join(SCOPES))


@contextmanager
def oidc_provider() -> Iterator[Server]:
    _install()
    port = free_port()
    command, log = ["node", SCRIPT.name], INSTALLED / "serve.log"
    environment = _environment(port)
    with serving("oidc-provider", command, environment=environment, port=port, ready_path="/", log=log) as server:
        _check_token(port)
        yield server


def version() -> str:
    package = json.loads((INSTALLED / "node_modules" / "oidc-provider" / "package.json").read_text())
    node = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    return f"oidc-provider {package['version']} on Node {node.removeprefix('v')}"


def _install() -> None:
    if not shutil.which("node") or not shutil.which("npm"):
        raise Failed("the comparison needs node and npm on this machine")
    INSTALLED.mkdir(exist_ok=True)
    shutil.copy(SCRIPT, INSTALLED)  # Node looks for packages beside the script, and only there
    if not (INSTALLED / "node_modules" / "oidc-provider").exists():
        install = ["npm", "install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund", PACKAGE]
        subprocess.run(install, cwd=INSTALLED, check=True, stdout=subprocess.DEVNULL)


def _environment(port: int) -> dict[str, str]:
    settings = {"PORT": str(port), "RESOURCE": RESOURCE, "NODE_ENV": "production"}
    client = {"CLIENT_ID": CREDENTIALS.client_id, "CLIENT_SECRET": CREDENTIALS.client_secret}
    return {**os.environ, **settings, **client}


def _check_token(port: int) -> None:
    """A comparison with opaque or RS256 tokens would be meaningless, so look once."""
    body = token_request().partition("\r\n\r\n")[2].encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/token", body, timeout=10) as answer:
        token = json.load(answer)["access_token"]
    header = json.loads(base64.urlsafe_b64decode(token.partition(".")[0] + "=="))
    if header["alg"] != "ES256" or header["typ"] != "at+jwt":
        raise Failed(f"oidc-provider issued a token with the header {header}")
