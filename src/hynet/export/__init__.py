"""Trained networks -> files that run without torch."""
