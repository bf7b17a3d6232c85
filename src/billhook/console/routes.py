"""The pages of the console and who may see them, on one screen; errors become pages here, in the same dress."""

from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from billhook.console import (
    deliveries,
    delivery,
    entry,
    groups,
    keys,
    people,
    profile,
    provider_form,
    providers,
    recovery,
    sending,
)
from billhook.console.context import HOME, Console, console_of
from billhook.console.forms import said
from billhook.console.pages import page_response, read_all, static
from billhook.console.visit import Endpoint, SignedIn, admin, anyone, viewer
from billhook.errors import BillhookError, RouteNotFound
from billhook.web.metrics import Metrics


def build_console(console: Console, metrics: Metrics) -> Starlette:
    read_all()
    handlers = {BillhookError: on_known_error, HTTPException: on_http_error, Exception: on_bug}
    app = Starlette(routes=ROUTES, exception_handlers=handlers)
    app.router.redirect_slashes = False
    app.state.console, app.state.auth, app.state.hub, app.state.db = console, console.auth, console.hub, console.db
    app.state.metrics = metrics
    return app


def get(path: str, endpoint: Endpoint) -> BaseRoute:
    return Route(path, endpoint, methods=["GET"])


def post(path: str, endpoint: Endpoint) -> BaseRoute:
    return Route(path, endpoint, methods=["POST"])


async def to_console(request: Request) -> Response:
    """From the root, outside the console."""
    return RedirectResponse(f"{request.app.state.auth.settings.path_prefix}{HOME}/", status_code=307)


async def nowhere(_visit: SignedIn) -> Response:
    """An address that no page has, for who has signed in."""
    raise RouteNotFound("there is no such page")


async def home(request: Request) -> Response:
    return RedirectResponse(console_of(request).home + entry.START, status_code=303)


ENTRY = [
    get("/", home),
    get("/settings", home),
    get("/static/{name}", static),
    get("/sign-in", anyone(entry.show_sign_in)),
    post("/sign-in", anyone(entry.sign_in)),
    post("/sign-out", viewer(entry.sign_out)),
    get("/set-up/{token}", anyone(entry.show_set_up)),
    post("/set-up/{token}", anyone(entry.set_up)),
    get("/invitation/{token}", anyone(entry.show_invitation)),
    post("/invitation/{token}", anyone(entry.accept_invitation)),
]

PEOPLE = [
    get("/settings/profile", viewer(profile.show_profile)),
    post("/settings/profile/password", viewer(profile.change_password)),
    post("/settings/profile/theme", viewer(profile.change_theme)),
    post("/settings/profile/sessions/end-others", viewer(profile.end_other_sessions)),
    post("/settings/profile/sessions/{session_id}/end", viewer(profile.end_session)),
    get("/settings/users", admin(people.show_people)),
    post("/settings/users/invite", admin(people.invite)),
    post("/settings/users/invitations/{invitation_id}/withdraw", admin(people.withdraw_invitation)),
    post("/settings/users/{user_id}/role", admin(people.change_role)),
    post("/settings/users/{user_id}/remove", admin(people.remove_user)),
]

API_KEYS = [
    get("/settings/api-keys", viewer(keys.list_keys)),
    get("/settings/api-keys/new", admin(keys.show_new)),
    post("/settings/api-keys/new", admin(keys.create)),
    get("/settings/api-keys/{client_id}", viewer(keys.show_key)),
    post("/settings/api-keys/{client_id}/change", admin(keys.change)),
    post("/settings/api-keys/{client_id}/rotate", admin(keys.rotate)),
    post("/settings/api-keys/{client_id}/revoke", admin(keys.revoke)),
    post("/settings/api-keys/{client_id}/revoke-tokens", admin(keys.revoke_tokens)),
    post("/settings/api-keys/{client_id}/secrets/{secret_id}/revoke", admin(keys.revoke_secret)),
]

DELIVERIES = [
    get("/deliveries", viewer(deliveries.show_deliveries)),
    get("/deliveries/recover", admin(recovery.show_recover)),
    post("/deliveries/recover", admin(recovery.recover)),
    get("/deliveries/recoveries/{recovery_id}", viewer(recovery.show_recovery)),
    get("/deliveries/{delivery_id}", viewer(delivery.show_delivery)),
    post("/deliveries/{delivery_id}/redeliver", admin(delivery.redeliver)),
]

NOTIFICATIONS = "/settings/notifications"
GROUP = NOTIFICATIONS + "/groups/{group_id}"
PROVIDER = GROUP + "/providers/{provider_id}"

GROUPS = [
    get(NOTIFICATIONS, viewer(groups.show_groups)),
    post(NOTIFICATIONS + "/groups", admin(groups.create_group)),
    get(GROUP, viewer(groups.show_group)),
    post(GROUP + "/rename", admin(groups.rename_group)),
    get(GROUP + "/delete", admin(groups.ask_to_delete_group)),
    post(GROUP + "/delete", admin(groups.delete_group)),
    get(GROUP + "/send", admin(sending.show_form)),
    post(GROUP + "/send", admin(sending.send)),
    post(GROUP + "/send/preview", admin(sending.show_preview)),
]

PROVIDERS = [
    get(GROUP + "/providers/new", admin(provider_form.show_new)),
    post(GROUP + "/providers/new", admin(provider_form.create)),
    post(GROUP + "/providers/preview", admin(provider_form.show_preview)),
    post(GROUP + "/providers/test", admin(provider_form.try_out)),
    get(PROVIDER, viewer(providers.show_provider)),
    get(PROVIDER + "/edit", admin(provider_form.show_edit)),
    post(PROVIDER + "/edit", admin(provider_form.save)),
    post(PROVIDER + "/test", admin(providers.try_saved)),
    post(PROVIDER + "/pause", admin(providers.pause)),
    post(PROVIDER + "/resume", admin(providers.resume)),
    post(PROVIDER + "/signing-secret", admin(providers.show_secret)),
    post(PROVIDER + "/rotate-signing-secret", admin(providers.rotate_signing_secret)),
    get(PROVIDER + "/delete", admin(providers.ask_to_delete)),
    post(PROVIDER + "/delete", admin(providers.delete)),
]

ROUTES: list[BaseRoute] = [
    *ENTRY,
    *PEOPLE,
    *GROUPS,
    *PROVIDERS,
    *DELIVERIES,
    *API_KEYS,
    get("/{path:path}", viewer(nowhere)),
]


async def on_known_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, BillhookError)
    render = request.state.visit.render if hasattr(request.state, "visit") else partial(page_response, request)
    part = request.headers.get("x-fragment", "")
    template = "error_part.html" if part else "error.html"
    response = render(template, status=error.status, status_code=error.status, message=said(error), part=part)
    if retry_after := error.headers.get("Retry-After"):
        response.headers["Retry-After"] = retry_after
    return response


async def on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    known = BillhookError("this page cannot be asked for in this way") if error.status_code != 404 else RouteNotFound()
    page = page_response(
        request, "error.html", status=error.status_code, status_code=error.status_code, message=said(known)
    )
    page.headers.update(error.headers or {})
    return page


async def on_bug(request: Request, _error: Exception) -> Response:
    """Nothing of the error reaches the reader; the middleware logs it with the request's id."""
    return await on_known_error(request, BillhookError())
