"""The photos as a graph of pairs, drawn as SVG: who is linked to whom, how strongly, and who is left out."""

from __future__ import annotations

import numpy as np

from ...types import Array
from .. import escape
from .funnel import PairCounts, StageCounts

SIZE, NAMES = 600, 150  # pixels of the graph, and of the names on either side of it
MARGIN = 20
MOST_EDGES = 2000  # the strongest are drawn; more would be one grey disc
MOST_FORCES = 400  # photos; beyond that they stand in a circle, in the order of their names
LABELS = 40  # photos; beyond that only missing ones are named in the picture


def draw(funnel: StageCounts, places: Array | None = None) -> str:
    """Dots for photos, hollow and red where missing; lines for pairs, as wide as they have verified matches."""
    if not funnel.photos:
        return ""
    places = layout(len(funnel.photos), funnel.pairs) if places is None else places
    strongest = max((strength(pair) for pair in funnel.pairs), default=0) or 1
    linked = sorted((pair for pair in funnel.pairs if strength(pair)), key=strength)[-MOST_EDGES:]
    loose = [pair for pair in funnel.pairs if not strength(pair) and pair.matched and _missing(funnel, pair)]
    parts = [_line(funnel, pair, places, 'class="loose"') for pair in loose[:MOST_EDGES]]
    for pair in linked:
        share = (strength(pair) / strongest) ** 0.5
        style = f'stroke-width="{0.6 + 5 * share:.1f}" opacity="{0.25 + 0.5 * share:.2f}"'
        parts.append(_line(funnel, pair, places, style))
    for photo, (x, y) in zip(funnel.photos, places, strict=True):
        told = f"{photo.name}: {photo.detected:,} detected, {photo.triangulated:,} triangulated"
        kind = "" if photo.registered else ' class="missing"'
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6"{kind}><title>{escape(told)}</title></circle>')
        if len(funnel.photos) <= LABELS or not photo.registered:
            parts.append(_label(photo.name, x, y, kind))
    box = f'width="{SIZE + 2 * NAMES}" height="{SIZE}" viewBox="{-NAMES} 0 {SIZE + 2 * NAMES} {SIZE}"'
    return f'<svg class="graph" {box} role="img" aria-label="graph of pairs">{"".join(parts)}</svg>'


def strength(pair: PairCounts) -> int:
    """Verified matches; of a model alone, the points that both see."""
    return pair.triangulated if pair.verified is None else pair.verified


def layout(photos: int, pairs: tuple[PairCounts, ...], rounds: int = 150) -> Array:
    """(N, 2) pixels: linked photos near each other, all others apart (Fruchterman and Reingold's forces)."""
    turn = 2 * np.pi * np.arange(photos) / max(photos, 1)
    at = np.column_stack([np.cos(turn), np.sin(turn)])  # (N, 2)
    if 2 < photos <= MOST_FORCES:
        pull = np.zeros((photos, photos))
        for pair in pairs:
            pull[pair.first, pair.second] = pull[pair.second, pair.first] = np.log1p(strength(pair))
        pull /= pull.max() or 1
        ideal = 2 / np.sqrt(photos)
        for round_ in range(rounds):
            apart = at[:, None] - at[None]  # (N, N, 2)
            away = np.linalg.norm(apart, axis=2) + 1e-9
            push = ideal**2 / away**2 - pull * away / ideal
            # A weak pull to the middle keeps groups that nothing links from drifting out of sight.
            step = (apart * push[..., None]).sum(1) - 0.5 * at
            longest = np.linalg.norm(step, axis=1, keepdims=True) + 1e-9
            at = at + step / longest * np.minimum(longest, 0.2 * (1 - round_ / rounds))
    if not photos:
        return at
    low, high = at.min(0), at.max(0)
    scale = (SIZE - 2 * MARGIN) / max((high - low).max(), 1e-9)
    return SIZE / 2 + (at - (low + high) / 2) * scale


def _missing(funnel: StageCounts, pair: PairCounts) -> bool:
    return not (funnel.photos[pair.first].registered and funnel.photos[pair.second].registered)


def _line(funnel: StageCounts, pair: PairCounts, places: Array, style: str) -> str:
    (x1, y1), (x2, y2) = places[pair.first], places[pair.second]
    stages = (("matched", pair.matched), ("verified", pair.verified), ("triangulated", pair.triangulated))
    counts = ", ".join(f"{count:,} {stage}" for stage, count in stages if count is not None)
    told = f"{funnel.photos[pair.first].name} – {funnel.photos[pair.second].name}: {counts}"
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}><title>{escape(told)}</title></line>'


def _label(name: str, x: float, y: float, kind: str) -> str:
    side = f'x="{x + 11:.1f}"' if x > SIZE / 2 else f'x="{x - 11:.1f}" text-anchor="end"'
    short = name if len(name) <= 24 else "…" + name[-23:]
    return f'<text {side} y="{y + 4:.1f}"{kind}>{escape(short)}</text>'
