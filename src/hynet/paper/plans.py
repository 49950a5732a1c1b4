"""The paper's studies: their rows, its numbers for them, and which rows it finds better; and one study as ordered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from ..errors import BadInput, choose
from ..evaluation import papers
from ..training.configuration import TrainConfig
from ..training.recipes import HYNET, RECIPES
from .runs import Budget

# What a row is. All other settings are how it is trained, and there every row has HyNet's.
OF_A_ROW = ("network", "norm", "loss", "margin", "alpha", "gamma", "z", "sosr", "level", "loss_options")
# The paper takes the best margin for each similarity without naming them all: 1.2 is its s_H, 0.9 and 1.2 are L_B's.
MARGINS = {"hynet": (0.8, 1.0, 1.2, 1.4), "s_only": (0.5, 0.7, 0.9, 1.1), "d_only": (0.8, 1.0, 1.2, 1.4)}
ALPHAS = (0.5, 1.0, 2.0, 4.0)
MADE_FOR_SGD = (
    "L2-Net and TFeat were made for SGD and learn badly with HyNet's Adam at 0.01: their rows say more about these "
    "settings than about the methods; --own-settings trains each as its authors did."
)
LOOKS = 10  # at the validation set, on the way of a run whose curve is drawn


@dataclass(frozen=True)
class Row:
    """One line of a study's table: a network that is trained, or a model that needs no training."""

    name: str
    config: TrainConfig | None
    model: str = ""  # of a row without a config


@dataclass(frozen=True)
class Ordering:
    """That the paper finds one row better than another."""

    better: str
    worse: str
    column: str


@dataclass(frozen=True)
class Plan:
    """A study before it is run."""

    name: str
    title: str
    rows: Sequence[Row]
    paper: Mapping[str, Mapping[str, float]]  # row -> column -> the paper's number
    paper_source: str  # what the paper measured, and on what
    orderings: Sequence[Ordering]
    margins: Mapping[str, Sequence[float]] = field(default_factory=dict)  # loss -> margins to choose from
    curves: bool = False  # FPR@95 over the steps
    alphas: Sequence[float] = ()  # of a grid, as the next
    grid_margins: Sequence[float] = ()
    notes: Sequence[str] = ()  # what one must know to read the table

    @property
    def reference(self) -> str:
        """The row that the others are compared with: HyNet as published."""
        return self.rows[0].name


def components() -> Plan:
    """Table 3: HyNet but for one thing."""
    recipes = {
        "HyNet": "hynet",
        "no R_L2": "hynet-no-norms",
        "d": "hynet-d",
        "s": "hynet-s",
        "BN": "hynet-bn",
        "IN": "hynet-in",
        "HardNet+FRN": "hardnet-frn",
        "SOSNet+FRN": "sosnet-frn",
    }
    names = ("HyNet", "HyNet without R_L2", "HyNet by d alone", "HyNet by s alone", "HyNet with BN", "HyNet with IN")
    theirs = [papers.MATCHING[name] for name in (*names, "HardNet's loss, FRN", "SOSNet's loss, FRN")]
    pairs = [("HyNet", other) for other in recipes if other != "HyNet"]
    pairs += [("s", "d"), ("IN", "BN"), ("SOSNet+FRN", "HardNet+FRN")]
    return Plan(
        "components",
        "Table 3: what each component of HyNet brings",
        [Row(name, equal(recipe)) for name, recipe in recipes.items()],
        {name: {"matching": value} for name, value in zip(recipes, theirs, strict=True)},
        "Table 3: mAP of matching on HPatches' split a, trained on Liberty for 200 epochs",
        [Ordering(better, worse, "matching") for better, worse in pairs],
        margins=MARGINS,
    )


def grid(alphas: Sequence[float] = ALPHAS, margins: Sequence[float] = MARGINS["hynet"]) -> Plan:
    """Fig. 5a: alpha x m."""
    cells = [(alpha, margin) for alpha in alphas for margin in margins]
    cells.sort(key=lambda cell: cell != (2.0, 1.2))  # the paper's own first
    return Plan(
        "grid",
        "Fig. 5a: the hybrid similarity's alpha and the margin m",
        [Row(cell_name(*cell), replace(equal("hynet"), alpha=cell[0], margin=cell[1])) for cell in cells],
        {},
        "Fig. 5a: a curve without numbers; the text says that alpha 2 and m 1.2 are the best",
        [],
        alphas=tuple(alphas),
        grid_margins=tuple(margins),
    )


def losses() -> Plan:
    """Fig. 5c: three ways to give positives and negatives gradients of their own."""
    recipes = {"s_H": "hynet", "L_A": "loss-a", "L_B": "loss-b"}
    return Plan(
        "losses",
        "Fig. 5c: the hybrid similarity against two other ways to combine s and d",
        [Row(name, equal(recipe)) for name, recipe in recipes.items()],
        {},
        "Fig. 5c: FPR@95 on Notredame and Yosemite over the epochs of training on Liberty, as curves without numbers",
        [Ordering("s_H", other, "fpr95") for other in ("L_A", "L_B")],
        curves=True,
    )


def sosr(own_settings: bool = False) -> Plan:
    """Table 5: HyNet with the second-order term."""
    names = ["HyNet", "HyNet+SOSR", "SOSNet", "HardNet", "SIFT"]
    return _ranking(
        "sosr", "Table 5: HyNet with second-order similarity regularisation", "Table 5", names, own_settings
    )


def rivals(own_settings: bool = False) -> Plan:
    """Table 1's methods."""
    names = ["HyNet", "SOSNet", "DOAP", "HardNet", "L2-Net", "TFeat", "SIFT"]
    plan = _ranking("rivals", "Table 1's methods", "Table 1", names, own_settings)
    firsts = [Ordering("HyNet", other, "matching") for other in names[1:]]
    paper = {name: dict(row) for name, row in plan.paper.items()}
    for name in ("HyNet", "SOSNet"):  # whose bars of Fig. 4 the text has in numbers
        paper[name]["matching"] = papers.MATCHING[name]
    source = f"{plan.paper_source}; matching: Fig. 4, where HyNet is first, with the two numbers that the text has"
    notes = [] if own_settings else [MADE_FOR_SGD]
    return replace(plan, paper=paper, paper_source=source, orderings=[*plan.orderings, *firsts], notes=notes)


RANKINGS = {"rivals": rivals, "sosr": sosr}
PLANS = {"components": components, "grid": grid, "losses": losses, **RANKINGS}


def equal(recipe: str) -> TrainConfig:
    """HyNet's training with that recipe's network and loss."""
    own = RECIPES[recipe].config
    return replace(HYNET, **{name: getattr(own, name) for name in OF_A_ROW})


def cell_name(alpha: float, margin: float) -> str:
    return f"alpha {alpha:g}, m {margin:g}"


def _ranking(name: str, title: str, table: str, names: Sequence[str], own_settings: bool) -> Plan:
    """Rows of Table 1 or 5, and who is before whom by the paper's mean FPR@95: of HyNet, then of neighbours."""
    recipes = {"HyNet+SOSR": "hynet-sosr", "L2-Net": "l2net"}
    rows = []
    for row in names:
        recipe = recipes.get(row, row.lower())
        config = None if row == "SIFT" else RECIPES[recipe].config if own_settings else equal(recipe)
        rows.append(Row(row, config, "sift" if config is None else ""))
    theirs = {row: papers.UBC[row][-1] for row in names}
    ranked = sorted(names, key=lambda row: theirs[row])
    place = ranked.index("HyNet")
    pairs = [(better, "HyNet") for better in ranked[:place]] + [("HyNet", worse) for worse in ranked[place + 1 :]]
    pairs += [pair for pair in pairwise(ranked) if pair not in pairs]
    return Plan(
        # the name says it, so that neither kind overwrites the other's files
        f"{name}-own" if own_settings else name,
        f"{title}, each trained as its authors did" if own_settings else title,
        rows,
        {row: {"fpr95": value} for row, value in theirs.items()},
        f"{table}: mean FPR@95 over PhotoTour's six combinations of training and test set",
        [Ordering(better, worse, "fpr95") for better, worse in pairs],
    )


@dataclass(frozen=True)
class Ablation:
    """A study to run, its data and its folder."""

    study: str
    data: Sequence[Path]  # patch sets to train on, mixed
    validate: Path  # the patch set for FPR@95 and the choice of margins
    test: Path  # patch stacks of HPatches, or image sequences to cut such stacks from
    out: Path
    budget: Budget
    pair_list: int | None = None  # of `validate`, to measure FPR@95 on; None: 100,000, or as many as it lists
    own_settings: bool = False
    alphas: Sequence[float] | None = None  # of the grid, like the next; None: the usual four
    margins: Sequence[float] | None = None
    jobs: int | None = None

    def __post_init__(self) -> None:
        if not self.data:
            raise BadInput("--data needs one or more patch sets to train on.")
        for name in ("jobs", "pair_list"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise BadInput(f"--{name.replace('_', '-')} must be 1 or more; got {count}.")
        for name in ("alphas", "margins"):
            values = getattr(self, name)
            if values is not None and (not values or len(set(values)) < len(values)):
                raise BadInput(
                    f"--{name} needs one or more numbers, each once; got {', '.join(map(str, values)) or 'none'}."
                )

    def plan(self) -> Plan:
        if self.study != "grid" and (self.alphas is not None or self.margins is not None):
            raise BadInput("--alphas and --margins are for grid; components searches its margins itself.")
        if self.own_settings and self.study not in RANKINGS:
            raise BadInput("--own-settings is for rivals and sosr: elsewhere every row is HyNet but for one thing.")
        if self.own_settings:
            return RANKINGS[self.study](own_settings=True)
        if self.study == "grid":
            return grid(self.alphas or ALPHAS, self.margins or MARGINS["hynet"])
        return choose(PLANS, self.study, "study")()
