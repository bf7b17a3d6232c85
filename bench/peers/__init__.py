"""Other people's servers that do the same job, for ratios measured in one run."""
