"""Reproducibility: seeding, the identity of a run, its tracking, and re-running it to the same weights."""
