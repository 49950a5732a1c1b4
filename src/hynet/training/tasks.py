"""Everything that can be trained. ADD ONE: a `Task` in a file of this folder, its settings, and a row in TASKS.

Files are imported when they are first used: looking at the table needs no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import plural
from ..runtime.plugins import Part
from ..types import Progress
from .configuration import RunConfig

if TYPE_CHECKING:
    from torch import Tensor

    from .checkpoints import State


@dataclass(frozen=True)
class Trained:
    """The end of a run."""

    steps: int
    patches_per_second: float  # of the steps alone, without the first, which compiles
    checkpoint: Path  # the best on validation, or the last where nothing is validated
    kept: int  # the step of that checkpoint
    validation: Mapping[str, float]  # set -> error in percent, of that checkpoint
    last_validation: Mapping[str, float]  # of the last weights
    files: Sequence[Path] = ()  # written for use, where that is not the checkpoint
    details: Mapping[str, Any] = field(default_factory=dict)  # more that the task found, for `to_dict`
    notes: Sequence[str] = ()  # the same in sentences; empty: the validation is shown

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of `hynet train`."""
        common = {name: value for name, value in asdict(self).items() if name not in ("files", "details", "notes")}
        return common | {"checkpoint": str(self.checkpoint)} | dict(self.details)

    def summary(self) -> str:
        """A few lines for people."""
        best = "" if self.kept == self.steps else f", the best weights are of step {self.kept}"
        files = " and ".join(map(str, self.files or [self.checkpoint]))
        lines = [f"{plural(self.steps, 'step')} at {self.patches_per_second:.0f} patches/s{best} -> {files}"]
        lines += self.notes or [f"FPR@95 on {name}: {error:.2f}%" for name, error in self.validation.items()]
        if not self.notes and self.last_validation != self.validation:
            lines.append("at the end: " + ", ".join(f"{error:.2f}%" for error in self.last_validation.values()))
        return "\n".join(lines)


class Task(Protocol):
    """Something to train: its state, its batches, its loss, its validation. The loop does all else.

    It is made with its settings, its data by name, the validation sets by name (`validate`), a `device`, and whether
    the run is `resumed`, so that first weights are soon replaced.
    """

    config: RunConfig
    state: State[Any]
    per_epoch: int  # steps
    patches_per_step: int
    validation_sets: Mapping[str, Any]
    largest_gradient: float | None  # its norm is clipped to this
    one_thread: bool  # torch's own threads would compete with the task's
    facts: Mapping[str, Any]  # of the network, noted in checkpoints

    @staticmethod
    def load(config: RunConfig, root: Path, progress: Progress) -> Any:
        """The training data of one folder."""

    @staticmethod
    def load_validation(config: RunConfig, root: Path) -> Any:
        """A validation set."""

    @staticmethod
    def fingerprint(data: Any) -> dict[str, Any]:
        """Identifies the training data of one folder: sizes, and a hash of the content."""

    def batches(self, first: int) -> Iterator[Any]:
        """Batch number `first` and all after it, without end; each follows from the seed and its number."""

    def remarks(self, batch: Any) -> Mapping[str, float]:
        """Numbers of the first batch of a session that a user may want to know."""

    def loss(self, batch: Any, done: float) -> tuple[Tensor, Mapping[str, Tensor]]:
        """The number to minimise at this share of the run, and single numbers for the log."""

    def validate(self) -> dict[str, float]:
        """Error in percent on each validation set; the lowest mean chooses the best weights."""

    def finish(self, ended: Trained, out: Path) -> Trained:
        """Write the files that people use, and measure what is measured once; by one process alone."""


TASKS: dict[str, Part[Task]] = {
    "descriptor": Part("hynet.training.descriptor:Descriptor", "a network that describes patches"),
    "distillation": Part("hynet.training.descriptor:Distillation", "a descriptor that learns from a teacher as well"),
    "adapt": Part("hynet.training.adapting:Adaptation", "a trained descriptor, on one's own photos"),
    "shape": Part("hynet.training.shape:Shape", "affine shapes of keypoints"),
    "joint": Part("hynet.training.shape:Joint", "affine shapes and a descriptor together"),
    "keynet": Part("hynet.training.keynet:Keynet", "the Key.Net detector"),
}
