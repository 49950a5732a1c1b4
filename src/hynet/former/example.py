"""Moved to `hynet.datasets.example`."""

from hynet.datasets.example import Example as Example
from hynet.datasets.example import example as example
