"""What the paper's figures claim, asked of the figures themselves; those of studies are in test_studies.py."""

from __future__ import annotations

import json
import re
from math import inf, pi

import numpy as np
import pytest

from conftest import write_set
from hynet import descriptors, similarity
from hynet.cli import main
from hynet.features.descriptors import outline
from hynet.paper.figures import drawing, gradients, style
from hynet.paper.figures.drawing import FIGURES, Sources
from hynet.training.angles import angles


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All figures that need no study, and what the command printed of them."""
    out = tmp_path_factory.mktemp("figures")
    data = write_set(out / "set", 30, seed=5)
    found = drawing.draw(out, Sources(["rootsift"], data, None, batches=2), "hynet paper figures --data set")
    return out, found


def test_figures_that_need_no_study_are_there_as_svg_and_png_with_captions(folder):
    out, found = folder
    text = (out / "figures.md").read_text()
    for name in ("fig1", "fig2a", "fig2b", "fig3", "fig5b"):
        assert found[name] == out / f"{name}.svg"
        assert (out / f"{name}.svg").read_text().startswith("<?xml")
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"**{name}.**" in text
    assert "hynet paper figures --data set" in text


@pytest.mark.parametrize(
    ("name", "study"), [("fig4", "rivals"), ("fig5a", "grid"), ("fig5c", "losses"), ("figA", "sosr")]
)
def test_a_figure_that_needs_a_study_says_which_and_leaves_no_frame(folder, name, study):
    out, found = folder
    assert re.match(rf"{name} needs a study: `hynet paper ablate {study} ", found[name])
    assert found[name] in (out / "figures.md").read_text()
    assert not (out / f"{name}.svg").exists()


def test_without_a_patch_set_the_angles_are_not_drawn_and_every_figure_has_an_answer(tmp_path, capsys, monkeypatch):
    quick = {name: make for name, make in FIGURES.items() if name not in ("fig1", "fig3")}
    monkeypatch.setattr(drawing, "FIGURES", quick)
    assert main(["paper", "figures", "--out", str(tmp_path), "--batches", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["figures"]
    assert told.keys() == quick.keys()
    assert "--data SET" in told["fig2a"]
    assert set(FIGURES) == {"fig1", "fig2a", "fig2b", "fig3", "fig4", "fig5a", "fig5b", "fig5c", "figA"}


def test_the_same_figure_is_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        with style.styled():
            style.save(gradients.magnitudes(), "fig2b", tmp_path / name, "")
    for kind in ("svg", "png"):
        assert (tmp_path / "a" / f"fig2b.{kind}").read_bytes() == (tmp_path / "b" / f"fig2b.{kind}").read_bytes()


# --- Fig. 1 ---


@pytest.fixture(scope="module")
def vectors():
    x, y = np.random.default_rng(0).normal(size=(2, 128))
    return 3 * x + y, x + 2 * y


@pytest.mark.parametrize("measure", gradients.SHOWN)
def test_parallel_parts_vanish_for_s_and_d_and_for_no_other(measure, vectors):
    x, y = vectors
    parts = gradients.descent(measure, x, y)
    assert np.allclose(parts.parallel + parts.orthogonal, parts.whole)
    share = np.linalg.norm(parts.parallel) / np.linalg.norm(parts.whole)
    assert share < 1e-12 if measure in ("s", "d") else share > 0.05


@pytest.mark.parametrize("measure", gradients.SHOWN)
def test_a_positive_pair_is_pulled_together(measure, vectors):
    x, y = vectors
    moved = x + 1e-3 * gradients.descent(measure, x, y).whole
    closer = similarity.MEASURES[measure](moved, y) - similarity.MEASURES[measure](x, y)
    assert closer * gradients.SHOWN[measure][0] > 0


def test_figure_1_draws_the_parallel_part_only_where_there_is_one(vectors):
    figure = gradients.directions(*vectors, "made up").figure
    assert [axes.get_title() for axes in figure.axes] == [symbol for _, symbol in gradients.SHOWN.values()]
    for axes, measure in zip(figure.axes, gradients.SHOWN, strict=True):
        colours = [text.arrow_patch.get_edgecolor() for text in axes.texts if text.arrow_patch is not None]
        green = [colour for colour in colours if np.allclose(colour[:3], (0, 158 / 255, 115 / 255), atol=0.01)]
        assert len(green) == (0 if measure in ("s", "d") else 2)  # one at x, one at y


# --- Fig. 2 and 5b ---


def test_g_s_rises_and_g_d_falls_over_the_first_quarter_turn():
    (axes,) = gradients.magnitudes().figure.axes
    g_s, g_d = (line.get_ydata() for line in axes.lines)
    theta = axes.lines[0].get_xdata()
    assert (theta[0], theta[-1]) == (0, pytest.approx(pi / 2))
    assert (np.diff(g_s) > 0).all()
    assert (np.diff(g_d) < 0).all()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["$g_s$", "$g_d$"]


def test_the_dot_of_each_hybrid_curve_is_its_maximum_of_one():
    (axes,) = gradients.hybrid_magnitudes().figure.axes
    curves, dots = axes.lines[0::2], axes.lines[1::2]
    assert len(curves) == len(dots) == len(gradients.ALPHAS)
    for alpha, curve, dot in zip(gradients.ALPHAS, curves, dots, strict=True):
        theta, values = curve.get_data()
        assert values.max() == pytest.approx(1, abs=1e-6)
        assert theta[values.argmax()] == pytest.approx(dot.get_xdata()[0], abs=2e-3)
        assert dot.get_xdata()[0] == pytest.approx(gradients.steepest(alpha))
    assert gradients.steepest(2.0) == pytest.approx(1.408, abs=1e-3)
    assert (gradients.steepest(0.0), gradients.steepest(inf)) == (0, pi / 2)


def test_hardest_negatives_are_farther_than_partners_and_every_pair_is_counted(tmp_path):
    from hynet import load
    from hynet.datasets import synthetic
    from hynet.paper.figures import measured
    from hynet.training.sampling import mix, pairs

    data = synthetic.patch_set(30, 4, seed=3)
    found = angles(load("rootsift"), data, batches=3)
    assert (found.batches, found.pairs_per_batch) == (3, 30)  # as many as there are points
    assert len(found.positives) == len(found.negatives) == 90
    assert np.median(found.positives) < np.median(found.negatives)
    rows = load("rootsift").describe(data.patches[pairs(mix([data]), 30, seed=0, epoch=0, batches=3)[0].T.ravel()])
    cosines = rows[:30] @ rows[30:].T  # HardNet's candidates: the other side of the batch, by row and by column
    np.fill_diagonal(cosines, -1)
    hardest = np.arccos(np.maximum(cosines.max(0), cosines.max(1)))
    np.testing.assert_allclose(found.negatives[:30], hardest, atol=1e-3)
    (axes,) = measured.theta({"rootsift": found}, "set").figure.axes
    assert axes.get_xlabel() == "θ, rad"
    curves = {line.get_label(): line.get_ydata() for line in axes.lines if line.get_label().startswith("rootsift")}
    assert curves.keys() == {"rootsift: positives", "rootsift: hardest negatives"}
    assert all(values.sum() == pytest.approx(1) for values in curves.values())


# --- Fig. 3 ---


def test_figure_3_is_the_module_layer_by_layer():
    from hynet.paper.figures import measured

    network = descriptors.HyNet()
    layers = outline.outline(network)
    assert [layer.shape for layer in layers] == [
        (32, 32, 32), (32, 32, 32), (64, 16, 16), (64, 16, 16), (128, 8, 8), (128, 8, 8), (128, 1, 1),
    ]  # fmt: skip
    assert layers[0].parts == ("FRN", "TLU", "Conv 3×3, 32", "FRN", "TLU")
    assert layers[2].parts == ("Conv 3×3, 64, /2", "FRN", "TLU")
    assert layers[-1].parts == ("Dropout 0.3", "Conv 8×8, 128", "BN")
    assert sum(layer.parameters for layer in layers) == 1_336_355
    drawn = measured.network(layers, "HyNet")
    words = {text.get_text() for text in drawn.figure.axes[0].texts}
    assert {"\n".join(layer.parts) for layer in layers} <= words
    assert {"patch\n1×32×32", "L2 norm\n128"} <= words
    assert "1,336,355 parameters" in drawn.caption
    assert measured.network(outline.outline(descriptors.HyNet("bn")), "with BN").caption != drawn.caption


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("--study nowhere", "no folder nowhere; --study takes the folder"),
        ("--data nowhere", "nowhere"),
        ("--model default,nowhere.pth", "nowhere.pth"),
    ],
)
def test_what_is_named_and_not_there_is_told_before_anything_is_drawn(tmp_path, capsys, monkeypatch, asked, sentence):
    monkeypatch.chdir(tmp_path)
    assert main(["paper", "figures", "--out", "figures", *asked.split()]) == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
