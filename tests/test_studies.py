"""The paper's studies: one budget for every row, nothing trained twice, and sentences that follow from the numbers."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import fields, replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from conftest import write_set
from hynet import metrics
from hynet.cli import main
from hynet.datasets import synthetic, ubc
from hynet.errors import BadInput
from hynet.features.descriptors.loading import load
from hynet.losses import LOSSES
from hynet.paper import plans, runs, scoring
from hynet.paper.figures.drawing import FIGURES, Sources
from hynet.paper.plans import PLANS, Ordering
from hynet.runtime.parts import Part
from hynet.training import batches, checkpoints, descriptor
from hynet.training.recipes import HYNET, RECIPES


def write_stacks(root: Path, sequences: int = 2, patches: int = 6) -> Path:
    """HPatches' layout: the same patches sixteen times, each time with more noise."""
    rng = np.random.default_rng(0)
    for number in range(sequences):
        folder = root / f"{'iv'[number % 2]}_scene{number}"
        folder.mkdir(parents=True)
        texture = synthetic.texture((65 * patches, 65), seed=number).astype(np.float64)
        stack = texture.reshape(65, patches, 65).swapaxes(0, 1).reshape(-1, 65)
        for column in ("ref", *(f"{noise}{k}" for noise in "eht" for k in range(1, 6))):
            strength = {"r": 0, "e": 8, "h": 20, "t": 40}[column[0]]
            noisy = stack + rng.normal(0, 1, stack.shape) * strength
            cv2.imwrite(str(folder / f"{column}.png"), np.clip(noisy, 0, 255).astype(np.uint8))
    return root


@pytest.fixture(scope="module")
def sets(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("sets")
    write_set(root / "train", 40, seed=1)
    write_set(root / "choose", 30, seed=2)
    write_stacks(root / "test")
    return root


def command(sets: Path, study: str, out: Path, *more: str) -> list[str]:
    given = f"paper ablate {study} --data {sets}/train --validate {sets}/choose --test {sets}/test --out {out}"
    small = "--steps 4 --pairs-per-batch 4 --no-compiled --jobs 1 --json"
    return [*given.split(), *small.split(), *more]


@pytest.fixture(scope="module")
def rivals(sets, tmp_path_factory):
    """A whole study, and the batches that each of its runs was trained on."""
    out = tmp_path_factory.mktemp("study")
    seen: dict[str, list[str]] = {}
    made = batches.batches

    def watched(mixture, config, **where):
        digests = seen.setdefault(f"{config.network} {config.loss} {config.sosr}", [])
        for batch in made(mixture, config, **where):
            digests.append(
                hashlib.sha256(batch.anchors.numpy().tobytes() + batch.positives.numpy().tobytes()).hexdigest()
            )
            yield batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(descriptor, "batches", watched)
        assert main(command(sets, "rivals", out)) == 0
    return out, seen


def test_every_row_of_a_study_sees_the_same_pairs_in_the_same_order(rivals):
    _, seen = rivals
    assert len(seen) == 6  # all methods but SIFT
    first, *others = (digests[:4] for digests in seen.values())
    assert len(set(first)) == 4
    assert all(digests == first for digests in others)


def test_a_study_writes_its_table_with_the_papers_numbers_differences_and_sentences(rivals):
    out, _ = rivals
    told = json.loads((out / "rivals.json").read_text())
    assert list(told["rows"]) == ["HyNet", "SOSNet", "DOAP", "HardNet", "L2-Net", "TFeat", "SIFT"]
    for row in told["rows"].values():
        assert 0 <= row["fpr95"] <= 100
        assert 0 <= row["matching"] <= 100
    assert told["rows"]["HyNet"]["paper_fpr95"] == 0.84
    assert not any("paper_fpr95" in own for own in told["intervals"].values())  # so no chart shows it beside ours
    against = {(each["method"], each["rival"], each["column"]) for each in told["comparisons"]}
    assert {("HyNet", "SOSNet", "fpr95"), ("HyNet", "SIFT", "matching"), ("TFeat", "SIFT", "fpr95")} <= against
    stated = {
        (each["better"], each["worse"], each["column"]): each["sentence"] for each in told["details"]["orderings"]
    }
    others = ("SOSNet", "DOAP", "HardNet", "L2-Net", "TFeat", "SIFT")
    assert {("HyNet", other, column) for other in others for column in ("fpr95", "matching")} <= stated.keys()
    assert {("SOSNet", "DOAP", "fpr95"), ("HardNet", "L2-Net", "fpr95"), ("TFeat", "SIFT", "fpr95")} <= stated.keys()
    assert "(paper: 0.84 and 1.03)" in stated["HyNet", "SOSNet", "fpr95"]
    assert "(paper: 53.97 and 51.62)" in stated["HyNet", "SOSNet", "matching"]
    text = (out / "rivals.md").read_text()
    assert all(sentence in text for sentence in stated.values())
    assert "L2-Net and TFeat were made for SGD" in text
    assert "2 sequences of test." in text  # stacks as they were given
    assert "hynet paper ablate rivals --data" in text


def test_a_study_that_has_ended_trains_nothing_and_says_the_same(rivals, sets, capsys, monkeypatch):
    out, _ = rivals
    before = json.loads((out / "rivals.json").read_text())["rows"]
    monkeypatch.setattr(runs, "train_one", None)  # whoever trains now fails
    assert main(command(sets, "rivals", out)) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["study"] == "rivals"
    assert told["seeds"] == 1
    assert told["paper"]["SIFT"] == {"fpr95": 26.55}
    assert told["rows"]["HyNet"]["matching"] == before["HyNet"]["matching"]


def test_studies_in_one_folder_share_their_runs_and_an_interrupted_one_goes_on(rivals, sets, capsys, monkeypatch):
    out, _ = rivals
    trained: list[str] = []
    train = runs.train_one

    def stopped(data, validate, training):
        trained.append(training.name)
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "train_one", stopped)
    assert main(command(sets, "sosr", out)) == 130
    assert "3 of 4 runs are done; run the same command again to go on." in capsys.readouterr().err
    monkeypatch.setattr(runs, "train_one", train)
    assert main(command(sets, "sosr", out)) == 0
    assert trained == ["HyNet+SOSR, seed 0"]  # HyNet, SOSNet and HardNet are those of `rivals`
    assert list(json.loads(capsys.readouterr().out)["rows"]) == ["HyNet", "HyNet+SOSR", "SOSNet", "HardNet", "SIFT"]


@pytest.fixture(scope="module")
def figures(rivals, sets):
    """Two more studies in the same folder, and the figures of all."""
    out, _ = rivals
    assert main(command(sets, "losses", out)) == 0
    assert main([*command(sets, "grid", out), "--alphas", "1", "2", "--margins", "1.0", "1.2"]) == 0
    return out, Sources(study=out)


def test_figure_5a_has_a_cell_for_each_alpha_and_margin_and_marks_the_best(figures):
    out, sources = figures
    rows = json.loads((out / "grid.json").read_text())["rows"]
    assert set(rows) == {f"alpha {alpha}, m {margin}" for alpha in (1, 2) for margin in (1, 1.2)}
    axes = FIGURES["fig5a"](sources).figure.axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("m", "α")
    values = axes.images[0].get_array()
    assert values.shape == (2, 2)
    assert values[1, 1] == pytest.approx(rows["alpha 2, m 1.2"]["matching"])
    (bold,) = [text.get_text() for text in axes.texts if text.get_weight() == "bold"]
    assert bold == f"{values.max():.2f}"
    assert "Best cell: " in (out / "grid.md").read_text()


def test_figure_5c_has_a_curve_of_each_loss_over_the_steps(figures):
    out, sources = figures
    (axes,) = FIGURES["fig5c"](sources).figure.axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("steps", "FPR@95, %")
    assert len(axes.lines) == 3
    for line in axes.lines:
        assert list(line.get_xdata()) == [1, 2, 3, 4]  # of four steps, all are looked at
    told = json.loads((out / "losses.json").read_text())
    assert axes.lines[0].get_ydata()[-1] == pytest.approx(told["rows"]["s_H"]["fpr95"])


def test_figure_4_has_a_bar_a_method_in_each_task_and_a_legend_for_every_mark(figures):
    _, sources = figures
    figure = FIGURES["fig4"](sources).figure
    panels = figure.axes
    named = {text.get_text() for text in figure.legends[0].get_texts()}
    assert {"easy", "hard", "tough", "all"} <= named
    assert [panel.get_title() for panel in panels][:2] == ["verification", "matching"]
    for panel in panels:
        assert len(panel.patches) == 7
        lengths = [bar.get_width() for bar in panel.patches]
        assert lengths == sorted(lengths)


def test_the_page_of_results_shows_a_study_and_not_its_training_runs(rivals, tmp_path, capsys):
    out, _ = rivals
    assert main(["report", str(out), "--out", str(tmp_path / "page.html"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert str(out / "rivals.json") in told["results"]
    assert told["skipped"] == {}
    assert "paper_fpr95" in (tmp_path / "page.html").read_text()


@pytest.fixture(scope="module")
def components(sets, tmp_path_factory):
    """Table 3 with two seeds and two margins to choose from, after a grid that has one of them."""
    out = tmp_path_factory.mktemp("components")
    few = {"hynet": (0.8, 1.2), "d_only": (0.9, 1.3)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "MARGINS", few)
        cell = command(sets, "grid", out, "--steps", "1", "--alphas", "2", "--margins", "0.8")
        assert main(cell) == 0
        before = set((out / "runs").iterdir())
        assert main(command(sets, "components", out, "--seeds", "2")) == 0
    return out, few, before


def test_the_margin_of_a_similarity_is_the_best_on_the_validation_set_after_a_quarter_of_the_steps(components, sets):
    out, few, before = components
    told = json.loads((out / "components.json").read_text())
    known = ubc.test_pairs(sets / "choose", 60)
    patches = ubc.load(sets / "choose", 32).patches
    measured: dict[str, dict[float, float]] = {"hynet": {}, "d_only": {}}
    for run in (out / "runs").iterdir():
        config = json.loads((run / "run.json").read_text())["config"]
        if config["steps"] == 1:
            rows = load(run / "last.pt").describe(patches)
            distances = np.linalg.norm(rows[known.first] - rows[known.second], axis=1)
            measured[config["loss"]][config["margin"]] = 100 * metrics.fpr95(distances, known.is_match)
    searched = {loss: {float(m): v for m, v in some.items()} for loss, some in told["details"]["margins"].items()}
    assert {loss: tuple(sorted(some)) for loss, some in measured.items()} == few
    for loss, some in searched.items():
        assert some == pytest.approx(measured[loss])
    trained = [json.loads((run / "run.json").read_text())["config"] for run in (out / "runs").iterdir()]
    for loss, some in searched.items():
        best = min(some, key=some.__getitem__)
        assert {config["margin"] for config in trained if config["loss"] == loss and config["steps"] == 4} == {best}
    assert len(before) == 1
    assert len(trained) == 4 + 2 * 8  # the grid's cell is one of the four that are searched


def test_a_row_is_the_mean_of_its_seeds_and_tells_their_spread(components):
    told = json.loads((components[0] / "components.json").read_text())
    for name, row in told["rows"].items():
        for column in ("fpr95", "matching"):
            seeds = told["details"]["values"][name][column]
            assert len(seeds) == 2
            assert row[column] == pytest.approx(np.mean(seeds))
            assert row[f"{column}_spread"] == pytest.approx(abs(seeds[0] - seeds[1]))
    assert any(row["fpr95_spread"] > 0 for row in told["rows"].values())


def test_another_validation_set_chooses_margins_of_its_own_and_trains_no_search_again(components, sets, monkeypatch):
    out, few, _ = components
    write_set(out.parent / "other", 25, seed=7)
    monkeypatch.setattr(plans, "MARGINS", few)
    searched = []
    train = runs.train_one

    def watched(data, validate, training):
        searched.append(training.steps)
        train(data, validate, training)

    monkeypatch.setattr(runs, "train_one", watched)
    before = json.loads((out / "components.json").read_text())["details"]["margins"]
    assert main(command(sets, "components", out, "--validate", str(out.parent / "other"))) == 0
    told = json.loads((out / "components.json").read_text())
    assert told["details"]["margins"] != before
    assert 1 not in searched


def test_curves_are_of_the_validation_set_that_is_named(figures, sets, tmp_path):
    out, _ = figures
    write_set(tmp_path / "other", 25, seed=7)
    config = runs.with_budget(HYNET, runs.Budget(4, 4), 0)
    named = [runs.place(out, config, [sets / "train"], root) for root in (sets / "choose", tmp_path / "other")]
    assert named[0] != named[1]
    assert json.loads((out / "losses.json").read_text())["pictures"]["curves"]["title"].startswith("60 pairs of choose")
    assert "L_A is ahead of s_H at " in (out / "losses.md").read_text()


def test_a_run_goes_on_whether_it_is_compiled_or_not_but_not_with_other_processes():
    compiled = replace(HYNET, compiled=True)
    slow, fast = (checkpoints.about("hynet", how, {}) for how in (replace(HYNET, compiled=False), compiled))
    checkpoints.check_same_run(Path("last.pt"), slow, fast, compiled)
    with pytest.raises(BadInput, match="was made by 4 processes, and 1 would see other batches"):
        checkpoints.check_same_run(Path("last.pt"), slow | {"processes": 4}, fast, compiled)
    earlier = {key: value for key, value in slow.items() if key not in ("processes", "taught_by")}
    checkpoints.check_same_run(
        Path("last.pt"), earlier, fast | {"processes": 4}, compiled
    )  # of a version that noted neither
    taught = {"taught_by": {"teacher": "other"}}
    with pytest.raises(BadInput, match="other weights of the teacher"):
        checkpoints.check_same_run(Path("last.pt"), slow | taught, fast | {"taught_by": {"teacher": "one"}}, compiled)


@pytest.mark.slow
def test_several_processes_train_what_one_would(sets, tmp_path, capsys):
    one, two = (command(sets, "losses", tmp_path / name) for name in ("one", "two"))
    two[two.index("--jobs") + 1] = "2"
    found = []
    for args in (one, two):
        assert main(args) == 0
        found.append(json.loads(capsys.readouterr().out)["rows"])
    assert found[0] == found[1]


@pytest.mark.parametrize("name", PLANS)
def test_rows_differ_in_what_they_are_and_not_in_how_they_are_trained(name):
    plan = PLANS[name]()
    configs = [row.config for row in plan.rows if row.config is not None]
    how = [one.name for one in fields(HYNET) if one.name not in plans.OF_A_ROW]
    for config in configs:
        assert all(getattr(config, setting) == getattr(HYNET, setting) for setting in how)
    assert len({str(config) for config in configs}) == len(configs)
    assert set(plan.paper) <= {row.name for row in plan.rows}
    for each in plan.orderings:
        better, worse = (plan.paper.get(name, {}).get(each.column) for name in (each.better, each.worse))
        if better is not None and worse is not None:  # the paper calls nothing better than its numbers do
            assert better < worse if each.column in scoring.LOWER_IS_BETTER else better > worse


@pytest.mark.parametrize("study", [plans.rivals, plans.sosr])
def test_a_study_by_the_authors_settings_has_files_and_a_title_of_its_own(study):
    equal, own = study(), study(own_settings=True)
    assert own.name == f"{equal.name}-own"
    assert own.title == f"{equal.title}, each trained as its authors did"


def test_a_run_that_kept_no_weights_is_told_and_moves_no_other_rows_result(sets, tmp_path, monkeypatch):
    budgeted = runs.with_budget(HYNET, runs.Budget(1, 4), seed=0)
    trainings = [runs.Training(name, budgeted, tmp_path / name) for name in ("lost", "kept")]

    def trained(data, validate, training):
        training.out.mkdir()
        (training.out / runs.TRAINED).write_text("{}")
        if training.name == "kept":
            torch.save({}, training.out / "last.pt")

    monkeypatch.setattr(runs, "train_one", trained)
    lost, kept = runs.train_all(trainings, [sets / "train"], jobs=1)
    assert lost.diverged == runs.NOTHING_KEPT
    assert kept == runs.Ended(tmp_path / "kept")


def test_a_finished_run_whose_weights_are_cut_short_is_told_and_can_be_removed(rivals, sets, tmp_path, capsys):
    shutil.copytree(rivals[0] / "runs", tmp_path / "runs")
    (weights,) = tmp_path.glob("runs/tfeat-*/last.pt")
    weights.write_bytes(weights.read_bytes()[:1000])
    assert main(command(sets, "rivals", tmp_path)) == 2
    assert "is not a whole checkpoint" in capsys.readouterr().err
    shutil.rmtree(weights.parent)
    assert main(command(sets, "rivals", tmp_path)) == 0


def test_own_settings_train_each_rival_as_its_authors_did_on_as_many_pairs():
    budget = runs.Budget(steps=100, pairs_per_batch=512)
    for row in plans.rivals(own_settings=True).rows:
        if row.config is None:
            continue
        config = runs.with_budget(row.config, budget, seed=3, own=True)
        recipe = RECIPES[{"L2-Net": "l2net"}.get(row.name, row.name.lower())].config
        same = ("optimiser", "learning_rate", "schedule", "start", "pairs_per_batch", "weight_decay", "momentum")
        assert all(getattr(config, name) == getattr(recipe, name) for name in same)
        assert config.steps * config.pairs_per_batch == pytest.approx(100 * 512, rel=0.01)
        assert config.seed == 3


def test_the_search_for_a_margin_and_the_grid_share_runs(sets):
    tried = runs.with_budget(replace(HYNET, margin=0.8), runs.Budget(800, 4), 0, share=0.25)
    cell = next(row.config for row in plans.grid().rows if row.name == plans.cell_name(2.0, 0.8))
    budgeted = runs.with_budget(cell, runs.Budget(200, 4), 0)
    assert runs.place(sets, tried, [sets / "train"]) == runs.place(sets, budgeted, [sets / "train"])


def test_pairs_that_the_validation_set_does_not_list_are_told_before_anything_is_trained(sets, tmp_path, capsys):
    assert main(command(sets, "rivals", tmp_path / "study", "--pair-list", "7")) == 2
    assert "m50_7_7_0.txt" in capsys.readouterr().err
    assert not (tmp_path / "study" / "runs").exists()


def noisy(raw_a, raw_p, *, noise=0.7):
    """A loss whose option is called as a setting of the training."""


def test_an_option_of_a_loss_is_no_setting_of_the_training(sets, monkeypatch):
    monkeypatch.setitem(LOSSES, "noisy", Part(f"{__name__}:noisy", ""))
    spelt = runs.with_budget(replace(HYNET, loss="noisy"), runs.Budget(1, 4), 0)
    assert (spelt.noise, spelt.loss_options) == (HYNET.noise, {"noise": 0.7})


def test_every_row_computes_in_the_precision_of_the_budget_and_has_its_own_folder_for_it(sets):
    rounded, exact = (runs.with_budget(HYNET, runs.Budget(1, 4, precision=how), 0) for how in ("bfloat16", "float32"))
    assert (rounded.precision, exact.precision) == ("bfloat16", "float32")
    assert runs.with_budget(HYNET, runs.Budget(1, 4, precision="auto"), 0) in (rounded, exact)
    places = {runs.place(sets, config, [sets / "train"]) for config in (rounded, exact)}
    assert len(places) == 2


def scores(**rows: tuple[list[float], float]) -> scoring.Scores:
    """Row -> FPR@95 of each seed, and how far it moves when pairs are drawn again."""
    rng = np.random.default_rng(0)
    made = {
        name: scoring.RowScores(
            {"fpr95": np.array(values)}, {"fpr95": np.mean(values) + moves * rng.standard_normal(1000)}
        )
        for name, (values, moves) in rows.items()
    }
    return scoring.Scores(made, None, None, None)


@pytest.mark.parametrize(
    ("ours", "rival", "verdict"),
    [
        (([2.0, 2.2], 0.1), ([4.0, 4.1], 0.1), "shows"),
        (([4.0, 4.1], 0.1), ([2.0, 2.2], 0.1), "reversed"),
        (([2.0, 2.2], 2.0), ([4.0, 4.1], 2.0), "open"),  # too few pairs to tell
        (([2.0, 3.2], 0.1), ([3.0, 4.1], 0.1), "open"),  # a seed of the worse beats one of the better
    ],
)
def test_an_ordering_shows_where_samples_and_seeds_agree(ours, rival, verdict):
    plan = replace(PLANS["losses"](), orderings=[Ordering("s_H", "L_A", "fpr95")])
    (judged,) = scoring.judged(plan, scores(s_H=ours, L_A=rival))
    assert judged.verdict == verdict
    words = {"shows": "holds here", "reversed": "is reversed here", "open": "is inconclusive here"}
    assert words[verdict] in judged.sentence


def test_a_row_without_a_result_is_said_to_be_missing():
    plan = replace(PLANS["losses"](), orderings=[Ordering("s_H", "L_A", "fpr95")])
    (judged,) = scoring.judged(plan, scores(s_H=([2.0], 0.1)))
    assert judged.verdict == "missing"
    assert "not measured" in judged.sentence


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        ({"alpha 2, m 1.2": 50.0, "alpha 1, m 1": 40.0}, "which is the paper's best; better than 1 of 1 others beyond"),
        ({"alpha 2, m 1.2": 50.0, "alpha 1, m 1": 50.0}, "which is the paper's best; better than 0 of 1 others beyond"),
        ({"alpha 2, m 1.2": 40.0, "alpha 1, m 1": 50.0}, "ahead of the paper's best, alpha 2, m 1.2, by 10.00"),
        ({"alpha 1, m 1": 50.0}, "the paper's best, alpha 2, m 1.2, is not in this grid"),
        ({}, "No cell of the grid has a result."),
    ],
)
def test_the_best_cell_of_a_grid_is_told_beside_the_papers(cells, sentence):
    rows = {
        name: scoring.RowScores({"matching": np.array([value])}, {"matching": np.full(10, value)})
        for name, value in cells.items()
    }
    plan = plans.grid(alphas=(1.0, 2.0), margins=(1.0, 1.2))
    (told,) = scoring.best_cell(plan, scoring.Scores(rows, None, None, None))
    assert sentence in told


def test_one_sentence_names_what_shows_and_what_does_not():
    orderings_of = [("a", "b", "fpr95", "shows"), ("a", "c", "fpr95", "shows"), ("b", "c", "matching", "reversed")]
    verdicts = [scoring.Verdict(*each, "") for each in orderings_of]
    assert scoring.summed_up(verdicts) == (
        "Of the paper's 3 orderings 2 hold (a before b, c in FPR@95); 1 is reversed (b before c in mAP of matching)."
    )


def test_a_grid_that_no_loss_takes_is_refused_before_its_first_cell_is_trained(sets, tmp_path, capsys):
    assert main([*command(sets, "grid", tmp_path), "--alphas", "2", "-1"]) == 2
    assert "alpha of the loss hynet must be" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("alphas", [[], ["2", "2"]])
def test_a_grid_of_nothing_or_of_one_cell_twice_is_refused(sets, tmp_path, capsys, alphas):
    assert main([*command(sets, "grid", tmp_path), "--alphas", *alphas, "--margins", "1"]) == 2
    assert "--alphas needs one or more numbers, each once" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--test", "nowhere"], "no SEQUENCE/1.ppm"),
        (["--steps", "0"], "--steps must be 1 or more; got 0."),
        (["--own-settings"], "--own-settings is for rivals and sosr"),
        (["--margins", "0.1"], "--alphas and --margins are for grid"),
        (["--pairs-per-batch", "41"], "41 pairs a batch need as many points"),
        (["--seeds", "0"], "--seeds must be 1 or more"),
        (["--jobs", "0"], "--jobs must be 1 or more"),
        (["--pair-list", "-1"], "--pair-list must be 1 or more"),
    ],
)
def test_a_study_that_cannot_be_run_is_refused_and_leaves_nothing_behind(sets, tmp_path, capsys, more, sentence):
    assert main([*command(sets, "losses", tmp_path / "study"), *more]) == 2
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_set_that_is_trained_on_cannot_choose_margins(sets, tmp_path, capsys):
    assert main([*command(sets, "losses", tmp_path), "--validate", f"{sets}/train"]) == 2
    assert "which is trained on" in capsys.readouterr().err
