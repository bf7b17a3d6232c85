"""Benchmarks of a running Billhook; every figure is a ratio of things measured in one run."""
