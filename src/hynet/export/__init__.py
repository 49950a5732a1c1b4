"""Trained networks -> files that run without torch."""

from __future__ import annotations

from ..errors import HynetError


class Disagreement(HynetError):
    """A file would not say what its network says; it was not written."""
