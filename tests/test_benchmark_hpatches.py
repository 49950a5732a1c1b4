"""HPatches' tasks against the public benchmark re-stated as loops, and its file layouts made small."""

from __future__ import annotations

import json
import shutil

import cv2
import numpy as np
import pytest
from PIL import Image

import reference
from conftest import exchange
from hynet import metrics
from hynet.benchmarks import BENCHMARKS
from hynet.cli import main
from hynet.datasets import synthetic
from hynet.datasets.hpatches import COLUMNS
from hynet.errors import BadData, DataNotFound
from hynet.evaluation import distances
from hynet.evaluation.contestants import Contestant
from hynet.evaluation.hpatches import csv_files as hpatches_csv
from hynet.evaluation.hpatches import scores as hpatches_scores
from hynet.evaluation.hpatches import summary as hpatches_summary
from hynet.evaluation.hpatches import tasks as hpatches_tasks
from hynet.features.descriptors.resizing import resized

SIZES = (14, 9, 23)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def descriptors(kind, sizes=SIZES, dim=16):
    """Of each sequence (16, N, D): noisy copies of one vector a patch. The coarse ones are full of equal distances."""
    rng = np.random.default_rng(1)
    found = []
    for size in sizes:
        stacks = rng.normal(size=(1, size, dim)) + 0.9 * rng.normal(size=(16, size, dim))
        if kind == "coarse":
            stacks = np.round(stacks / 1.5)
            stacks[3] = stacks[0]  # and of equal vectors
        if kind == "constant":
            stacks = np.ones_like(stacks)
        found.append(stacks.astype(np.float32))
    return found


def named(described):
    return {s: dict(zip(COLUMNS, stacks, strict=True)) for s, stacks in enumerate(described)}


@pytest.fixture(scope="module")
def lists():
    return hpatches_tasks.draw([np.full(size, 50.0) for size in SIZES])


@pytest.mark.parametrize("kind", ["smooth", "coarse", "constant"])
def test_compatible_scores_are_those_of_the_public_benchmark(kind, lists):
    described = descriptors(kind)
    scores = hpatches_summary.scored(described, lists)
    for negative, name in ((lists.intra, "intra"), (lists.inter, "inter")):
        for noise, (auc, ap) in reference.hpatches_verification(named(described), lists.positive, negative).items():
            ours = scores.verification[noise, name]
            assert (ours.auc["listed"], ours.ap["listed"]) == pytest.approx((auc, ap), abs=1e-9)
    for (sequence, column), ap in reference.hpatches_matching(named(described)).items():
        place = sequence, "eht".index(column[0]), int(column[1]) - 1
        assert scores.matching["listed"][place] == pytest.approx(ap, abs=1e-9)
    pools = hpatches_scores.POOLS
    expected = reference.hpatches_retrieval(named(described), lists.queries, lists.distractors, pools)
    for (query, noise, pool), ap in expected.items():
        place = query, "eht".index(noise), pools.index(pool)
        assert scores.retrieval["listed"][place] == pytest.approx(ap, abs=1e-9)


@pytest.mark.parametrize("pools", [(6, 9, 12, 100), (6, 8)])
@pytest.mark.parametrize("kind", ["smooth", "coarse"])
def test_pools_are_the_first_entries_of_the_list(monkeypatch, lists, kind, pools):
    described = descriptors(kind)
    monkeypatch.setattr(hpatches_scores, "POOLS", pools)
    scores = hpatches_scores.retrieval(described, lists)
    expected = reference.hpatches_retrieval(named(described), lists.queries, lists.distractors, pools)
    found = [scores["listed"][q, "eht".index(noise), pools.index(pool)] for q, noise, pool in expected]
    assert found == pytest.approx(list(expected.values()), abs=1e-9)


def test_where_nothing_ties_both_ways_of_scoring_agree(lists):
    scores = hpatches_summary.scored(descriptors("smooth"), lists)
    corrected, compatible = (hpatches_summary.row(scores, area) for area in ("fair", "listed"))
    assert corrected == pytest.approx(compatible, abs=1e-6)  # verification's distances are single precision: some tie


def test_a_constant_descriptor_is_rewarded_by_the_public_code_only(lists):
    scores = hpatches_summary.scored(descriptors("constant"), lists)
    assert hpatches_summary.row(scores, "listed")["retrieval"] == 100
    corrected = hpatches_summary.row(scores, "fair")
    assert corrected["verification"] < 20
    assert corrected["verification_auc"] == pytest.approx(50)
    assert corrected["matching"] < 10
    assert corrected["retrieval"] < 45  # five right ones among five and some fifteen


@pytest.mark.parametrize("column", ["verification", "verification_auc"])
def test_an_interval_of_verification_holds_its_value_and_grows_with_what_sequences_differ_by(column):
    sizes = (40,) * 8
    lists = hpatches_tasks.draw([np.full(size, 50.0) for size in sizes])
    alike = descriptors("smooth", sizes)
    rng = np.random.default_rng(0)
    unlike = [stacks + 2 * s * rng.normal(size=stacks.shape).astype(np.float32) for s, stacks in enumerate(alike)]
    widths = []
    for described in (descriptors("constant", sizes), alike, unlike):
        scores = hpatches_summary.scored(described, lists)
        low, high = metrics.interval(hpatches_summary.redrawn(scores, "fair")[column])
        value = hpatches_summary.row(scores, "fair")[column]
        assert low - 1e-3 <= value <= high + 1e-3
        widths.append(high - low)
    assert widths[0] < widths[1] < widths[2]


def test_redrawn_roc_is_that_of_a_list_in_which_every_pair_stands_as_often_as_it_is_drawn():
    rng = np.random.default_rng(0)
    negative, positive = rng.normal(1.0, 0.4, 3000), rng.normal(0.5, 0.4, 900)
    of_negative, of_positive = rng.integers(3, size=(3000, 2)), rng.integers(3, size=900)
    positive += 0.3 * of_positive  # sequence 2 is the hardest
    weights = np.array([[1, 1, 1], [0, 1, 2], [3, 0, 0]])
    ranking = hpatches_scores._Ranking(np.abs(negative), np.abs(positive))
    moved = hpatches_scores._redrawn(ranking, of_negative, of_positive, weights)["auc"]

    def area(drawn):
        pairs = np.where(of_negative[:, 0] == of_negative[:, 1], drawn[of_negative[:, 0]], drawn[of_negative].prod(1))
        listed = [np.repeat(np.abs(negative), pairs), np.repeat(np.abs(positive), drawn[of_positive])]
        return metrics.roc_auc(np.concatenate(listed), np.repeat([False, True], [len(some) for some in listed]))

    assert moved[0] == 0
    assert moved[1:] == pytest.approx([area(drawn) - area(weights[0]) for drawn in weights[1:]], abs=2e-3)
    assert moved[1] < -0.05 < 0.05 < moved[2]


def test_corrected_retrieval_is_the_mean_over_all_orders():
    """One query whose five right ones tie with two of three distractors: 5040 orders of seven, one before them."""
    positives = np.full((1, 15), 2.0)
    nearer, equal = np.full((1, 15, 7), 1), np.full((1, 15, 7), 2)
    found = hpatches_scores._retrieved(positives, nearer, equal)
    listed, right = [1.0] + [2.0] * 7, [False] + [True] * 5 + [False] * 2
    orders = reference.over_all_orders(reference.listed_precision, listed, right)
    assert found["fair"] == pytest.approx(np.full((1, 3, 7), orders))


def test_nearest_decides_what_rounding_of_a_product_cannot():
    rng = np.random.default_rng(0)
    first = 300 * rng.normal(size=(60, 32)).astype(np.float32)  # as large as SIFT's histograms
    near = first[:40] + 1e-3 * rng.normal(size=(40, 32)).astype(np.float32)
    second = np.concatenate([near, near, first[:20] + 1e-3, first[20:40] + np.float32(0.00099)])
    apart_from, found = distances.nearest(first, second)
    apart = reference.cdist(first, second)
    assert (found == apart.argmin(1)).all()
    assert (apart_from == apart.min(1)).all()


def test_drawn_lists_keep_the_rules_of_the_release():
    textures = [np.where(np.arange(size) % 4 == 0, 5.0, 50.0) for size in (40, 10, 90)]
    lists = hpatches_tasks.draw(textures, seed=3)
    sizes = np.array([40, 10, 90])
    for pairs in (lists.positive, lists.intra, lists.inter):
        assert len(pairs) == 20 * sizes.sum()
        assert (pairs[:, 1] != pairs[:, 4]).all()  # two different images
        assert pairs[:, [1, 4]].max() == 4  # the fifth is never drawn
        for s, i in ((0, 2), (3, 5)):
            assert (pairs[:, i] < sizes[pairs[:, s]]).all()
    assert (lists.positive[:, [0, 2]] == lists.positive[:, [3, 5]]).all()
    assert (lists.intra[:, 0] == lists.intra[:, 3]).all()
    assert (lists.intra[:, 2] != lists.intra[:, 5]).all()
    assert ((lists.inter[:, 0] != lists.inter[:, 3]) | (lists.inter[:, 2] != lists.inter[:, 5])).all()
    textured = 30 + 7 + 67
    assert len(lists.queries) == textured // 3
    asked, others = set(map(tuple, lists.queries.tolist())), set(map(tuple, lists.distractors.tolist()))
    assert not asked & others
    assert len(asked | others) == textured
    assert all(i % 4 for _, i in asked | others)  # textured ones only
    assert (hpatches_tasks.draw(textures, seed=3).inter == lists.inter).all()
    assert (hpatches_tasks.draw(textures, seed=4).inter != lists.inter).any()


# --- file layouts ---


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """Two small sequences in the layout of the patch release: each stack an ever noisier copy of the first."""
    root = tmp_path_factory.mktemp("release")
    rng = np.random.default_rng(0)
    for name, size in (("i_one", 20), ("v_two", 16)):
        picture = synthetic.texture((400, 400), len(name) + size)
        corners = rng.integers(0, 400 - 65, (size, 2))
        reference_patches = np.stack([picture[y : y + 65, x : x + 65] for x, y in corners]).astype(float)
        (root / name).mkdir()
        for column in COLUMNS:
            noise = {"r": 0, "e": 8, "h": 25, "t": 60}[column[0]]
            noisy = reference_patches + rng.normal(0, 1, reference_patches.shape) * noise
            stack = np.clip(noisy, 0, 255).astype(np.uint8).reshape(-1, 65)
            Image.fromarray(cv2.GaussianBlur(stack, (0, 0), 1)).save(root / name / f"{column}.png")
    return root


def evaluate(capsys, *args):
    assert main(["evaluate", "hpatches", *map(str, args), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_command_measures_and_every_report_has_its_sanity_rows(release, capsys, tmp_path):
    told = evaluate(capsys, "--model", "sift", "--data", release, "--out", tmp_path)
    assert {"benchmark", "data", "columns", "rows", "intervals"} == set(told)
    assert list(told["rows"]) == ["sift", "random", "constant"]
    sift, random, constant = told["rows"].values()
    assert set(told["columns"]) == set(sift)
    assert sift["matching_easy"] >= sift["matching_hard"] >= sift["matching_tough"]
    assert sift["matching"] > 50
    for task in ("verification", "matching", "retrieval"):
        assert sift[task] > random[task] + 20
        assert constant[task] < 50
        low, high = told["intervals"]["sift"][task]
        assert low <= sift[task] <= high
    written = json.loads((tmp_path / "hpatches.json").read_text())
    assert written["rows"] == told["rows"]
    assert written["details"]["sequences"] == {"i_one": 20, "v_two": 16}
    assert "53.97" in (tmp_path / "hpatches.md").read_text()
    assert {path.name for path in tmp_path.glob("*.svg")} == {
        f"hpatches-{name}.svg" for name in ("bars", "roc", "pr", "pools")
    }


def test_what_is_written_as_csv_scores_as_what_was_described(release, capsys, tmp_path):
    args = "--data", release, "--mode", "compatible"
    ours = evaluate(capsys, "--model", "rootsift", *args, "--write-csv", tmp_path)["rows"]["rootsift"]
    rows = np.loadtxt(tmp_path / "rootsift" / "v_two" / "t5.csv", delimiter=",")
    assert rows.shape == (16, 128)
    assert [path.name for path in tmp_path.iterdir()] == ["rootsift"]  # nobody wants to read the sanity rows
    theirs = evaluate(capsys, "--csv", tmp_path / "rootsift", *args)["rows"]
    assert theirs[str(tmp_path / "rootsift")] == ours
    assert list(theirs) == [str(tmp_path / "rootsift"), "random", "constant"]


def test_a_folder_of_csv_named_like_a_model_does_not_vanish(release, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evaluate(capsys, "--model", "sift", "--data", release, "--write-csv", ".")
    assert main(["evaluate", "hpatches", "--model", "sift", "--csv", "sift", "--data", str(release)]) == 2
    assert "sift is named twice" in capsys.readouterr().err


class Grey:
    patch_size, dim = 32, 1024

    def describe(self, patches):
        return resized(patches, 32).reshape(len(patches), -1).astype(np.float32)


def test_stacks_are_cut_from_image_sequences_and_those_of_removed_ones_take_no_part(capsys, tmp_path):
    for number, name in enumerate(("one", "two")):
        picture = synthetic.texture((128, 96), number)
        (tmp_path / name).mkdir()
        for k in range(1, 7):
            cv2.imwrite(str(tmp_path / name / f"{k}.png"), picture)
            np.savetxt(tmp_path / name / f"H_1_{k}", np.eye(3))
    both = BENCHMARKS["hpatches"]([Contestant("grey", Grey())], tmp_path)
    assert both.rows["grey"]["matching_easy"] > both.rows["random"]["matching_easy"]
    shutil.rmtree(tmp_path / "two")
    alone = BENCHMARKS["hpatches"]([Contestant("grey", Grey())], tmp_path)
    assert list(alone.details["sequences"]) == ["one"]
    assert alone.rows["grey"]["retrieval"] is None
    assert alone.details["sequences"]["one"] == both.details["sequences"]["one"]
    assert any(note.startswith("No retrieval") for note in alone.notes)


def test_the_release_s_own_lists_are_used_where_they_are_given(release, tmp_path, capsys):
    rows = {
        "verif_pos": "s1,t1,idx1,s2,t2,idx2\ni_one,0,3,i_one,1,3\nv_two,2,5,v_two,4,5\n" * 5,
        "verif_neg_intra": "s1,t1,idx1,s2,t2,idx2\ni_one,0,3,i_one,1,4\nv_two,2,5,v_two,4,15\n",
        "verif_neg_inter": "s1,t1,idx1,s2,t2,idx2\ni_one,0,3,v_two,1,3\nv_two,2,5,i_one,4,19\n",
        "retr_queries": "s,idx\ni_one,0\nv_two,7\n",
        "retr_distractors": "s,idx\ni_one,1\nv_two,8\nv_two,9\n",
    }
    for name, text in rows.items():
        text = text.replace("\ns1,t1,idx1,s2,t2,idx2", "")
        (tmp_path / f"{name}_split-full.csv").write_text(text)
    lists = hpatches_tasks.read(tmp_path, "full", ["i_one", "v_two"], [20, 16])
    assert lists.inter.tolist() == [[0, 0, 3, 1, 1, 3], [1, 2, 5, 0, 4, 19]]
    assert lists.distractors.tolist() == [[0, 1], [1, 8], [1, 9]]
    assert main(["evaluate", "hpatches", "--model", "sift", "--data", str(release), "--tasks", str(tmp_path)]) == 0
    assert f"the lists in {tmp_path}" in capsys.readouterr().out
    evaluation = BENCHMARKS["hpatches"](["sift"], release, tasks=tmp_path)
    assert "10 pairs" in evaluation.notes[0]
    with pytest.raises(BadData, match="does not have"):
        hpatches_tasks.read(tmp_path, "full", ["i_one", "v_two"], [20, 15])
    (tmp_path / "verif_neg_inter_split-full.csv").write_text("s1,t1,idx1,s2,t2,idx2\ni_one,0,3,v_two,6,3\n")
    with pytest.raises(BadData, match="an image other than 0 to 5"):
        hpatches_tasks.read(tmp_path, "full", ["i_one", "v_two"], [20, 16])
    with pytest.raises(BadData, match="names 'v_two', which is not a sequence"):
        hpatches_tasks.read(tmp_path, "full", ["i_one"], [20])
    with pytest.raises(DataNotFound, match=r"no verif_pos_split-a\.csv"):
        hpatches_tasks.read(tmp_path, "a", ["i_one"], [20])


def test_what_was_described_once_is_not_described_again_unless_the_data_change(release, tmp_path):
    calls = []

    class Counting:
        patch_size, dim = 65, 4

        def describe(self, patches):
            calls.append(len(patches))
            return patches[:, ::40, ::40].reshape(len(patches), -1).astype(np.float32)

    first = BENCHMARKS["hpatches"]([Contestant("mine", Counting(), "one")], release)
    described = sum(calls)
    assert described == 16 * 36
    assert BENCHMARKS["hpatches"]([Contestant("mine", Counting(), "one")], release).rows == first.rows
    assert sum(calls) == described
    BENCHMARKS["hpatches"]([Contestant("mine", Counting(), "other weights")], release)
    assert sum(calls) == 2 * described
    shutil.copytree(release, tmp_path / "moved")
    assert BENCHMARKS["hpatches"]([Contestant("mine", Counting(), "one")], tmp_path / "moved").rows == first.rows
    assert sum(calls) == 2 * described  # the same data elsewhere
    large, *_, small = sorted((tmp_path / "moved" / "i_one").glob("*.png"), key=lambda path: -path.stat().st_size)
    exchange(large, small.read_bytes())
    assert BENCHMARKS["hpatches"]([Contestant("mine", Counting(), "one")], tmp_path / "moved").rows != first.rows


def test_a_descriptor_that_has_diverged_is_told(release):
    class Broken:
        patch_size, dim = 32, 4

        def describe(self, patches):
            return np.full((len(patches), 4), np.nan, np.float32)

    with pytest.raises(BadData, match="broken gives descriptors that are not finite"):
        BENCHMARKS["hpatches"]([Contestant("broken", Broken())], release)


def test_splits_choose_sequences_and_wrong_ones_are_told(release, capsys):
    alone = BENCHMARKS["hpatches"](
        ["sift"], release, split="view"
    )  # distractors would have to come from other sequences
    assert alone.rows["sift"]["retrieval"] is None
    assert alone.rows["sift"]["matching"] > 30
    assert any(note.startswith("No retrieval") for note in alone.notes)
    assert set(alone.pictures) == {"bars", "roc", "pr"}
    assert main(["evaluate", "hpatches", "--model", "sift", "--data", str(release), "--split", "a"]) == 2
    told = capsys.readouterr().err
    assert "split a tests on 40 sequences" in told
    assert told.count("\n") == 1


def test_broken_csv_is_told_in_one_sentence(release, tmp_path):
    with pytest.raises(DataNotFound, match=r"no .*ref\.csv"):
        hpatches_csv.read(tmp_path, ["i_one"], [20])
    hpatches_csv.write(tmp_path, "i_one", np.ones((16, 20, 4), np.float32))
    with pytest.raises(BadData, match="20 rows a file, but the sequence 21"):
        hpatches_csv.read(tmp_path, ["i_one"], [21])
    hpatches_csv.write(tmp_path, "v_two", np.ones((16, 20, 3), np.float32))
    with pytest.raises(BadData, match="v_two has 3 numbers a row, others 4"):
        hpatches_csv.read(tmp_path, ["i_one", "v_two"], [20, 20])
    (tmp_path / "i_one" / "h2.csv").write_text("1,2\n3,x\n")
    with pytest.raises(BadData, match="not a table of numbers"):
        hpatches_csv.read(tmp_path, ["i_one"], [20])
