# mypy: ignore-errors
"""The peer: django-oauth-toolkit's token endpoint on SQLite. Runs in the peers' environment; as a program it sets up.

Its defaults: the secret is stored the way Django stores passwords, the token is random and a row of its own. To its
advantage: no session or message middleware, connections that stay open, SQLite's log ahead instead of its journal.
"""

import os

import django
from django.conf import settings

settings.configure(
    SECRET_KEY="only for the benchmark",
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF=__name__,
    USE_TZ=True,
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "oauth2_provider"],
    MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": f"{os.environ['DATA']}/django.db",
            "CONN_MAX_AGE": None,
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 60,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }
    },
    OAUTH2_PROVIDER={
        "SCOPES": {scope: scope for scope in os.environ["SCOPE"].split()},
        "ACCESS_TOKEN_EXPIRE_SECONDS": 900,
    },
)
django.setup()

from django.core.management import call_command  # noqa: E402 - only now is there something to import
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.urls import path  # noqa: E402
from oauth2_provider.models import Application  # noqa: E402
from oauth2_provider.views import TokenView  # noqa: E402

urlpatterns = [path("token", TokenView.as_view())]


def set_up():
    call_command("migrate", verbosity=0)
    Application.objects.create(
        client_id=os.environ["CLIENT_ID"],
        client_secret=os.environ["CLIENT_SECRET"],
        client_type=Application.CLIENT_CONFIDENTIAL,
        authorization_grant_type=Application.GRANT_CLIENT_CREDENTIALS,
        hash_client_secret=os.environ["HASH_SECRET"] == "yes",
    )


if __name__ == "__main__":
    set_up()
else:
    app = get_wsgi_application()
