"""The matcher: edges judge themselves in rounds by where the anchors beside them went; then by better anchors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from . import graph
from .graph import Beside, Edges, Points
from .hynet_paths import Array

ROUNDS = 2  # of each stage
STAGES = 2
WIDTH, MEMORY, KERNELS = 128, 32, 12
ALIVE = -5.0  # logit of an edge that a later stage looks at again
ANCHOR = -4.0  # logit of the winners that are its anchors
LEAST_ANCHORS = 60  # or so many of the best winners
LITTLE = 0.05  # added before logarithms


class Round(nn.Module):
    """Features, memory and messages of an edge -> what its logit changes by, and its next memory."""

    def __init__(self) -> None:
        super().__init__()
        size = graph.FEATURES + MEMORY + 3 + 2 * KERNELS + 2
        self.layers = nn.Sequential(nn.Linear(size, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.change = nn.Linear(WIDTH, 1)
        self.memory = nn.Linear(WIDTH, MEMORY)
        nn.init.zeros_(self.change.weight)  # untrained, the logits stay those of `consensus`
        nn.init.zeros_(self.change.bias)

    def forward(self, *given: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.layers(torch.cat(given, 1))
        return self.change(hidden)[:, 0], self.memory(hidden)


class Stage(nn.Module):
    """Rounds over one choice of anchors: what they say is weighed by how they go together, which is found once."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels = nn.Sequential(nn.Linear(graph.RELATIONS, 24), nn.ReLU(), nn.Linear(24, KERNELS), nn.Sigmoid())
        self.rounds = nn.ModuleList([Round() for _ in range(ROUNDS)])

    def forward(
        self, features: Tensor, i: Tensor, j: Tensor, near: tuple[Tensor, Tensor, Tensor], state: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """state: logits of all edges, rows of those that are asked, their memory (R, MEMORY)."""
        logits, rows, memory = state
        edges, known, relations = near
        count = edges.shape[1] // 2
        kernels = self.kernels(relations) * known[..., None]  # (R, 2 K, C)
        after = []
        for step in self.rounds:
            right = torch.sigmoid(logits)[edges]  # (R, 2 K) whether anchors are right, as far as is known
            weighed = (kernels * right[..., None]).unflatten(1, (2, count)).sum(2)  # (R, 2, C)
            heard = (known * right).unflatten(1, (2, count)).sum(2)
            messages = torch.cat([_both(weighed), _both(heard[..., None])], 1)
            own = logits[rows]
            scores = torch.stack([own / 4, _against(logits, i, rows) / 4, _against(logits, j, rows) / 4], 1)
            change, memory = step(features[rows], memory, scores, messages)
            logits = logits.index_add(0, rows, change)
            after.append(logits)
        return logits, memory, after


def _both(of_sides: Tensor) -> Tensor:
    """(R, 2, C) of the two photos -> (R, 2 C), the same whichever comes first."""
    return torch.log(LITTLE + torch.cat([torch.minimum(*of_sides.unbind(1)), of_sides.sum(1)], 1))


def _against(logits: Tensor, keypoint: Tensor, rows: Tensor) -> Tensor:
    """(R,) the edge's logit less that of all others of its keypoint together."""
    odds = logits.clamp(-12, 12).exp()
    total = torch.zeros(int(keypoint.max()) + 1 if len(keypoint) else 1).index_add(0, keypoint, odds)
    others = total[keypoint[rows]] - odds[rows]
    return logits[rows] - torch.log(others.clamp(min=0) + 1e-3)


@dataclass(frozen=True)
class Candidates:
    """Two photos ready for the network."""

    edges: Edges
    points: tuple[Points, Points]
    near: Beside
    logits: Array  # (E,) of `consensus`


def prepare(first: Array, second: Array, a: Points, b: Points) -> Candidates:
    """From unit descriptors (N, D), (M, D) and keypoints."""
    edges = graph.candidates(first, second, a, b)
    anchors = np.flatnonzero(edges.mutual)
    near = graph.beside(edges, np.arange(len(edges)), anchors, a, b)
    return Candidates(edges, (a, b), near, graph.first_logits(edges, near, anchors))


class Glue(nn.Module):
    """Candidates -> the logit of each edge, after each round."""

    def __init__(self) -> None:
        super().__init__()
        self.stages = nn.ModuleList([Stage() for _ in range(STAGES)])

    def forward(self, given: Candidates) -> list[Tensor]:
        edges = given.edges
        features, i, j = (torch.from_numpy(each) for each in (edges.features, edges.i, edges.j))
        logits = torch.from_numpy(given.logits)
        rows, memory, near = torch.arange(len(edges)), torch.zeros(len(edges), MEMORY), given.near
        every = []
        for number, stage in enumerate(self.stages):
            if number:  # of two stages; the first looked at all edges
                before = logits.detach().numpy()
                kept, near = again(given, before)
                rows = torch.from_numpy(kept)
                memory = memory[rows]
            tensors = tuple(torch.from_numpy(each) for each in (near.edges, near.known, near.relations))
            logits, memory, after = stage(features, i, j, tensors, (logits, rows, memory))
            every += after
        return every


def again(given: Candidates, logits: Array) -> tuple[Array, Beside]:
    """The edges that are still possible, and the best anchors beside them."""
    best = np.flatnonzero(graph.winners(given.edges, logits))
    best = best[np.argsort(-logits[best], kind="stable")]
    anchors = best[: max(LEAST_ANCHORS, int((logits[best] > ANCHOR).sum()))]
    alive = np.union1d(np.flatnonzero(logits > ALIVE), anchors)
    return alive, graph.beside(given.edges, alive, np.sort(anchors), *given.points)


@torch.no_grad()
def judged(network: Glue | None, given: Candidates) -> tuple[Array, Array]:
    """(K, 2) mutually best matches and their logits; without a network those of `consensus`."""
    logits = given.logits if network is None else network(given)[-1].numpy()
    best = graph.winners(given.edges, logits)
    return np.column_stack([given.edges.i, given.edges.j])[best], logits[best]
