"""Serve a web page to match two photos, compare two models and reconstruct many photos. It runs on this computer, and
only this computer can reach it unless --host says otherwise; uploads are gone when the page is closed. Ctrl-C ends it.

Example: hynet app
         hynet app --models my-model.onnx
         hynet app --host 0.0.0.0 --token a-long-secret
"""

from __future__ import annotations

import os
import secrets
import sys
import webbrowser
from typing import Annotated

import tyro

from ..errors import BadInput, need
from ..features.descriptors.loading import load
from . import Report

LOCAL = ("127.0.0.1", "::1", "localhost")
SHORTEST_TOKEN = 12


def run(
    *,
    port: int = 7860,
    host: str = "127.0.0.1",
    token: str | None = None,
    models: Annotated[tuple[str, ...], tyro.conf.arg(metavar="PATH...")] = (),
    browser: bool = True,
) -> Report:
    """Serve the page.

    Args:
        port: Port to listen on; 0 picks a free one.
        host: Address to listen on; any address but this computer's own needs a token. 0.0.0.0 means all addresses.
        token: Secret that people must know to use the page.
        models: Paths of your own weights, offered beside the models that ship.
        browser: Open the page in this desktop's browser.
    """
    if host not in LOCAL and token is None:
        raise BadInput(
            f"at {host} others can reach the page: give a --token that they must know, such as "
            f"--token {secrets.token_urlsafe(12)}"
        )
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise BadInput(f"a token of {len(token)} letters can be guessed; take {SHORTEST_TOKEN} or more.")
    for package in ("starlette", "uvicorn", "python_multipart"):
        need(package, "app", "hynet app")
    for model in models:
        load(model)  # what is wrong with it is told now, not in the page

    from ..pages.app.choice import Choices
    from ..pages.app.guard import Door, address
    from ..pages.app.server import listen, serve

    listening, door = listen(Door(host, port, token))
    print(f"The page is {address(door)} (Ctrl-C ends it)", file=sys.stderr, flush=True)
    if browser and _on_a_desktop():
        webbrowser.open(address(door))
    serve(listening, door, Choices.with_models(models))
    return Report("The page is closed.", {"page": address(door)})


def _on_a_desktop() -> bool:
    """Elsewhere a text browser would take over the terminal."""
    seen = sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return seen and sys.stderr.isatty()
