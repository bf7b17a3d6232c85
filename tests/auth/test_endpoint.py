"""POST /auth, field for field and status for status, and the published keys."""


import httpx

from tests.support import Registered

JSON = {"Content-Type": "application/json"}


async def test_right_credentials_get_exactly_the_documented_answer(http: httpx.AsyncClient, robot: Registered) -> None:
    answer = await http.post("/auth", json=robot.credentials)
    assert answer.status_code == 201
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    body = answer.json()
    assert body == {
        "code": "success",
        "data": {
            "access_token": body["data"]["access_token"],
            "expires_in": 3600,
            "refresh_expires_in": 0,
            "token_type": "Bearer",
            "not-before-policy": 0,
            "session_state": "",
            "scope": " ".join(robot.client.scopes),
        },
    }
