"""Billhook: tokens for machines, and notifications that reach every receiver."""

from importlib.metadata import version

__version__ = version("billhook")
