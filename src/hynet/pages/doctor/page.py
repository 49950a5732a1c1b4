"""An examination, or two of them beside each other, as one self-contained page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ... import pages
from ...types import Array
from .. import Cell, escape
from . import graph
from .comparison import ModelComparison
from .diagnosis import Finding
from .examination import Examination
from .funnel import STAGES, PairCounts, PhotoCounts, StageCounts

MOST_PAIRS = 1000  # rows of the table of pairs; the JSON holds all
EMPTY = Cell("–")
LEGEND = (
    "Lines are verified pairs, wider with more matches. Red rings are photos that are not in the model, dashed lines "
    "their matches that agree on no geometry. Numbers show where the mouse rests."
)


def page(found: Examination | ModelComparison) -> str:
    """The whole document."""
    return _two_models(found) if isinstance(found, ModelComparison) else _one_model(found)


def _one_model(found: Examination) -> str:
    body = [
        f"<h1>{escape(found.model)}</h1>",
        f"<p>{escape(found.summary)}</p>",
        *(f'<p class="warn">{escape(note)}</p>' for note in found.notes),
        _missing(found.findings, "Missing photos"),
        f"<h2>Photos</h2>{_photos(found.funnel)}",
        f"<h2>Pairs</h2><p>{LEGEND}</p>{graph.draw(found.funnel)}{_pairs(found.funnel)}",
    ]
    return pages.page(f"Doctor: {found.model}", "\n".join(body), scripts=[pages.asset("sort.js")])


def _two_models(beside: ModelComparison) -> str:
    places = _common_places(beside.first.funnel, beside.second.funnel)
    graphs = [
        f"<figure><figcaption>{name}: {escape(each.model)}</figcaption>{graph.draw(each.funnel, places)}</figure>"
        for name, each in (("First", beside.first), ("Second", beside.second))
    ]
    body = [
        "<h1>Two models of the same photos</h1>",
        f"<p>First: <b>{escape(beside.first.model)}</b>. {escape(beside.first.summary)}</p>",
        f"<p>Second: <b>{escape(beside.second.model)}</b>. {escape(beside.second.summary)}</p>",
        *(f'<p class="warn">{escape(note)}</p>' for note in beside.notes),
        f"<p>{escape(beside.verdict)}</p>",
        _totals(beside),
        "<h2>Photos</h2><p>First → second; a click on a heading sorts by the difference.</p>"
        + _side_by_side("photo", beside.photos, STAGES),
        f'<h2>Pairs</h2><p>{LEGEND}</p><div class="charts">{"".join(graphs)}</div>',
        _side_by_side("pair", beside.pairs, STAGES[1:]),
        _missing(beside.first.findings, "Missing in the first"),
        _missing(beside.second.findings, "Missing in the second"),
    ]
    return pages.page("Doctor: two models", "\n".join(body), scripts=[pages.asset("sort.js")])


def _common_places(first: StageCounts, second: StageCounts) -> Array | None:
    """Each photo at the same place in both graphs, so that the eye can compare; None where the photos differ."""
    if [photo.name for photo in first.photos] != [photo.name for photo in second.photos]:
        return None
    return graph.layout(len(first.photos), first.pairs + second.pairs)


def _missing(findings: Sequence[Finding], title: str) -> str:
    if not findings:
        return ""
    rows = [
        [
            Cell(escape(finding.photo), finding.photo, "bad"),
            Cell(escape(finding.reason), finding.reason, "words"),
            Cell(escape(finding.sentence), finding.sentence, "words"),
        ]
        for finding in findings
    ]
    first_of_kind: dict[str, Finding] = {}
    for finding in findings:
        first_of_kind.setdefault(finding.reason, finding)
    advice = [
        f"<h3>To try where a photo is lost by: {escape(reason)}</h3>"
        f"<ul>{''.join(f'<li>{_line(line)}</li>' for line in finding.advice)}</ul>"
        for reason, finding in first_of_kind.items()
    ]
    return f"<h2>{title}</h2>{pages.table(['photo', 'lost by', 'how far it got'], rows)}{''.join(advice)}"


def _line(advice: str) -> str:
    """A command in the typeface of commands."""
    words, found, command = advice.partition("hynet ")
    return escape(words) + (f"<code>hynet {escape(command)}</code>" if found else "")


def _photos(funnel: StageCounts) -> str:
    rows = [
        [
            Cell(escape(photo.name), photo.name, "" if photo.registered else "bad"),
            *(_count(getattr(photo, stage)) for stage in STAGES),
            Cell("yes" if photo.registered else "no", int(photo.registered), "" if photo.registered else "bad"),
        ]
        for photo in funnel.photos
    ]
    return pages.table(["photo", *STAGES, "in the model"], rows)


def _pairs(funnel: StageCounts) -> str:
    names = [photo.name for photo in funnel.photos]
    strongest = sorted(funnel.pairs, key=graph.strength, reverse=True)[:MOST_PAIRS]
    rows = []
    for pair in strongest:
        name = f"{names[pair.first]} – {names[pair.second]}"
        counts = [_count(getattr(pair, stage)) for stage in STAGES[1:]]
        rows.append([Cell(escape(name), name), *counts, Cell(escape(pair.geometry), pair.geometry)])
    return pages.table(["pair", *STAGES[1:], "geometry"], rows) + _cut(len(funnel.pairs))


def _totals(beside: ModelComparison) -> str:
    rows = [
        [Cell(escape(name), name), *map(_count, counts), Cell(f"{ratio:.2f}", ratio) if ratio is not None else EMPTY]
        for name, counts, ratio in beside.totals()
    ]
    return pages.table(["in all", "first", "second", "second / first"], rows)


def _side_by_side(
    kind: str,
    rows: Mapping[str, tuple[PhotoCounts | PairCounts | None, PhotoCounts | PairCounts | None]],
    stages: Sequence[str],
) -> str:
    """The first's count and the second's in one cell, which sorts by the difference."""
    cells = [
        [Cell(escape(name), name), *(_change(*(getattr(each, stage, None) for each in both)) for stage in stages)]
        for name, both in list(rows.items())[:MOST_PAIRS]
    ]
    return pages.table([kind, *stages], cells) + _cut(len(rows))


def _change(first: int | None, second: int | None) -> Cell:
    counts = " → ".join("–" if count is None else f"{count:,}" for count in (first, second))
    return Cell(counts, None if first is None or second is None else second - first)


def _cut(rows: int) -> str:
    return f"<p><small>{MOST_PAIRS:,} of {rows:,} rows; --json has all.</small></p>" if rows > MOST_PAIRS else ""


def _count(count: int | None) -> Cell:
    return EMPTY if count is None else Cell(f"{count:,}", count)
