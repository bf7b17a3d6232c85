"""What one can ask for next: links of the OpenAPI document, from an answer to the operations that take its ids."""

from typing import Any, NamedTuple

ITS_ID = "$response.body#/data/id"


class Link(NamedTuple):
    """`name` is what one gets there; `parameters` is where its parameters are found."""

    name: str
    to: str
    parameters: dict[str, str]


GROUP = {"group_id": ITS_ID}
PROVIDER = {"group_id": "$request.path.group_id", "provider_id": ITS_ID}
CLIENT = {"client_id": "$response.body#/data/client_id"}
NOTIFICATION = {"notification_id": "$response.body#/data/notification_id"}
ONE_PROVIDER = "/groups/{group_id}/providers/{provider_id}"

LINKS: dict[str, list[Link]] = {
    "post /clients": [
        Link("client", "get /clients/{client_id}", CLIENT),
        Link("rotation", "post /clients/{client_id}/rotate", CLIENT),
        Link("revocation", "delete /clients/{client_id}", CLIENT),
    ],
    "post /clients/{client_id}/rotate": [
        Link(
            "end-of-the-secret-before",
            "delete /clients/{client_id}/secrets/{secret_id}",
            CLIENT | {"secret_id": "$response.body#/data/secrets/0/id"},
        )
    ],
    "post /groups": [
        Link("group", "get /groups/{group_id}", GROUP),
        Link("providers", "get /groups/{group_id}/providers", GROUP),
        Link("new-provider", "post /groups/{group_id}/providers", GROUP),
        Link("new-notification", "post /groups/{group_id}/notifications", GROUP),
        Link("its-notifications", "get /notifications", GROUP),
        Link("deletion", "delete /groups/{group_id}", GROUP),
    ],
    "post /groups/{group_id}/providers": [
        Link("provider", f"get {ONE_PROVIDER}", PROVIDER),
        Link("change", f"patch {ONE_PROVIDER}", PROVIDER),
        Link("pause", f"post {ONE_PROVIDER}/pause", PROVIDER),
        Link("resumption", f"post {ONE_PROVIDER}/resume", PROVIDER),
        Link("test", f"post {ONE_PROVIDER}/test", PROVIDER),
        Link("recovery", f"post {ONE_PROVIDER}/recover", PROVIDER),
        Link("its-deliveries", "get /deliveries", {"provider_id": ITS_ID}),
        Link("deletion", f"delete {ONE_PROVIDER}", PROVIDER),
    ],
    f"post {ONE_PROVIDER}/recover": [
        Link(
            "progress",
            f"get {ONE_PROVIDER}/recoveries/{{recovery_id}}",
            {
                "group_id": "$request.path.group_id",
                "provider_id": "$request.path.provider_id",
                "recovery_id": ITS_ID,
            },
        )
    ],
    "post /groups/{group_id}/notifications": [
        Link("notification", "get /notifications/{notification_id}", {"notification_id": ITS_ID}),
        Link("deliveries", "get /deliveries", {"notification_id": ITS_ID}),
        Link(
            "first-delivery", "get /deliveries/{delivery_id}", {"delivery_id": "$response.body#/data/deliveries/0/id"}
        ),
    ],
    "get /deliveries/{delivery_id}": [
        Link("redelivery", "post /deliveries/{delivery_id}/redeliver", {"delivery_id": ITS_ID}),
        Link("notification", "get /notifications/{notification_id}", NOTIFICATION),
    ],
}


def add_links(paths: dict[str, Any]) -> None:
    """To the one answer of each operation that is a success. A link to what there is not is a KeyError."""
    for source, links in LINKS.items():
        answers = _operation(paths, source)["responses"]
        success = next(answer for status, answer in answers.items() if status.startswith("2"))
        success["links"] = {link.name: _described(paths, link) for link in links}


def _described(paths: dict[str, Any], link: Link) -> dict[str, Any]:
    return {"operationId": _operation(paths, link.to)["operationId"], "parameters": link.parameters}


def _operation(paths: dict[str, Any], spelled: str) -> dict[str, Any]:
    method, _, path = spelled.partition(" ")
    operation: dict[str, Any] = paths[path][method]
    return operation
