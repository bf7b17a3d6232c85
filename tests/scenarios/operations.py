"""Every operation of the OpenAPI document, and how to call it: so that routes added later are covered by themselves."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

METHODS = ("get", "put", "post", "patch", "delete")
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"

Document = dict[str, Any]
Schema = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    content: Mapping[str, Any]  # a valid body by its media type; empty when it takes none

    @property
    def parameters(self) -> list[str]:
        return re.findall(r"\{(\w+)\}", self.path)

    def request(self, ids: Mapping[str, str]) -> dict[str, Any]:
        """Arguments for `httpx.Client.request`. An unknown parameter is a KeyError: say there how to fill it."""
        arguments: dict[str, Any] = {"method": self.method, "url": self.path.format_map(ids)}
        if JSON in self.content:
            arguments["json"] = self.content[JSON]
        elif FORM in self.content:
            arguments["data"] = self.content[FORM]
        return arguments

    def __str__(self) -> str:
        return f"{self.method.upper()} {self.path}"


def operations(document: Document) -> Iterator[Operation]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                content = item[method].get("requestBody", {}).get("content", {})
                yield Operation(
                    method, path, {kind: example(media["schema"], document) for kind, media in content.items()}
                )


def example(schema: Schema, document: Document) -> Any:
    """The smallest value that the schema allows, as far as our schemas go."""
    if "$ref" in schema:
        return example(document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]], document)
    for known in ("const", "default"):
        if known in schema:
            return schema[known]
    if "enum" in schema:
        return schema["enum"][0]
    choices: list[Schema] = schema.get("anyOf") or schema.get("oneOf") or []
    for choice in choices:
        if choice.get("type") != "string":  # a string may have to be of a form that the schema does not tell
            return example(choice, document)
    return _plain(schema, document)


def _plain(schema: Schema, document: Document) -> Any:
    kind = str(schema["type"])
    if kind == "object":
        return {name: example(schema["properties"][name], document) for name in schema.get("required", ())}
    if kind == "array":
        return [example(schema["items"], document) for _ in range(schema.get("minItems", 0))]
    return {"string": "example", "integer": schema.get("minimum", 1), "number": 1, "boolean": False, "null": None}[kind]
