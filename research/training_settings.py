"""The table of training settings in docs/training.md, from the dataclasses: python -m research.training_settings."""

from __future__ import annotations

from dataclasses import fields

from hynet.cli.arguments import arguments
from hynet.training.configuration import (
    FREE_TO_CHANGE,
    JointConfig,
    LossConfig,
    PairsConfig,
    RunConfig,
    ShapeConfig,
    TrainConfig,
)

GROUPS = {  # of runs -> the class whose own settings they are
    "all": RunConfig,
    "descriptors, `shape`, `joint`": PairsConfig,
    "descriptors, `joint`": LossConfig,
    "descriptors": TrainConfig,
    "`shape`": ShapeConfig,
    "`joint`": JointConfig,
}


def table() -> str:
    """Option, default and meaning of every setting on the command line, by the runs that have it."""
    rows = ["| option | default | meaning | runs |", "|---|---|---|---|"]
    for runs, kind in GROUPS.items():
        inherited = {one.name for base in kind.__mro__[1:-1] for one in fields(base)}
        fixed = {one.name for one in fields(kind) if one.metadata.get("of") == "the recipe"}
        for one in arguments(kind):
            name = one.name[2:].replace("-", "_")
            if name not in inherited | fixed:
                default = "" if one.default is None or one.default == {} else one.default
                rows.append(f"| `{one.name}` | {default} | {one.help} | {runs} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
    print(f"| may change | `{' '.join(FREE_TO_CHANGE)}` |")
