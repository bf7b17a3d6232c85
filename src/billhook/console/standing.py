"""How a provider is doing, in a word for its badge and a sentence for its page. Pure."""

from dataclasses import dataclass

from billhook.groups.model import Provider, ProviderState, Status

WAITING = "Its receiver asked for fewer requests; what is queued goes out after that."
OPEN = "It failed so often that nothing is sent for a while; then one request finds out whether it is back."


@dataclass(frozen=True)
class Standing:
    word: str
    kind: str  # the colour: ok, bad, warn or none
    since_ms: int | None = None
    until_ms: int | None = None  # when something is sent again
    sentence: str = ""


def standing_of(provider: Provider, *, now_ms: int) -> Standing:
    health = provider.health
    if provider.state is ProviderState.PAUSED:
        return Standing("paused", "warn", sentence="What is sent meanwhile is held for 7 days.")
    if provider.state is ProviderState.DISABLED:
        why = provider.state_reason or "nobody said why"
        return Standing("disabled", "bad", sentence=f"Disabled because {why}. Mend the receiver, then resume.")
    status = health.status(now_ms)
    if status is Status.OPEN:
        return Standing("failing", "bad", health.failing_since_ms, health.open_until_ms, OPEN)
    if status is Status.WAITING:
        return Standing("waiting", "warn", None, health.waits_until_ms, WAITING)
    if status is Status.FAILING:
        return Standing("failing", "bad", health.failing_since_ms, sentence="Deliveries are tried again.")
    if last_used_ms(provider) is None:
        return Standing("never used", "", sentence="Nothing was sent to it yet. Send a test to see that it works.")
    return Standing("healthy", "ok", sentence="Its last delivery arrived.")


def last_used_ms(provider: Provider) -> int | None:
    moments = (provider.health.last_success_ms, provider.health.last_failure_ms)
    return max((each for each in moments if each is not None), default=None)


def was_success(provider: Provider) -> bool:
    """Of its last use."""
    last = last_used_ms(provider)
    return last is not None and last == provider.health.last_success_ms
