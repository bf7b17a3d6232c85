"""Everything that can go wrong in a way a caller may be told about.

BillhookError                      500 internal/error
├── InvalidParameters              400 bad-request/invalid-parameters
├── Unauthenticated                401 failed
├── Forbidden                      403 authorization/forbidden
├── NotFound                       404 (abstract)
│   ├── ClientNotFound                 client/not-found
│   ├── GroupNotFound                  group/not-found
│   ├── ProviderNotFound               provider/not-found
│   ├── NotificationNotFound           notification/not-found
│   ├── DeliveryNotFound               delivery/not-found
│   ├── RecoveryNotFound               recovery/not-found
│   ├── UserNotFound                   user/not-found
│   ├── InvitationNotFound             invitation/not-found
│   └── RouteNotFound                  route/not-found
├── MethodNotAllowed               405 route/method-not-allowed
├── Conflict                       409 (abstract)
│   ├── ClientConflict                 client/conflict
│   ├── GroupConflict                  group/conflict
│   ├── ProviderConflict               provider/conflict
│   ├── NotificationConflict           notification/conflict
│   ├── DeliveryConflict               delivery/conflict
│   └── UserConflict                   user/conflict
├── TooLarge                       413 request/too-large
├── RateLimited                    429 rate-limit/exceeded
├── Unavailable                    503 internal/unavailable
└── Refusal                        the program will not start; one line for the operator
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FieldError:
    field: str
    message: str


class BillhookError(Exception):
    """`code` and the message are for the caller; `detail` is for our log and never leaves the process."""

    status = 500
    code = "internal/error"
    message = "something went wrong on our side"

    def __init__(self, message: str | None = None, *, detail: str | None = None) -> None:
        self.message = message or self.message
        self.detail = detail
        super().__init__(self.message)

    @property
    def headers(self) -> Mapping[str, str]:
        return {}


class InvalidParameters(BillhookError):
    status = 400
    code = "bad-request/invalid-parameters"
    message = "the request is not valid"

    def __init__(self, message: str | None = None, *, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(message or "; ".join(f"{error.field}: {error.message}" for error in errors))
        self.errors = tuple(errors)

    @classmethod
    def of(cls, field: str, message: str) -> "InvalidParameters":
        return cls(errors=[FieldError(field, message)])


class Unauthenticated(BillhookError):
    status = 401
    code = "failed"
    message = "invalid or expired token"

    def __init__(self, *, challenge: str = "Bearer", detail: str | None = None) -> None:
        super().__init__(detail=detail)
        self.challenge = challenge

    @property
    def headers(self) -> Mapping[str, str]:
        return {"WWW-Authenticate": self.challenge}


class Forbidden(BillhookError):
    status = 403
    code = "authorization/forbidden"
    message = "the token does not have the scope for this"

    def __init__(self, message: str | None = None, *, scope: str = "") -> None:
        super().__init__(message)
        self.scope = scope

    @property
    def headers(self) -> Mapping[str, str]:
        return {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{self.scope}"'}


class NotFound(BillhookError):
    status = 404
    message = "there is no such thing"


class ClientNotFound(NotFound):
    code = "client/not-found"
    message = "there is no such client"


class GroupNotFound(NotFound):
    code = "group/not-found"
    message = "there is no such group"


class ProviderNotFound(NotFound):
    code = "provider/not-found"
    message = "there is no such provider"


class NotificationNotFound(NotFound):
    code = "notification/not-found"
    message = "there is no such notification"


class DeliveryNotFound(NotFound):
    code = "delivery/not-found"
    message = "there is no such delivery"


class RecoveryNotFound(NotFound):
    code = "recovery/not-found"
    message = "there is no such recovery"


class UserNotFound(NotFound):
    code = "user/not-found"
    message = "there is no such user"


class InvitationNotFound(NotFound):
    code = "invitation/not-found"
    message = "this link has been used, has ended, or never was one"


class RouteNotFound(NotFound):
    code = "route/not-found"
    message = "there is no such route"


class MethodNotAllowed(BillhookError):
    status = 405
    code = "route/method-not-allowed"
    message = "the route does not take this method"

    def __init__(self, *, allow: str) -> None:
        super().__init__()
        self.allow = allow

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Allow": self.allow}


class Conflict(BillhookError):
    status = 409
    message = "its present state does not allow this"


class ClientConflict(Conflict):
    code = "client/conflict"


class GroupConflict(Conflict):
    code = "group/conflict"


class ProviderConflict(Conflict):
    code = "provider/conflict"


class NotificationConflict(Conflict):
    code = "notification/conflict"


class DeliveryConflict(Conflict):
    code = "delivery/conflict"


class UserConflict(Conflict):
    code = "user/conflict"


class TooLarge(BillhookError):
    status = 413
    code = "request/too-large"
    message = "the request body is too large"


class RateLimited(BillhookError):
    status = 429
    code = "rate-limit/exceeded"
    message = "too many failed attempts; try again later"

    def __init__(self, message: str | None = None, *, retry_after_seconds: int) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Retry-After": str(self.retry_after_seconds)}


class Unavailable(BillhookError):
    status = 503
    code = "internal/unavailable"
    message = "the service cannot answer at the moment; try again soon"

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Retry-After": "1"}


class Refusal(BillhookError):
    """The program cannot do what the operator asked, and says why in one line."""
