"""The command line: one function per command, in a file per noun."""

import typer

from billhook import __version__
from billhook.cli import accounts, clients, groups, keys, providers
from billhook.cli.backup import backup
from billhook.cli.demo import demo
from billhook.cli.doctor import doctor
from billhook.cli.output import Json, fail, show
from billhook.cli.receive import receive
from billhook.cli.sending import deliveries, redeliver, send
from billhook.cli.serve import api, migrate, serve, worker
from billhook.errors import BillhookError

app = typer.Typer(
    help="Billhook: tokens for machines, and notifications that reach every receiver.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.command()(serve)
app.command()(api)
app.command()(worker)
app.command()(migrate)
app.command()(backup)
app.command()(demo)
app.command()(receive)
app.add_typer(clients.app, name="client")
app.add_typer(groups.app, name="group")
app.add_typer(providers.app, name="provider")
app.command()(send)
app.command()(deliveries)
app.command()(redeliver)
app.add_typer(accounts.users, name="user")
app.add_typer(accounts.organizations, name="organization")
app.add_typer(keys.app, name="keys")
app.command()(accounts.audit)
app.command()(doctor)


@app.command()
def version(as_json: Json = False) -> None:
    """The version of this program."""
    show({"version": __version__}, text=__version__, as_json=as_json)


def main() -> None:
    try:
        app()
    except BillhookError as error:
        fail(error)
