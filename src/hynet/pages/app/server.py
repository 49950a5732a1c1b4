"""The server: which request goes to which answer, and where it listens."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib import resources
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ... import pages
from ...errors import BadInput
from ...runtime.machine import cores
from .answers import Answer, Answers, in_words
from .choice import Choices
from .desk import Desk
from .guard import Door, Guard
from .visits import Visits, folder_of_visits

SCRIPTS = ("app.js", "visit.js", "parts.js", "picture.js", "match.js", "compare.js", "many.js")


def listen(door: Door) -> tuple[socket.socket, Door]:
    """The socket, and where the page is: port 0 stands for any that is free."""
    try:
        family = socket.AF_INET6 if ":" in door.host else socket.AF_INET
        listening = socket.create_server((door.host, door.port), family=family)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise BadInput(f"cannot listen at {door.host}:{door.port} ({why}); choose another --port.") from None
    return listening, Door(door.host, listening.getsockname()[1], door.token)


def server(door: Door, choices: Choices, root: Path) -> uvicorn.Server:
    """`.run(sockets=[...])` serves until Ctrl-C; root: a folder for what visitors bring."""
    config = uvicorn.Config(
        application(door, choices, root),
        log_level="critical",  # what goes wrong is told by `in_words`
        access_log=False,
        server_header=False,
        loop="asyncio",
        ws="none",
        timeout_graceful_shutdown=1,  # open pages would hold us up for ever
        limit_concurrency=256,
    )
    return uvicorn.Server(config)


def serve(listening: socket.socket, door: Door, choices: Choices) -> None:
    """Until Ctrl-C."""
    with folder_of_visits() as root:
        server(door, choices, root).run(sockets=[listening])


def application(door: Door, choices: Choices, root: Path) -> Starlette:
    """All pages and requests."""
    desk = Desk(at_once=max(1, len(cores()) // 2), waiting=16, seconds=120)
    heavy = Desk(at_once=1, waiting=4, seconds=3600)
    visits = Visits(root)
    answers = Answers(visits, choices, desk, heavy, everywhere=door.token is not None)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(visits.sweep())
        yield
        sweeping.cancel()
        await visits.end_all()

    def route(path: str, answer: Answer, method: str = "POST") -> Route:
        return Route(path, in_words(answer), methods=[method])

    at = "/visits/{visit}"
    app = Starlette(
        routes=[
            *(Route(path, partial(_static, *file), methods=["GET"]) for path, file in _files().items()),
            route("/visits", answers.begin),
            route(f"{at}/events", answers.events, "GET"),
            route(f"{at}/end", answers.end),
            route(f"{at}/photos/{{side:int}}", answers.put_photo),
            route(f"{at}/photos/{{side:int}}", answers.photo, "GET"),
            route(f"{at}/example", answers.put_example),
            route(f"{at}/match", answers.match),
            route(f"{at}/patches/{{run:int}}/{{number:int}}", answers.patches, "GET"),
            route(f"{at}/album", answers.add_to_album),
            route(f"{at}/album/empty", answers.empty_album),
            route(f"{at}/reconstruct", answers.reconstruct),
            route(f"{at}/cancel", answers.cancel),
            route(f"{at}/results/{{name}}", answers.result, "GET"),
        ],
        middleware=[Middleware(Guard, door=door)],
        lifespan=lifespan,
    )
    app.state.visits = visits
    return app


def _files() -> dict[str, tuple[str, str]]:
    """Path -> text and type of the files that make up the page."""
    web = resources.files(__package__).joinpath("web")

    def text(name: str) -> str:
        return web.joinpath(name).read_text(encoding="utf-8")

    scripts = {f"/{name}": (text(name), "text/javascript") for name in SCRIPTS}
    styles = {"/page.css": (pages.asset("page.css"), "text/css"), "/app.css": (text("app.css"), "text/css")}
    return {"/": (text("page.html"), "text/html"), **scripts, **styles}


async def _static(text: str, kind: str, request: Request) -> Response:
    return Response(text, media_type=kind)
