"""Mining and loss of one training step: argmin on detached matrices against sorting them whole."""

from __future__ import annotations

from typing import Any

from bench import Measurement, milliseconds
from hynet.errors import need

PAIRS = 512
DIM = 128
ROUNDS = 15


def measure(*, count: int = PAIRS, rounds: int = ROUNDS) -> list[Measurement]:
    torch = need("torch", "train", "the bench of the loss")
    from hynet.losses import hybrid, hynet, norm_difference
    from hynet.losses.mining import TOO_CLOSE, distance, paired, unit

    torch.manual_seed(0)
    raw_a = torch.randn(count, DIM)
    raw_p = raw_a + 2 * torch.randn(count, DIM)  # as hard as negatives, or the hinge would be zero and mining unchecked

    def sorting() -> Any:
        """As usually written: every matrix with gradients, sorted whole, the first that is no duplicate taken."""
        a, p = leaf(raw_a), leaf(raw_p)
        unit_a, unit_p = unit(a), unit(p)
        matrices = [distance(x @ y.T) for x, y in ((unit_a, unit_a), (unit_p, unit_p), (unit_a, unit_p))]
        nearest = []
        for matrix in (*matrices, matrices[2].T):
            matrix = matrix + 10 * torch.eye(count) + 10 * (matrix < TOO_CLOSE)
            nearest.append(matrix.sort(dim=1).values[:, 0])
        d_neg = torch.stack(nearest).sort(dim=0).values[0]
        hinge = (1.2 + hybrid(paired(unit_a, unit_p), 2.0, 1.0) - hybrid(d_neg, 2.0, 1.0)).relu()
        total = hinge.mean() + 0.1 * norm_difference(a, p)
        total.backward()
        return total

    def ours() -> Any:
        total = hynet(leaf(raw_a), leaf(raw_p)).total
        total.backward()
        return total

    def leaf(tensor: Any) -> Any:
        return tensor.clone().requires_grad_()

    if not torch.allclose(sorting(), ours(), atol=1e-5):
        raise AssertionError("the two ways to mine disagree: the times would compare different things")
    times = milliseconds({"sort whole matrices": sorting, "argmin, gather winners": ours}, rounds)
    return [Measurement(name, value, "ms") for name, value in times.items()]
