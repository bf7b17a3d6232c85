"""The shapes every route shares, as the OpenAPI document shows them."""

from typing import Any, Generic, TypeVar

from pydantic import BaseModel

Data = TypeVar("Data")

REASONS = {
    400: "The request is not valid; `message` names the field.",
    401: "No token, or one that does not count (any more).",
    403: "The token does not hold the scope.",
    404: "There is no such thing in this organization.",
    409: "Its state does not allow this.",
    413: "The body is too large.",
    429: "Too many failed attempts.",
}


class Envelope(BaseModel, Generic[Data]):
    code: str = "success"
    data: Data


class Meta(BaseModel):
    next_cursor: str | None


class FieldProblem(BaseModel):
    field: str
    message: str


class Problem(BaseModel):
    code: str
    message: str
    errors: list[FieldProblem] | None = None


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": Problem, "description": REASONS[status]} for status in statuses}
