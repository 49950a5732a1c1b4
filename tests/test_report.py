"""Results that `hynet evaluate --out` writes, told on one page."""

from __future__ import annotations

import json
import re
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hynet.cli import main
from hynet.evaluation import charts, results
from hynet.evaluation.results import Bars, Comparison, Curves, Evaluation
from hynet.pages.report.page import page
from hynet.pages.report.runs import best, is_sanity, joined, read
from hynet.types import Table

ROWS = {"default": 60.0, "sift": 40.0, "random": 1.0, "constant": 99.0}


def evaluation(rows: dict[str, float] = ROWS, spread: float = 2.0, **more: Any) -> Evaluation:
    told: dict[str, Any] = {
        "benchmark": "hpatches",
        "data": "here/",
        "columns": ["matching", "photos"],
        "rows": {method: {"matching": value, "photos": None} for method, value in rows.items()},
        "intervals": {method: {"matching": (value - spread, value + spread)} for method, value in rows.items()},
        **more,
    }
    return Evaluation(**told)


def written(folder: Path, told: Evaluation, command: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return results.write(told, folder, command)[0]


class Cells(HTMLParser):
    """The cells of all tables: (classes of the row, classes of the cell, text); and the tags still open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.row = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        kind = dict(attrs).get("class") or ""
        if tag == "tr":
            self.row = kind
        if tag in ("td", "th"):
            self.cells.append((self.row, kind, ""))
        if tag not in ("meta", "path", "circle", "rect", "line", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in ("path", "circle", "rect", "line"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            row, kind, text = self.cells[-1]
            self.cells[-1] = (row, kind, text + data)


def test_the_page_has_our_rows_beside_the_papers_with_intervals_notes_and_command(tmp_path):
    paper = Table("HPatches", ["matching"], {"HyNet": {"matching": 53.97}}, "Fig. 4")
    told = evaluation(paper=paper, notes=["ten sequences < all"], title="HPatches, split a")
    written(tmp_path, told, "hynet evaluate hpatches --data here/")
    text = page([tmp_path]).html
    cells = Cells(text)
    assert cells.open == []
    assert ("paper", "", "HyNetpaper") in cells.cells
    assert ("paper", "", "53.97") in cells.cells
    assert ("", "best", "60.00[58.00, 62.00]") in cells.cells
    assert ("", "", "40.00[38.00, 42.00]") in cells.cells
    assert ("sanity", "", "constantsanity") in cells.cells
    assert ("sanity", "", "99.00[97.00, 101.00]") in cells.cells
    assert "ten sequences &lt; all" in text
    assert "hynet evaluate hpatches --data here/" in text
    assert "HPatches, split a" in text


def test_the_page_needs_no_network(tmp_path):
    written(tmp_path, evaluation())
    text = page([tmp_path]).html
    assert not re.search(r'(src|href)\s*=\s*"(?!#)', text)
    assert not re.search(r"@import|url\(|fetch\(|https?:", text)


def test_pictures_are_drawn_into_the_page(tmp_path):
    curves = Curves("Accuracy", "pixels", "% right", {"default": {"x": [1, 2, 3], "y": [10, 20, 30]}})
    roc = Curves("ROC", "false", "true", {"sift": {"x": [0.0, 0.1, 1], "y": [0, 50, 100]}}, log_x=True)
    bars = Bars("Fig. 4", {"matching": {"default": 60.0, "sift": 40.0}}, {"matching": {"sift": {"tough": 20.0}}})
    written(tmp_path, evaluation(pictures={"curve": curves, "roc": roc, "bars": bars}))
    text = page([tmp_path]).html
    assert Cells(text).open == []
    assert text.count("<polyline") == 2
    assert text.count('class="bar"') == 2
    assert "<title>tough: 20.00</title>" in text


def test_nobody_is_best_where_intervals_overlap(tmp_path):
    assert best(read(written(tmp_path, evaluation(spread=9.9))), "matching") == {"default"}
    assert not best(read(written(tmp_path, evaluation(spread=10.1))), "matching")
    assert not best(read(written(tmp_path, evaluation(intervals={}))), "matching")


def test_a_difference_on_the_same_samples_counts_more_than_intervals(tmp_path):
    sure = [Comparison("matching", "sift", "default", -20.0, (-25.0, -15.0))]
    assert best(read(written(tmp_path, evaluation(spread=50, comparisons=sure))), "matching") == {"default"}
    open_ = [Comparison("matching", "default", "sift", 20.0, (-1.0, 41.0))]
    assert not best(read(written(tmp_path, evaluation(spread=1, comparisons=open_))), "matching")


def test_the_page_shows_differences_and_which_of_them_are_sure(tmp_path):
    rows = {"nets/mine.pth": 60.0, "default": 50.0, "sift": 40.0}
    found = [
        Comparison("matching", "nets/mine.pth", "sift", 20.0, (15.0, 25.0)),
        Comparison("matching", "default", "sift", 10.0, (-1.0, 21.0)),
    ]
    written(tmp_path, evaluation(rows, comparisons=found))
    text = page([tmp_path]).html
    whole = Cells(text)
    assert whole.open == []
    assert "Differences on the same samples" in text
    below = whole.cells
    assert ("", "best", "+20.00[+15.00, +25.00]") in below
    assert ("", "", "+10.00[-1.00, +21.00]") in below
    assert "mine.pth − sift" in text
    assert "nets/mine.pth − sift" not in text


def test_one_sample_makes_nobody_the_best_and_scenes_are_compared_apart(tmp_path):
    assert not best(read(written(tmp_path, evaluation(spread=0))), "matching")
    perfect = {"default": {"matching": (60.0, 60.0)}, "sift": {"matching": (38.0, 42.0)}}
    assert not best(read(written(tmp_path, evaluation(intervals=perfect))), "matching")
    rows = {"a: default": 60.0, "a: sift": 40.0, "a: constant": 99.0, "b: default": 9.0, "b: sift": 20.0}
    run = read(written(tmp_path, evaluation(rows)))
    assert best(run, "matching") == {"a: default", "b: sift"}
    assert is_sanity("a: constant")


def test_small_errors_are_best_where_the_benchmark_says_so(tmp_path):
    run = read(written(tmp_path, evaluation(lower_is_better=["matching"])))
    assert best(run, "matching") == {"sift"}


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5)), min_size=2, max_size=6), st.booleans())
def test_the_best_is_better_than_all_others_at_the_worse_end_of_its_interval(measured, lower):
    methods = {f"m{k}": (float(value), float(spread)) for k, (value, spread) in enumerate(measured)}
    told = evaluation(
        rows={name: value for name, (value, _) in methods.items()},
        intervals={name: {"matching": (value - spread, value + spread)} for name, (value, spread) in methods.items()},
        lower_is_better=["matching"] if lower else [],
    )
    sign = -1 if lower else 1
    sure = [
        name
        for name, (value, spread) in methods.items()
        if all(
            sign * value - spread > sign * other + other_spread
            for rival, (other, other_spread) in methods.items()
            if rival != name
        )
    ]
    assert best(_as_read(told), "matching") == set(sure[:1])


def _as_read(told: Evaluation):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.json"
        path.write_text(json.dumps({**results.summary(told), "lower_is_better": list(told.lower_is_better)}))
        return read(path)


def test_runs_that_measured_alike_share_a_table_unless_they_disagree(tmp_path):
    first = read(written(tmp_path / "a", evaluation({"default": 60.0, "random": 1.0}), "first"))
    second = read(written(tmp_path / "b", evaluation({"sift": 40.0, "random": 1.0}), "second"))
    again = read(written(tmp_path / "c", evaluation({"sift": 44.0})))
    other = read(written(tmp_path / "d", evaluation(data="elsewhere/")))
    runs = joined([first, second, again, other])
    assert [list(run.rows) for run in runs] == [["default", "random", "sift"], ["sift"], list(ROWS)]
    assert runs[0].commands == ["first", "second"]
    assert best(runs[0], "matching") == {"default"}


def test_broken_and_foreign_files_are_listed_not_fatal(tmp_path, capsys):
    good = written(tmp_path / "good", evaluation())
    (tmp_path / "cut.json").write_text(good.read_text()[:100])
    (tmp_path / "foreign.json").write_text('{"name": "package"}')
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "shape.json").write_text(json.dumps({"benchmark": "x", "columns": ["a"], "rows": [1, 2]}))
    picture = {**json.loads(good.read_text()), "pictures": {"x": {"kind": "film"}}}
    (tmp_path / "picture.json").write_text(json.dumps(picture))
    out = tmp_path / "report.html"
    assert main(["report", str(tmp_path), "--out", str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["results"] == [str(good)]
    assert {Path(path).name for path in told["skipped"]} == {
        "cut.json",
        "foreign.json",
        "bytes.json",
        "deep.json",
        "shape.json",
        "picture.json",
    }
    assert all(Path(path).name in out.read_text() for path in told["skipped"])


@pytest.mark.parametrize("content", [None, "", "{}"])
def test_no_results_at_all_are_one_sentence(content, tmp_path, capsys):
    folder = tmp_path / "results"
    if content is not None:
        folder.mkdir()
        (folder / "x.json").write_text(content)
    assert main(["report", str(folder), "--out", str(tmp_path / "report.html")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


def test_a_number_beyond_all_floats_is_no_number(tmp_path, capsys):
    good = written(tmp_path, evaluation())
    told = json.loads(good.read_text())
    told["rows"]["enormous"] = dict.fromkeys(told["columns"], 10**400)
    good.write_text(json.dumps(told))
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "report.html"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"] == [str(good)]


def test_names_from_outside_cannot_become_code(tmp_path):
    bad = "<script>alert(1)</script>"
    told = evaluation({bad: 60.0, "sift": 40.0}, title=bad, notes=[bad], columns=["matching", bad], data=bad)
    written(tmp_path, told, bad)
    assert "<script>alert" not in page([tmp_path]).html


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_enclose_what_they_measure_with_few_round_steps(low, span):
    ticks = charts.nice_ticks(low, low + span)
    slack = 1e-6 * (abs(low) + span)
    assert ticks[0] <= low + slack
    assert ticks[-1] >= low + span - slack
    assert 2 <= len(ticks) <= 8


def test_a_series_without_a_curve_has_no_legend_and_one_of_a_single_point_is_a_dot():
    nothing, one = {"x": [0.0, 0.0], "y": [10.0, 90.0]}, {"x": [1.0], "y": [50.0]}  # a logarithm has no 0
    chart = charts.curves(
        "ROC", {"perfect": nothing, "one": one, "ours": {"x": [1, 10, 100], "y": [10, 97, 100]}}, log_x=True, level=95.0
    )
    assert [entry.name for entry in chart.legend] == ["one", "ours"]
    assert chart.inner.count("<circle") == 1
    assert "<title>95</title>" in chart.inner
