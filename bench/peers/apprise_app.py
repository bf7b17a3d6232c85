# mypy: ignore-errors
"""The peer: a loop over Apprise's notify(), or its async_notify(), as its documentation calls them."""

import asyncio
import os
import signal

import apprise

AT_ONCE = 500  # as many as one worker of ours has under way by default

sender = apprise.Apprise()
sender.add(os.environ["URL"].replace("http://", "json://"))
content = os.environ["CONTENT"]
titles = [f"{os.environ['TITLE']} [ref {number}]" for number in range(int(os.environ["COUNT"]))]


def one_by_one():
    for title in titles:
        if not sender.notify(body=content, title=title):
            raise SystemExit(f"not sent: {title}")


async def many_at_once():
    for start in range(0, len(titles), AT_ONCE):
        sends = [sender.async_notify(body=content, title=title) for title in titles[start : start + AT_ONCE]]
        if not all(await asyncio.gather(*sends)):
            raise SystemExit("not sent: one of the batch")


if os.environ["HOW"] == "async_notify":
    asyncio.run(many_at_once())
else:
    one_by_one()
signal.pause()  # until it is told to stop: whoever measures us wants to read our meters first
