# mypy: ignore-errors
"""The peer: a token endpoint with Authlib on Flask, as its documentation builds one. Runs in the peers' environment.

Clients are rows of SQLite, read for each request, and secrets are compared as they are: that is what Authlib's own
mixin does. To its advantage the token is a JWT (RFC 9068) that is not stored.
"""

import os

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.integrations.sqla_oauth2 import OAuth2ClientMixin
from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from joserfc.jwk import ECKey

LIFESPAN_SECONDS = 900

app = Flask(__name__)
app.config["SQLALCHEMY_DATABASE_URI"] = f"sqlite:///{os.environ['DATA']}/authlib.db"
db = SQLAlchemy(app)
signing_key = ECKey.generate_key("P-256", {"kid": "bench", "use": "sig", "alg": "ES256"})


class Client(db.Model, OAuth2ClientMixin):
    id = db.Column(db.Integer, primary_key=True)


class Tokens(JWTBearerTokenGenerator):
    def get_jwks(self):
        return signing_key  # parsed once, where its documentation reads a file each time


class Grant(ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["client_secret_post"]


server = AuthorizationServer(
    app,
    query_client=lambda client_id: Client.query.filter_by(client_id=client_id).first(),
    save_token=lambda token, request: None,
)
server.register_grant(Grant)
server.register_token_generator(
    "default",
    Tokens(os.environ["ISSUER"], alg="ES256", expires_generator=lambda client, grant_type: LIFESPAN_SECONDS),
)


@app.route("/token", methods=["POST"])
def issue_token():
    return server.create_token_response()


with app.app_context():
    db.create_all()
    if Client.query.first() is None:
        client = Client(client_id=os.environ["CLIENT_ID"], client_secret=os.environ["CLIENT_SECRET"])
        client.set_client_metadata(
            {
                "grant_types": ["client_credentials"],
                "token_endpoint_auth_method": "client_secret_post",
                "scope": os.environ["SCOPE"],
            }
        )
        db.session.add(client)
        db.session.commit()
