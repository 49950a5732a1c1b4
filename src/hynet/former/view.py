"""Moved to `hynet.pages.view`."""

from hynet.pages.view import page as page
from hynet.pages.view import record as record
