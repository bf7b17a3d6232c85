"""The notifications of the demo: thirty templates of a FinOps platform, filled in by their number. Pure."""

import random

from billhook.providers.kinds import Message

# Group, title, content; what stands in braces is filled in by `figures`.
TEMPLATES = (
    (
        "Budget alerts",
        "Budget '{account}' at {percent} %",
        "{account} has spent {amount} of {budget} this month. At this pace the month ends at {forecast}.",
    ),
    (
        "Budget alerts",
        "Budget '{account}' will be exceeded",
        "The forecast for {account} is {forecast}, against a budget of {budget}. The largest part is {service}.",
    ),
    (
        "Budget alerts",
        "Budget '{account}' exceeded",
        "{account} is {over} over its budget of {budget}, with {days} days to go. Owner: {team}.",
    ),
    (
        "Budget alerts",
        "{team} asks for a higher budget",
        "{team} asks for {small} more a month for {account}, because of {service}. Approve or refuse by Friday.",
    ),
    (
        "Budget alerts",
        "Quarter at {percent} % of plan",
        "All accounts together have spent {amount}. {account} is the furthest from its plan.",
    ),
    (
        "Budget alerts",
        "No budget for '{account}'",
        "{account} spends {small} a month on {service} and has no budget. Set one, or tag its owner.",
    ),
    (
        "Cost anomalies",
        "{service} in '{account}' up {jump} %",
        "{service} cost {small} yesterday, {jump} % more than on the same day of the last four weeks.",
    ),
    (
        "Cost anomalies",
        "Unusual data transfer in '{account}'",
        "Traffic between zones cost {small} since midnight. It began at 03:10 UTC, with a deployment of {team}.",
    ),
    (
        "Cost anomalies",
        "New region in use: {region}",
        "{account} has started {service} in {region} for the first time. It has cost {small} so far.",
    ),
    (
        "Cost anomalies",
        "Spike of {service} requests",
        "Requests in {account} are {jump} % above normal. If it goes on, today will cost {small} more.",
    ),
    (
        "Cost anomalies",
        "Log volume in '{account}' doubled",
        "{team} writes twice as many logs as last week, which costs {small} a week. Is debug logging still on?",
    ),
    (
        "Cost anomalies",
        "Anomaly in '{account}' is over",
        "{service} is back to normal. In all it has cost {small} more than expected.",
    ),
    (
        "Cost anomalies",
        "Untagged spend: {small}",
        "{percent} % of the new resources in {account} have no owner. Most of them are {service}.",
    ),
    (
        "Daily digest",
        "Yesterday: {amount}",
        "{account} {amount}. The largest part was {service}; the fastest growing was {team}, {jump} % up.",
    ),
    (
        "Daily digest",
        "Week in review",
        "Spend {amount}, forecast {forecast}. {days} anomalies, of which two are open. Saved: {small}.",
    ),
    (
        "Daily digest",
        "Top five services",
        "1. {service}, {amount}\n2. Compute\n3. Storage\n4. Data transfer\n5. Support",
    ),
    (
        "Daily digest",
        "Unit cost: {cents} a thousand orders",
        "A thousand orders cost {cents} yesterday. {account} makes up {percent} % of it.",
    ),
    (
        "Daily digest",
        "Cost data for '{account}' is complete",
        "The bill of {account} for yesterday is final: {amount}. Nothing is estimated any more.",
    ),
    (
        "Daily digest",
        "Cost data for '{account}' is late",
        "The export of {account} has not come since 02:00 UTC. Figures for {service} are estimates until it does.",
    ),
    (
        "Commitments and savings",
        "Savings plan ends in {days} days",
        "The plan covers {percent} % of compute in {account}. Without it, a month costs {small} more.",
    ),
    (
        "Commitments and savings",
        "Reservation used at {low} %",
        "Reserved {service} in {region} stands idle for {small} a month. Move it to {account}, or sell it.",
    ),
    (
        "Commitments and savings",
        "Commitment coverage at {percent} %",
        "Of {amount} for compute, {percent} % are covered by commitments. The goal is 75 %.",
    ),
    (
        "Commitments and savings",
        "{small} a month could be saved",
        "A one-year commitment for {service} in {account} would pay off within {days} weeks.",
    ),
    (
        "Commitments and savings",
        "Idle resources in '{account}'",
        "{days} volumes and {days} addresses have not been used for 30 days. They cost {small} a month.",
    ),
    (
        "Kubernetes spend",
        "Namespace '{space}' is over-provisioned",
        "{space} asks for four times the memory that it uses. Halving its requests saves {small} a month.",
    ),
    (
        "Kubernetes spend",
        "Cluster in {region} idle at {low} %",
        "Nodes in {region} were used at {low} % this week. Scaling down at night would save {small} a month.",
    ),
    (
        "Kubernetes spend",
        "'{space}' has doubled its requests",
        "With today's deployment of {team}, {space} needs {days} more nodes: {small} a month.",
    ),
    (
        "Kubernetes spend",
        "Spot share in {region} at {low} %",
        "Spot nodes in {region} were taken back {days} times today. {space} runs on demand meanwhile, for {small}.",
    ),
    (
        "Kubernetes spend",
        "Cost of '{space}' by team",
        "{team} {percent} %, others the rest, of {amount} this month.",
    ),
    (
        "Kubernetes spend",
        "GPU nodes in '{account}' left on",
        "{days} GPU nodes of {team} have had nothing to do since yesterday. They cost {cents} a minute.",
    ),
)
STRIDE = 7  # has no divisor in common with the number of templates: each has its turn, and groups take turns

ACCOUNTS = ("Production", "Staging", "Data platform", "Machine learning", "Web shop", "Shared services")
SERVICES = ("Amazon EC2", "Amazon S3", "Amazon RDS", "BigQuery", "Cloud SQL", "Azure Kubernetes Service")
TEAMS = ("Checkout", "Search", "Payments", "Data engineering", "Recommendations", "Platform")
REGIONS = ("eu-central-1", "eu-west-1", "us-east-1", "ap-southeast-2")
SPACES = ("checkout", "search-index", "feature-store", "batch-jobs", "web")


def message(number: int) -> tuple[str, Message]:
    """The name of the group that this one is for, and what it says; the same at every call."""
    group, title, content = TEMPLATES[number * STRIDE % len(TEMPLATES)]
    values = figures(number)
    return group, Message(title.format(**values), content.format(**values))


def figures(number: int) -> dict[str, str]:
    """Names and sums that fit each other."""
    dice = random.Random(number)
    budget, percent = dice.randrange(8, 96) * 500, dice.randrange(61, 99)
    spent = budget * percent // 100
    return {
        "account": dice.choice(ACCOUNTS),
        "service": dice.choice(SERVICES),
        "team": dice.choice(TEAMS),
        "region": dice.choice(REGIONS),
        "space": dice.choice(SPACES),
        "budget": _dollars(budget),
        "percent": str(percent),
        "amount": _dollars(spent),
        "forecast": _dollars(spent * 13 // 10),
        "over": _dollars(budget * (percent - 59) // 400),
        "small": _dollars(dice.randrange(90, 2400)),
        "cents": f"${dice.randrange(40, 990) / 100:.2f}",
        "jump": str(dice.randrange(18, 240)),
        "low": str(dice.randrange(12, 48)),
        "days": str(dice.randrange(3, 20)),
    }


def _dollars(amount: int) -> str:
    return f"${amount:,}"
