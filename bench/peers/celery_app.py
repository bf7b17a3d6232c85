# mypy: ignore-errors
"""The peer: a Celery task that posts a webhook, as tutorials write it. As a program it queues the batch.

Early acknowledgement is Celery's default. There is no result backend, which would cost it more.
"""

import os

import requests
from celery import Celery

app = Celery("webhooks", broker=os.environ["BROKER"])


@app.task(
    bind=True,
    name="send_webhook",  # the same for whoever queues it, as a program, and for the worker, who imports it
    autoretry_for=(requests.RequestException,),
    retry_backoff=True,
    retry_kwargs={"max_retries": 5},
    acks_late=os.environ.get("ACKS_LATE") == "yes",
)
def send_webhook(self, url, payload):
    response = requests.post(url, json=payload, timeout=10)
    response.raise_for_status()


if __name__ == "__main__":
    for number in range(int(os.environ["COUNT"])):
        payload = {"title": f"{os.environ['TITLE']} [ref {number}]", "content": os.environ["CONTENT"]}
        send_webhook.delay(os.environ["URL"], payload)
