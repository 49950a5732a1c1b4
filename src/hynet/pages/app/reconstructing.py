"""Many photos -> a 3-D model, in a process of its own that tells how far it is and can be ended at any moment."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
import traceback
import zipfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ... import pages
from ...errors import HynetError
from ...features.settings import FeatureSettings
from ...runtime.processes import EndedEarly, Worker, tell
from ...sfm.colmap import MODEL_FILES, read_funnel
from ...sfm.colmap.reading import read_model
from ...sfm.reconstruct import reconstruct
from .. import view
from ..doctor.examination import examine
from ..doctor.page import page as doctor_page
from .choice import Choice
from .desk import Desk
from .visits import Visit

MOST_PHOTOS, MOST_BYTES = 200, 1_000_000_000
MOST_SECONDS = 3600.0
OFTEN = 1.0  # seconds between two looks at the pairs
PHOTOS, MODEL = "photos", "model"  # folders of a visit
RESULTS = {"view.html": "text/html", "doctor.html": "text/html", "model.zip": "application/zip"}


async def work_on(visit: Visit, choice: Choice, desk: Desk) -> None:
    """Reconstruct the album of a visit, and tell the page about it."""
    try:
        async with desk.turn(), asyncio.timeout(MOST_SECONDS):
            await _in_a_process(visit, choice)
    except TimeoutError:
        minutes = MOST_SECONDS / 60
        visit.tell({"stage": "failed", "problem": f"that took more than {minutes:.0f} minutes; take fewer photos."})
    except HynetError as error:
        visit.tell({"stage": "failed", "problem": str(error)})
    except Exception:  # or the page would wait for ever
        traceback.print_exc(file=sys.stderr)
        problem = "something unexpected went wrong; the terminal where hynet app runs says more."
        visit.tell({"stage": "failed", "problem": problem})


async def _in_a_process(visit: Visit, choice: Choice) -> None:
    for left in (visit.folder / MODEL, *(visit.folder / name for name in RESULTS)):
        shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)
    loop = asyncio.get_running_loop()

    def hear(told: dict[str, Any]) -> None:
        if "unexpected" in told:
            print(told.pop("unexpected"), file=sys.stderr)
        loop.call_soon_threadsafe(visit.tell, told)

    with Worker() as worker:
        try:
            await asyncio.to_thread(worker.call, f"{__name__}:reconstruct_album", visit.folder, choice, news=hear)
        except EndedEarly:
            raise HynetError(
                "the process that reconstructs ended early; take fewer photos or fewer keypoints."
            ) from None


# --- In the process ---


def reconstruct_album(folder: Path, choice: Choice) -> None:
    """Reconstruct the photos of a visit and tell how far it is, and how it ended."""
    try:
        _reconstruct(folder, choice)
    except HynetError as error:
        tell({"stage": "failed", "problem": _without(folder, str(error)), "doctor": _doctor(folder)})
    except Exception:
        words = "something unexpected went wrong; the terminal where hynet app runs says more."
        tell({"stage": "failed", "problem": words, "unexpected": traceback.format_exc()})


def _reconstruct(folder: Path, choice: Choice) -> None:
    model, looked = folder / MODEL, 0.0

    def progress(done: int, total: int, what: str) -> None:
        nonlocal looked
        stage = {"matching": "matching", "mapping": "mapping", "refining": "mapping"}.get(what, "features")
        news: dict[str, Any] = {"stage": stage, "done": done, "total": total}
        if stage == "features":
            news["photo"] = what
        elif time.monotonic() > looked + OFTEN or done == total or stage == "mapping":
            looked = time.monotonic()
            news["pairs"] = _pairs(model)
        tell(news)

    settings = FeatureSettings(detector=choice.detector, model=choice.model, max_keypoints=choice.keypoints)
    settings = settings.replace(orientation=choice.orientation)
    tell({"stage": "features", "done": 0, "total": len(list((folder / PHOTOS).iterdir()))})
    done = reconstruct(folder / PHOTOS, model, settings=settings, ratio=choice.ratio, progress=progress)
    found = read_model(model)
    thumbnails = {photo.name: folder / PHOTOS / photo.name for photo in found.photos}
    page = view.page(found, f"{done.registered} of {done.photos} photos", photos=thumbnails)
    pages.write(folder / "view.html", page)
    with zipfile.ZipFile(folder / "model.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in (*MODEL_FILES, "points.ply", "table.md"):
            if (model / name).is_file():  # older pycolmap writes no frames and rigs
                archive.write(model / name, f"{MODEL}/{name}")
    table = {name: value for name, value in asdict(done).items() if name not in ("model", "unreadable")}
    registered = [photo.name for photo in found.photos]
    pairs, doctor = _pairs(model), _doctor(folder)
    tell({"stage": "done", "table": table, "registered": registered, "pairs": pairs, "doctor": doctor})


def _pairs(model: Path) -> list[tuple[str, str, int, int]]:
    """Each pair with its matches and its inliers; between two writes of our own, so nobody waits for anybody."""
    try:
        funnel = read_funnel(model / "database.db")
    except HynetError:  # not there yet
        return []
    return [(*pair, count, funnel.inliers[pair]) for pair, count in funnel.matches.items() if count]


def _doctor(folder: Path) -> dict[str, Any] | None:
    """Diagnose the model as `hynet doctor` does, and write its page, without paths of folders on this machine."""
    try:
        found = examine(folder / MODEL)
    except HynetError:  # it ended before there was anything to examine
        return None
    findings = [
        replace(
            each,
            sentence=_without(folder, each.sentence),
            advice=tuple(_without(folder, line) for line in each.advice),
        )
        for each in found.findings
    ]
    notes = [_without(folder, note) for note in found.notes]
    found = replace(found, model=MODEL, findings=findings, notes=notes)
    pages.write(folder / "doctor.html", doctor_page(found))
    return {"summary": found.summary, "notes": notes, "findings": [asdict(each) for each in findings]}


def _without(folder: Path, sentence: str) -> str:
    return sentence.replace(f"{folder.resolve()}/", "").replace(f"{folder}/", "")
