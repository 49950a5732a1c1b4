"""Runs that learn, stop, go on, and say what is wrong."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import hynet
from conftest import train_whole_and_cut
from hynet.cli import main
from hynet.cli.stopping import Terminated, listen_to_sigterm
from hynet.datasets import synthetic, ubc
from hynet.descriptors import DESCRIPTORS
from hynet.errors import BadInput, BadWeights
from hynet.evaluation import charts
from hynet.features.descriptors.weights import network as open_network
from hynet.pages.report import training
from hynet.training import checkpoints, descriptor, logbook, loop, sampling, validation
from hynet.training.configuration import TrainConfig
from hynet.training.recipes import RECIPES
from hynet.training.tiling import Tiled
from hynet.types import PatchPairs, PatchSet

SMALL = TrainConfig(
    epochs=None, steps=6, pairs_per_batch=8, average=0.9, jitter=0.5, light=0.5, compiled=False, log_every=1
)


@pytest.fixture(scope="module")
def patches() -> PatchSet:
    return synthetic.patch_set(40, 4, seed=1)


def pairs_of(patch_set: PatchSet, per_point: int) -> PatchPairs:
    """The first two patches of every point, and the first of each with the third of the point before."""
    first = np.arange(0, len(patch_set), per_point)
    second = np.concatenate([first + 1, np.roll(first, 1) + 2])
    first = np.concatenate([first, first])
    return PatchPairs(first, second, patch_set.points[first] == patch_set.points[second])


def weights(run: Path, name: str = "last.pt") -> dict[str, torch.Tensor]:
    return torch.load(run / name, weights_only=True)["network"]


def test_a_short_run_learns(tmp_path):
    unseen = synthetic.patch_set(150, 4, seed=100)
    known = pairs_of(unseen, 4)
    plain = replace(SMALL, jitter=0.0, light=0.0, average=0.0, dropout=0.0, validate_minutes=60.0)
    config = replace(plain, steps=30, pairs_per_batch=24, learning_rate=0.003, schedule="linear")
    start = validation.validation_error(descriptor.start(config, "cpu").network.describe, unseen, known)
    ended = hynet.train(
        config, {"synthetic": synthetic.patch_set(200, 4, seed=0)}, tmp_path, validate={"unseen": (unseen, known)}
    )
    lines = [line for line in logbook.read(tmp_path) if "loss" in line]
    assert np.mean([line["loss"] for line in lines[-5:]]) < 0.8 * np.mean([line["loss"] for line in lines[:5]])
    assert ended.validation["unseen"] < 0.5 * start
    rows = hynet.load(ended.checkpoint).describe(unseen.patches[:8])
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


@pytest.mark.slow
def test_two_minutes_on_a_cpu_halve_the_error_of_rootsift(tmp_path):
    unseen = synthetic.patch_set(2000, 4, seed=100)
    known = pairs_of(unseen, 4)
    rootsift = validation.validation_error(hynet.load("rootsift").describe, unseen, known)
    # Two minutes are few patches; small batches make more steps of them.
    config = replace(RECIPES["hynet-cpu"].config, minutes=2.0, pairs_per_batch=64)
    data = {"synthetic": synthetic.patch_set(5000, 4, seed=0)}
    ended = hynet.train(config, data, tmp_path, validate={"unseen": (unseen, known)})
    assert ended.validation["unseen"] < rootsift / 2, (ended, rootsift)


KILLED = """
import sys
import hynet
from hynet.datasets import synthetic, ubc
from dataclasses import replace
from functools import partial
sys.path.insert(0, sys.argv[2])
from test_training import SMALL
config = replace(SMALL, checkpoint_minutes=0.0)
hynet.train(config, {"a": synthetic.patch_set(40, 4, seed=1)}, sys.argv[1])
"""


def test_a_run_killed_and_resumed_ends_bit_identical_to_one_that_was_not(tmp_path, patches):
    hynet.train(SMALL, {"a": patches}, tmp_path / "whole")
    killed = tmp_path / "killed"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(killed), str(Path(__file__).parent)])
    try:
        while process.poll() is None and not (killed / "last.pt").exists():
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    interrupted_at = checkpoints.read(killed / "last.pt")["position"]["step"]
    assert 1 <= interrupted_at < SMALL.steps
    hynet.train(SMALL, {"a": patches}, killed, resume=True)
    one, other = weights(tmp_path / "whole"), weights(killed)
    assert all(torch.equal(one[key], other[key]) for key in one)
    logs = [[(line["step"], line["loss"]) for line in logbook.read(run)] for run in (tmp_path / "whole", killed)]
    assert logs[0] == logs[1]


def test_batches_made_ahead_are_those_made_in_turn(patches):
    asked = partial(descriptor.batches, sampling.mix([patches]), SMALL, first=3, per_epoch=4, device="cpu")
    ahead, in_turn = loop.one_ahead(asked()), asked()
    for _ in range(6):
        one, other = next(ahead), next(in_turn)
        assert torch.equal(one.anchors, other.anchors)
        assert torch.equal(one.positives, other.positives)


@pytest.mark.parametrize(("by", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_a_signal_saves_where_it_was_says_so_and_resume_ends_the_run(tmp_path, patches, by, raised):
    def watch(line):
        if line["step"] == 2:
            signal.raise_signal(by)

    listen_to_sigterm()  # as the command line does
    with pytest.raises(raised) as caught:
        hynet.train(SMALL, {"a": patches}, tmp_path, watch=watch)
    assert caught.value.__notes__ == [f"2 steps are kept in {tmp_path}"]
    assert checkpoints.read(tmp_path / "last.pt")["position"]["step"] == 2
    assert hynet.train(SMALL, {"a": patches}, tmp_path, resume=True).steps == SMALL.steps


def test_sgd_goes_on_with_the_momentum_it_had(tmp_path, patches):
    config = replace(SMALL, optimiser="sgd", dampening=0.5, steps=4)
    one, other = (weights(run) for run in train_whole_and_cut(config, patches, tmp_path))
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_a_run_can_start_from_weights_of_the_same_network(tmp_path, patches):
    hynet.train(SMALL, {"a": patches}, tmp_path / "first")
    onwards = replace(SMALL, start_from=str(tmp_path / "first" / "last.pt"))
    begun = descriptor.start(onwards, "cpu").network.state_dict()
    assert all(torch.equal(value, begun[key]) for key, value in weights(tmp_path / "first").items())
    shipped = descriptor.start(replace(SMALL, start_from="default"), "cpu").network.describe(patches.patches[:9])
    assert np.allclose(shipped, hynet.load("default-float").describe(patches.patches[:9]), atol=1e-3)
    with pytest.raises(BadWeights, match="trains another network"):
        descriptor.start(replace(onwards, norm="bn"), "cpu")


def test_a_start_is_pytorchs_own_or_orthogonal():
    def first_weights(**settings) -> torch.Tensor:
        return descriptor.start(replace(SMALL, **settings), "cpu").network.layer2[0].weight.detach().flatten(1)

    bound = 288**-0.5  # PyTorch draws evenly below one over the root of the inputs
    assert bound == pytest.approx(first_weights(start="torch").abs().max().item(), rel=1e-3)
    weight = first_weights(start="orthogonal", gain=0.6)  # (32, 288)
    torch.testing.assert_close(weight @ weight.T, 0.36 * torch.eye(32), atol=1e-5, rtol=0)
    biased = descriptor.start(replace(SMALL, start="orthogonal"), "cpu").network.layer2[0].bias
    assert (biased == 0.01).all()


# The settings of `hynet-cpu --margin 1 --level 0.5` as hynet wrote them before it knew of starts.
OLDER = json.loads((Path(__file__).parent / "older_config.json").read_text())


def test_a_run_begun_before_there_were_starts_can_go_on(tmp_path, patches):
    settings = {"epochs": None, "minutes": None, "steps": 6, "pairs_per_batch": 8, "compiled": False, "log_every": 1}
    config = replace(RECIPES["hynet-cpu"].config, margin=1.0, level=0.5, certain=False, **settings)
    hynet.train(config, {"a": patches}, tmp_path)
    content = checkpoints.read(tmp_path / "last.pt")
    content["about"]["config"] = OLDER
    content["position"]["step"] = 4
    checkpoints.save(tmp_path / "last.pt", content)
    assert hynet.train(config, {"a": patches}, tmp_path, resume=True).steps == 6
    with pytest.raises(BadInput, match=r"gain was 0\.6, now 1"):  # a run that knows how it began is held to it
        hynet.train(replace(config, gain=1.0), {"a": patches}, tmp_path, resume=True)


def test_a_run_of_the_former_network_with_batchnorm_goes_on_by_its_new_name(tmp_path, patches):
    config = replace(SMALL, steps=2, norm="bn-affine")
    hynet.train(config, {"a": patches}, tmp_path)
    content = checkpoints.read(tmp_path / "last.pt")
    before = {name: value for name, value in content["about"]["config"].items() if name not in ("start", "gain")}
    content["about"]["config"] = before | {"norm": "bn"}  # as it was called then
    checkpoints.save(tmp_path / "last.pt", content)
    with pytest.raises(BadInput, match="norm was bn-affine, now bn"):
        hynet.train(replace(config, norm="bn"), {"a": patches}, tmp_path, resume=True)
    assert hynet.train(config, {"a": patches}, tmp_path, resume=True).steps == 2


@pytest.mark.parametrize(
    ("setting", "value", "told"),
    [
        ("hard", 2, "hard goes from 0 to 1; got 2"),
        ("dropout", 0.999, "dropout goes from 0 to 0"),
        ("steps", -5, "steps must be 0 or more; got -5"),
        ("seed", -1, "seed must be 0 or more"),
        ("weight_decay", -1.0, "weight_decay must be 0 or more"),
        ("learning_rate", float("nan"), "learning_rate must be"),
        ("pairs_per_batch", 1, "pairs_per_batch must be 2 or more"),
    ],
)
def test_settings_out_of_bounds_are_refused(setting, value, told):
    with pytest.raises(BadInput, match=told):
        replace(SMALL, **{setting: value})


def test_a_resumed_run_keeps_a_best_that_is_newer_than_its_last(tmp_path, patches):
    validate = {"known": (patches, pairs_of(patches, 4))}
    hynet.train(SMALL, {"a": patches}, tmp_path, validate=validate)
    best = checkpoints.read(tmp_path / "best.pt")
    best["position"] |= {"best": -1.0, "validation": {"known": -1.0}}  # as if killed after a very good look
    checkpoints.save(tmp_path / "best.pt", best)
    last = checkpoints.read(tmp_path / "last.pt")
    last["position"] |= {"step": 2, "validated_step": 0}
    checkpoints.save(tmp_path / "last.pt", last)
    ended = hynet.train(SMALL, {"a": patches}, tmp_path, validate=validate, resume=True)
    assert checkpoints.read(tmp_path / "best.pt")["position"]["best"] == -1
    assert ended.validation == {"known": -1.0} != ended.last_validation


def test_other_validation_sets_choose_the_best_weights_anew(tmp_path, patches):
    known = patches, pairs_of(patches, 4)
    hynet.train(SMALL, {"a": patches}, tmp_path, validate={"easy": known})
    best = checkpoints.read(tmp_path / "best.pt")
    best["position"] |= {"best": -1.0, "validation": {"easy": -1.0}}  # better than anything on the other set
    checkpoints.save(tmp_path / "best.pt", best)
    ended = hynet.train(SMALL, {"a": patches}, tmp_path, validate={"hard": known}, resume=True)
    assert set(ended.validation) == {"hard"}
    assert checkpoints.read(tmp_path / "best.pt")["position"]["best"] == ended.validation["hard"]


def test_certain_negatives_are_counted(patches):
    def negatives(certain: bool) -> float:
        one_scene = replace(patches, images=patches.points.copy(), scenes=None, places=None)
        some = descriptor.batches(
            sampling.mix([one_scene]), replace(SMALL, certain=certain), first=0, per_epoch=4, device="cpu"
        )
        return next(some).negatives_per_pair

    assert negatives(certain=True) == 0
    assert negatives(certain=False) == SMALL.pairs_per_batch - 1


def test_a_run_is_not_overwritten_nor_continued_as_another(tmp_path, patches):
    hynet.train(replace(SMALL, steps=1), {"a": patches}, tmp_path, recipe_name="hynet")

    def again(config=replace(SMALL, steps=1), data=patches, recipe="hynet", resume=True):  # noqa: B008
        hynet.train(config, {"a": data}, tmp_path, recipe_name=recipe, resume=resume)

    with pytest.raises(BadInput, match="already holds a run"):
        again(resume=False)
    with pytest.raises(BadInput, match="a run of hynet, not of hardnet"):
        again(recipe="hardnet")
    with pytest.raises(BadInput, match=r"learning_rate was 0\.01, now 0\.1"):
        again(config=replace(SMALL, steps=1, learning_rate=0.1))
    changed = patches.patches.copy()
    changed[0, 0, 0] ^= 1
    with pytest.raises(BadInput, match="give the same sets unchanged"):
        again(data=replace(patches, patches=changed))
    again(config=replace(SMALL, steps=1, log_every=3))


def test_every_patch_of_a_set_is_part_of_its_fingerprint():
    patches = np.zeros((10_000, 4, 4), np.uint8)
    before = descriptor.Descriptor.fingerprint(PatchSet(patches, np.arange(10_000) // 2))
    patches[1, 2, 3] = 1
    after = descriptor.Descriptor.fingerprint(PatchSet(patches, np.arange(10_000) // 2))
    assert before["content"] != after["content"]


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path, patches):
    config = replace(SMALL, learning_rate=1e37, schedule="constant", checkpoint_minutes=0.0, average=0.0)
    calm = replace(config, warmup=0.5, steps=6)
    with pytest.raises(loop.Diverged, match="lower learning rate"):
        hynet.train(calm, {"a": patches}, tmp_path)
    saved = tmp_path / "last.pt"
    assert not saved.exists() or all(value.isfinite().all() for value in weights(tmp_path).values())


def test_the_run_folder_says_what_the_run_was(tmp_path, patches):
    hynet.train(replace(SMALL, steps=1), {"a": patches}, tmp_path, recipe_name="hynet")
    about = json.loads((tmp_path / "run.json").read_text())
    assert about["recipe"] == "hynet"
    assert TrainConfig(**about["config"]) == replace(SMALL, steps=1)
    assert about["data"]["a"]["patches"] == len(patches)
    assert about["environment"]["torch"] == torch.__version__


@pytest.mark.parametrize(("network", "options"), [("hynet", {}), ("hynet", {"norm": "in"}), ("tfeat", {})])
def test_tiles_give_the_gradients_of_the_whole_network(network, options):
    torch.manual_seed(0)
    net = DESCRIPTORS[network](**options).double().train()
    for layer in net.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    a, p = 255 * torch.rand(2, 70, 1, 32, 32, dtype=torch.float64)  # a tile and a bit, each side
    weight = torch.randn(70, 128, dtype=torch.float64)
    (net(a) * weight + net(p) ** 2).sum().backward()
    expected = [part.grad.clone() for part in net.parameters()]
    net.zero_grad()
    ((raw_a,), (raw_p,)) = Tiled(net, compiled=False)(a, p)
    (raw_a * weight + raw_p**2).sum().backward()
    for part, gradient in zip(net.parameters(), expected, strict=True):
        assert torch.allclose(part.grad, gradient, rtol=1e-6, atol=1e-9 * float(1 + gradient.abs().max()))


def test_curves_are_drawn_and_weights_are_shared_with_their_card(tmp_path, patches, capsys):
    known = pairs_of(patches, 4)
    for name in ("one", "two"):
        config = replace(SMALL, steps=2, network="tfeat", seed=len(name))
        hynet.train(config, {"a": patches}, tmp_path / name, validate={"b": (patches, known)}, recipe_name=name)
    runs = [str(tmp_path / name) for name in ("one", "two")]
    assert main(["report", *runs, "--out", str(tmp_path / "curves.html"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert set(said["runs"]) == set(runs)
    assert min(said["runs"].values()) >= 0
    page = (tmp_path / "curves.html").read_text()
    assert page.count("<figure") == 3  # loss, similarities, FPR@95
    assert "two on b" in page
    shared = str(tmp_path / "shared.safetensors")
    assert main(["export", "--model", runs[0], "--to", shared]) == 0
    assert not (tmp_path / "shared.md").exists()
    assert main(["export", "--model", runs[0], "--to", shared, "--card"]) == 0
    rows = [
        hynet.load(file).describe(patches.patches[:5])
        for file in (tmp_path / "one" / "best.pt", tmp_path / "shared.safetensors")
    ]
    assert np.array_equal(rows[0], rows[1])
    card = (tmp_path / "shared.md").read_text()
    assert "recipe `one`" in card
    assert "| network | tfeat |" in card
    assert 'hynet.load("shared.safetensors")\n' in card
    assert "-> (N, 128)" in card


def test_a_folder_without_a_run_is_refused(tmp_path, capsys):
    for command, reason in {
        "report {}": "`hynet train --out run/` runs",
        "export --model {} --to {}/a.safetensors": "give the folder of a training run",
        "export --model {} --to {}/a.safetensors --sources s.csv": "add --card",
        "export --model {} --to {}/a.safetensors --ratio 0.9": "leave out all options but --card",
        "export --model {} --to {}/a.onnx --card": "ends in .safetensors",
    }.items():
        assert main(command.format(tmp_path, tmp_path).split()) == 2
        assert reason in capsys.readouterr().err


def test_the_schedule_rises_then_falls_to_zero_and_follows_the_clock_or_the_steps():
    config = TrainConfig(epochs=None, minutes=10.0, schedule="linear", warmup=0.1, learning_rate=1.0)
    rates = [config.rate_at(config.progress(0, minute * 60, 5)) for minute in (0.5, 1, 5.5, 10)]
    assert rates == pytest.approx([0.5, 1, 0.5, 0])
    assert replace(config, minutes=None, steps=4).progress(1, 0, 5) == 0.25
    assert replace(config, minutes=None, epochs=2).progress(5, 0, 5) == 0.5
    cosine = replace(config, schedule="cosine", warmup=0.0)
    assert cosine.rate_at(0.25) == pytest.approx(0.8536, abs=1e-4)
    stepwise = replace(cosine, schedule="stepwise", num_decays=4, lr_decay=0.5)
    assert [stepwise.rate_at(done) for done in (0, 0.24, 0.25, 0.99)] == [1, 1, 0.5, 0.125]


@pytest.mark.parametrize("wrong", [{"steps": 5}, {"epochs": None}, {"warmup": 1.0}, {"pairs_per_batch": 1}])
def test_settings_that_make_no_run_are_refused(wrong):
    with pytest.raises(BadInput):
        TrainConfig(**wrong)


def test_an_option_that_the_loss_does_not_have_is_refused():
    with pytest.raises(BadInput, match="hardnet has no alpha"):
        descriptor.loss_function(TrainConfig(loss="hardnet", alpha=2.0))


@pytest.mark.parametrize(
    ("loss", "options", "told"),
    [
        ("hynet", {"margin": -1.0}, "margin of the loss hynet must be 0 or more; got -1"),
        ("hynet", {"z": 0.0}, "z of the loss hynet must be 1e-09 or more"),
        ("loss_b", {"margin_s": float("nan")}, "margin_s of the loss loss_b must be 0 or more; got nan"),
        ("doap", {"bins": 1.0}, "bins of the loss doap must be 2 or more"),
        ("l2net", {"maps": 1.0}, "l2net has no maps; it has no options"),
    ],
)
def test_a_loss_says_within_which_bounds_its_options_lie(loss, options, told):
    with pytest.raises(BadInput, match=told):
        descriptor.loss_function(TrainConfig(loss=loss, loss_options=options))


def _typed_for_checkers_alone(a: Nowhere, p, *, margin=1.0):  # noqa: F821
    return hynet.losses.hynet(a, p, margin=margin)


class _Called:
    def __call__(self, a, p, *, margin: float = 1.0):
        return hynet.losses.hynet(a, p, margin=margin)


class _Module(torch.nn.Module):
    def forward(self, a, p, *, margin: float = 1.0):
        return hynet.losses.hynet(a, p, margin=margin)


@pytest.mark.parametrize(
    "own",
    [partial(hynet.losses.hynet, gamma=0.1), _Called(), _Module(), _typed_for_checkers_alone],
    ids=["partial", "object", "module", "types for checkers"],
)
def test_a_loss_of_ones_own_can_be_anything_that_is_called_and_has_its_options(own):
    a, p = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(0))
    made = descriptor.loss_function(TrainConfig(loss="own", margin=0.7), own)
    assert made(a, p).total == hynet.losses.hynet(a, p, margin=0.7).total
    with pytest.raises(BadInput, match="the loss own has no depth"):
        descriptor.loss_function(TrainConfig(loss="own", loss_options={"depth": 1.0}), own)


def test_every_option_of_a_loss_can_be_set_whether_or_not_it_is_a_setting_of_its_own():
    a, p = torch.randn(2, 6, 5, generator=torch.Generator().manual_seed(0))
    ours = descriptor.loss_function(TrainConfig(loss="loss_b", alpha=1.0, loss_options={"margin_s": 0.5}))(a, p)
    assert ours.total == hynet.losses.loss_b(a, p, alpha=1.0, margin_s=0.5).total
    bins = descriptor.loss_function(TrainConfig(loss="doap", loss_options={"bins": 7.0}))(a, p)
    assert bins.total == hynet.losses.doap(a, p, bins=7).total


def test_uncertain_negatives_are_left_out_when_asked(patches):
    two_pictures = replace(patches, images=patches.points % 2)
    mixture = sampling.mix([two_pictures])

    def negatives(certain: bool) -> int:
        config = replace(SMALL, certain=certain)
        batch = next(descriptor.batches(mixture, config, first=0, per_epoch=10, device="cpu"))
        return int(batch.negatives.certain.sum())

    assert negatives(certain=False) == 8 * 7
    assert negatives(certain=True) < 8 * 7


@pytest.mark.parametrize("model", ["default", "light"])  # in tiles, and whole
def test_convolutions_in_bfloat16_say_nearly_the_same_forward_and_backward(model, patches):
    network = open_network(model).train()
    for dropout in (module for module in network.modules() if isinstance(module, torch.nn.Dropout)):
        dropout.p = 0.0
    second = [module for module in network.modules() if isinstance(module, torch.nn.Conv2d)][1]
    some = torch.from_numpy(patches.patches[:24, ::2, ::2])[:, None].float()
    outputs, gradients = [], []
    for bfloat16 in (False, True):
        network.zero_grad()
        (raw,), _ = Tiled(network, compiled=False, bfloat16=bfloat16)(some[:12], some[12:])
        assert raw.dtype == torch.float32
        (raw * torch.randn(raw.shape, generator=torch.Generator().manual_seed(0))).sum().backward()
        outputs.append(raw.detach().flatten())
        gradients.append(second.weight.grad.flatten())
    for exact, rounded in (outputs, gradients):
        cosine = torch.cosine_similarity(exact, rounded, dim=0)
        assert 0.99 < cosine < 1 - 1e-7, "rounded to eight bits, and not otherwise different"


def test_a_training_set_is_no_validation_set_wherever_its_copy_lies(tmp_path, capsys):
    made = synthetic.patch_set(40, 4, seed=1)
    zeros = np.zeros(len(made))
    for name in ("here", "copy"):
        ubc.write(
            tmp_path / name, made, xy=np.zeros((len(made), 2)), angle=zeros, log2_scale=zeros, pairs=[pairs_of(made, 4)]
        )
    args = ["train", "hynet", "--data", str(tmp_path / "here"), "--validate", str(tmp_path / "copy")]
    args += ["--steps", "1", "--pairs-per-batch", "8", "--no-compiled", "--out"]
    assert main([*args, str(tmp_path / "run")]) == 2
    assert "--validate-on-training" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert main([*args, str(tmp_path / "run"), "--validate-on-training"]) == 0


def test_what_was_not_logged_has_no_panel_and_no_legend():
    logs = {
        "runs/a": [{"minutes": 1, "loss": 0.5, "positive_similarity": 0.9}, {"minutes": 2, "loss": 0.4}],
        "runs/b": [{"minutes": 1, "validation": {"sets/x": 3.0}}],
    }
    legends = {title: charts.curves(title, lines).legend for title, lines in training.panels(logs).items()}
    names = {title: [entry.name for entry in legend] for title, legend in legends.items()}
    assert names["loss"] == ["a"]
    assert names["cosine similarity"] == ["a, positives"]
    assert names["FPR@95 in %, validation"] == ["b on x"]
    assert "cosine" not in training.section({"runs/b": logs["runs/b"]})


def test_training_runs_on_the_device_that_is_named_or_says_that_it_is_not_there(tmp_path, patches):
    config = replace(SMALL, steps=1, network="tfeat")
    assert hynet.train(config, {"a": patches}, tmp_path / "run", device="cpu").steps == 1
    for absent in ("cuda:7", "abacus"):
        with pytest.raises(BadInput, match=f"no device '{absent}'"):
            hynet.train(config, {"a": patches}, tmp_path / "other", device=absent)
    assert not (tmp_path / "other").exists()
