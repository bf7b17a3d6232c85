"""How the service is: /healthz for the process, /readyz for what it depends on, /metrics for Prometheus."""

from starlette.requests import Request
from starlette.responses import Response

from billhook.errors import BillhookError
from billhook.storage.database import Database
from billhook.web.metrics import OPENMETRICS, Metrics
from billhook.web.responses import json_response, success

NEVER_STORED = {"Cache-Control": "no-store"}


async def healthz(_request: Request) -> Response:
    return success({"status": "alive"}, headers=NEVER_STORED)


async def readyz(request: Request) -> Response:
    db: Database = request.app.state.db
    try:
        await db.ping()
    except BillhookError as error:
        body = {"code": error.code, "message": "the database does not answer"}
        return json_response(body, status=503, headers=NEVER_STORED)
    return success({"status": "ready"}, headers=NEVER_STORED)


async def show_metrics(request: Request) -> Response:
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.render(), headers={"Content-Type": OPENMETRICS})
