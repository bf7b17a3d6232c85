"""The OpenAPI document, and the same as a page that needs nothing from elsewhere."""

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from billhook.web.responses import json_response

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=select_autoescape(),
    trim_blocks=True,
    lstrip_blocks=True,
)
POLICY = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"


async def openapi(request: Request) -> Response:
    return json_response(request.app.state.openapi())


async def page(request: Request) -> Response:
    document = request.app.state.openapi()
    html = TEMPLATES.get_template("docs.html").render(
        info=document["info"], operations=operations(document), schemas=document["components"]["schemas"]
    )
    return HTMLResponse(html, headers={"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"})


async def stylesheet(_request: Request) -> Response:
    return Response(TEMPLATES.get_template("docs.css").render(), media_type="text/css")


def operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Every operation with what the page shows of it, in the document's order."""
    return [
        {
            "method": method.upper(),
            "path": path,
            "summary": operation.get("summary", ""),
            "description": operation.get("description", ""),
            "scopes": [scope for scheme in operation.get("security", []) for scope in scheme.get("bearer", [])],
            "parameters": operation.get("parameters", []),
            "body": _body(operation),
            "responses": [_response(status, answer) for status, answer in operation["responses"].items()],
        }
        for path, item in document["paths"].items()
        for method, operation in item.items()
    ]


def _body(operation: dict[str, Any]) -> dict[str, str] | None:
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        return {"media_type": media_type, "schema": _pretty(content["schema"])}
    return None


def _response(status: str, answer: dict[str, Any]) -> dict[str, str]:
    schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
    return {"status": status, "description": answer["description"], "schema": _pretty(schema) if schema else ""}


def _pretty(schema: dict[str, Any]) -> str:
    if list(schema) == ["$ref"]:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    return json.dumps(schema, indent=2)
