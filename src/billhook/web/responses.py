"""Answers in JSON, without the ceremony of a general-purpose response class."""

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response


def json_response(body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(body), status_code=status, headers=headers, media_type="application/json")


def success(data: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return json_response({"code": "success", "data": data}, status=status, headers=headers)
