"""The answer to each request of a page; what goes wrong is told there in one sentence."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial, wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse

from ... import __version__
from ...errors import BadInput, HynetError, MissingExtra
from ...images.example import example
from .choice import FEWEST_KEYPOINTS, MOST_KEYPOINTS, Choice, Choices
from .desk import Desk, TooBusy
from .pair import PageClosed, find, patches_png
from .photo import MAX_BYTES, MAX_PIXELS, EndlessUpload, check_photo, file_name, open_photo, receive
from .reconstructing import MOST_BYTES, MOST_PHOTOS, PHOTOS, RESULTS, work_on
from .visits import NoVisit, Visit, Visits

MOST_JSON = 10_000  # bytes of a request that carries settings
MOST_MINUTES = 5.0  # of one upload
# Our pages in files carry their script and style inside. In a sandbox they cannot reach this page.
SANDBOX = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'self'"
)

Answer = Callable[[Request], Awaitable[Response]]


def in_words(answer: Answer) -> Answer:
    """Wrap a handler so that any error becomes a response of one sentence, shown in the page."""

    @wraps(answer)
    async def answered(request: Request) -> Response:
        try:
            return await answer(request)
        except NoVisit as error:
            return _problem(str(error), 410)
        except TooBusy as error:
            return _problem(str(error), 503)
        except EndlessUpload as error:
            return _problem(str(error), 413, connection="close")
        except HynetError as error:
            return _problem(str(error), 422)
        except MemoryError:
            return _problem("there is not enough memory for that; take smaller photos.", 507)
        except (PageClosed, ClientDisconnect):
            return _problem("the page was closed.", 410)
        except OSError as error:  # such as a full disk
            return _problem(f"this machine refused: {error.strerror or error}; tell whoever runs it.", 507)
        except Exception:
            traceback.print_exc(file=sys.stderr)
            return _problem("something unexpected went wrong; the terminal where hynet app runs says more.", 500)

    return answered


class Answers:
    """The answer to each request of a page."""

    def __init__(self, visits: Visits, choices: Choices, desk: Desk, heavy: Desk, *, everywhere: bool) -> None:
        self._visits = visits
        self._choices = choices
        self._desk = desk
        self._heavy = heavy
        self._everywhere = everywhere

    async def begin(self, request: Request) -> Response:
        """A page was opened: what it can offer."""
        visit = self._visits.begin()
        usual = asdict(Choice())
        return JSONResponse(
            {
                "visit": visit.key,
                "version": __version__,
                "detectors": self._choices.detectors,
                "models": self._choices.models,
                "orientations": self._choices.orientations,
                "geometries": self._choices.geometries,
                "usual": usual | {"model": next(iter(self._choices.models), usual["model"])},
                "keypoints": [FEWEST_KEYPOINTS, MOST_KEYPOINTS],
                "limits": {"bytes": MAX_BYTES, "pixels": MAX_PIXELS, "photos": MOST_PHOTOS, "album": MOST_BYTES},
                "example": (await asyncio.to_thread(example)).about,
                "no_reconstruction": _missing(),
                "everywhere": self._everywhere,
            }
        )

    async def events(self, request: Request) -> Response:
        return StreamingResponse(self._visit(request).listen(), media_type="text/event-stream")

    async def end(self, request: Request) -> Response:
        await self._visits.end(self._visit(request))
        return Response(status_code=204)

    # --- Two photos ---

    async def put_photo(self, request: Request) -> Response:
        visit, side = self._visit(request), _side(request)
        name = _name(request)
        async with visit.taking_turns:
            with tempfile.TemporaryDirectory(dir=self._visits.root) as folder:
                path = Path(folder) / "photo"
                await _received(request, path)
                photo = await self._desk.run(partial(open_photo, path, name))
            visit.put(side, photo)
        return _photo_told(visit)

    async def put_example(self, request: Request) -> Response:
        visit = self._visit(request)

        def read() -> None:
            for side, (path, name) in enumerate(zip(example().paths, ("first", "second"), strict=True)):
                visit.put(side, open_photo(path, f"example, {name} photo"), example=True)

        async with visit.taking_turns:
            await self._desk.run(read)
        return _photo_told(visit)

    async def photo(self, request: Request) -> Response:
        photo = self._visit(request).photos[_side(request)]
        if photo is None:
            raise HynetError("there is no such photo.")
        return Response(photo.preview, media_type="image/jpeg")

    async def match(self, request: Request) -> Response:
        visit = self._visit(request)
        choice = Choice.checked(await _json(request), self._choices)
        async with visit.taking_turns:
            found, told = await self._desk.run(partial(find, visit.pair(), choice))
            return JSONResponse({**told, "run": visit.show(found)})

    async def patches(self, request: Request) -> Response:
        found = self._visit(request).shown.get(request.path_params["run"])
        if found is None:
            raise HynetError("something newer is shown by now.")
        content = await asyncio.to_thread(patches_png, found, request.path_params["number"])
        return Response(content, media_type="image/png")

    # --- Many photos ---

    async def add_to_album(self, request: Request) -> Response:
        visit = self._visit(request)
        shown_as = _name(request)
        if visit.work is not None and not visit.work.done():
            raise HynetError("the photos are being reconstructed; cancel that first.")
        async with visit.taking_turns:
            if len(visit.album) >= MOST_PHOTOS:
                raise BadInput(f"the page takes {MOST_PHOTOS} photos; `hynet reconstruct` takes any number.")
            name = file_name(shown_as, {known.lower() for known in visit.album})
            with tempfile.TemporaryDirectory(dir=self._visits.root) as folder:
                path = Path(folder) / "photo"
                await _received(request, path)
                size = path.stat().st_size
                if sum(visit.album.values()) + size > MOST_BYTES:
                    raise BadInput(f"the page takes {MOST_BYTES / 1e9:g} GB; `hynet reconstruct` takes any number.")
                await asyncio.to_thread(check_photo, path, shown_as)
                if visit.closed.is_set():
                    raise PageClosed
                (visit.folder / PHOTOS).mkdir(parents=True, exist_ok=True)
                path.rename(visit.folder / PHOTOS / name)
                visit.album[name] = size
        return JSONResponse({"name": name, "photos": len(visit.album)})

    async def empty_album(self, request: Request) -> Response:
        visit = self._visit(request)
        await visit.cancel()
        async with visit.taking_turns:
            visit.album.clear()
            await asyncio.to_thread(shutil.rmtree, visit.folder, True)
        visit.tell({"stage": "idle"})
        return JSONResponse({"photos": 0})

    async def reconstruct(self, request: Request) -> Response:
        visit = self._visit(request)
        choice = Choice.checked(await _json(request), self._choices)
        if len(visit.album) < 2:
            raise BadInput("a reconstruction needs two photos or more.")
        if problem := _missing():
            raise MissingExtra(problem)
        if visit.work is not None and not visit.work.done():
            raise HynetError("the photos are being reconstructed already.")
        visit.tell({"stage": "waiting", "ahead": self._heavy.waiting + self._heavy.serving})
        visit.work = asyncio.create_task(work_on(visit, choice, self._heavy))
        return JSONResponse({"photos": len(visit.album)})

    async def cancel(self, request: Request) -> Response:
        await self._visit(request).cancel()
        return JSONResponse({})

    async def result(self, request: Request) -> Response:
        visit, name = self._visit(request), request.path_params["name"]
        if name not in RESULTS or not (visit.folder / name).is_file():
            raise HynetError("there is no such result.")
        save_as = name if "save" in request.query_params or name.endswith(".zip") else None
        headers = {"content-security-policy": SANDBOX}
        return FileResponse(visit.folder / name, media_type=RESULTS[name], filename=save_as, headers=headers)

    def _visit(self, request: Request) -> Visit:
        return self._visits.find(request.path_params["visit"])


# --- Small parts of requests and answers ---


def _problem(sentence: str, status: int, **headers: str) -> Response:
    return JSONResponse({"problem": sentence}, status, headers)


def _photo_told(visit: Visit) -> Response:
    told = [
        photo and {"name": photo.name, "size": [photo.grey.shape[1], photo.grey.shape[0]]} for photo in visit.photos
    ]
    return JSONResponse({"photos": told, "example": visit.is_example})


def _side(request: Request) -> int:
    side = request.path_params["side"]
    if side not in (0, 1):
        raise HynetError("there are two photos, 0 and 1.")
    return side


def _name(request: Request) -> str:
    """Return the name of an uploaded file; it travels in a header, which only scripts of this page can add."""
    name = unquote(request.headers.get("x-name", ""))
    if not name:
        raise BadInput("an upload needs the name of its file in the header X-Name.")
    return "".join(letter if letter.isprintable() else "�" for letter in name)[-200:]


async def _received(request: Request, path: Path) -> None:
    try:
        async with asyncio.timeout(60 * MOST_MINUTES):
            with path.open("wb") as file:
                await receive(request, file)
    except TimeoutError:
        raise BadInput(f"the upload took more than {MOST_MINUTES:g} minutes; save the photo smaller.") from None


async def _json(request: Request) -> Any:
    content = b""
    async for piece in request.stream():
        content += piece
        if len(content) > MOST_JSON:
            raise BadInput("these are no settings of this page.")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise BadInput("these are no settings of this page.") from None


def _missing() -> str | None:
    """Say which package reconstruction needs, if it is missing. COLMAP is looked up only: another process uses it."""
    if all(find_spec(package) for package in ("pycolmap", "threadpoolctl", "scipy")):
        return None
    return "reconstruction needs pycolmap: pip install 'hynet-features[sfm]'"
