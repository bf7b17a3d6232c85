"""What the settings say about the world around: the name it knows us by, who stands before us, whom we may reach."""

from ipaddress import IPv4Address
from urllib.parse import urlsplit

from billhook.cli.doctor.finding import Finding, named, notice, problem, well
from billhook.outbound.guard import is_public, parse_address
from billhook.settings import Settings

# Names that nobody but their owner can mean (RFC 2606, 6761, 6762, 8375, ICANN's .internal).
PRIVATE_ENDS = (".internal", ".local", ".localhost", ".lan", ".home.arpa", ".test", ".intranet", ".corp")
METADATA = IPv4Address("169.254.169.254")  # clouds hand out credentials there to whoever asks
WIDEST = {4: 8, 6: 16}  # bits of a prefix: what is wider is no network of anybody's


def base_url(settings: Settings) -> Finding:
    if not settings.base_url:
        found = f"not set: tokens will name http://{settings.host}:{settings.port}"
        if _is_private(settings.host):
            return well("base URL", f"{found}, which is fit for this machine only")
        fix = "Set BILLHOOK_BASE_URL to what callers call this service, such as https://billhook.example.com."
        return notice("base URL", found, fix=fix)
    parts = urlsplit(settings.base_url)
    if parts.scheme == "https":
        return well("base URL", settings.base_url)
    secure = f"Put TLS before it and set BILLHOOK_BASE_URL=https://{parts.hostname}{parts.path}."
    if _is_private(parts.hostname or ""):
        return well("base URL", f"{settings.base_url}: no TLS, which is fit for a private network only")
    return problem("base URL", f"{settings.base_url}: secrets and tokens travel readable by all in between", fix=secure)


def proxies(settings: Settings) -> Finding:
    trusted = settings.trusted_proxies
    wide = [str(network) for network in trusted if network.prefixlen < WIDEST[network.version]]
    if wide:
        fix = "Name only your proxies in BILLHOOK_TRUSTED_PROXIES, such as 10.0.0.5/32."
        found = f"{named(wide)} is trusted: whoever is in it may claim to be at any address"
        return problem("proxies", found, fix=fix)
    if trusted:
        return well("proxies", f"X-Forwarded-For is believed of {named([str(network) for network in trusted])}")
    if settings.base_url.startswith("https:"):
        found = (
            "none is trusted, though an https base URL means that one stands before us: all callers share its address"
        )
        return notice("proxies", found, fix="Set BILLHOOK_TRUSTED_PROXIES to its network, such as 127.0.0.1/32.")
    return well("proxies", "none is trusted, and callers are known by their own address")


def allowed_networks(settings: Settings) -> Finding:
    allowed = settings.outbound_allow
    if not allowed:
        return well("allowed networks", "webhooks reach public addresses only")
    open_to_all = [str(network) for network in allowed if METADATA in network]
    if open_to_all:
        found = (
            f"{named(open_to_all)} may be reached by webhooks, and with it {METADATA}, where clouds keep credentials"
        )
        fix = "Name only the networks of your receivers in BILLHOOK_OUTBOUND_ALLOW, such as 10.20.0.0/16."
        return problem("allowed networks", found, fix=fix)
    return well("allowed networks", f"webhooks also reach {named([str(network) for network in allowed])}")


def _is_private(host: str) -> bool:
    address = parse_address(host)
    if address is not None:
        return not is_public(address)
    return "." not in host or host.lower().rstrip(".").endswith(PRIVATE_ENDS)
