"""Every equation as slow loops over single vectors: what the fast code is measured against.

Written in torch, one number at a time, so that autograd gives the gradient of each loop as well.
"""

from __future__ import annotations

from itertools import permutations
from math import inf

import numpy as np
import torch
from scipy.spatial.distance import cdist, euclidean
from torch import Tensor

from hynet.geometry.two_views import Pose

TOO_CLOSE, EPSILON = 0.008, 1e-6


def unit(x: Tensor) -> Tensor:
    return x / torch.sqrt((x * x).sum() + 1e-10)


def cosine(x: Tensor, y: Tensor) -> Tensor:
    return (unit(x) * unit(y)).sum()


def distance(x: Tensor, y: Tensor) -> Tensor:
    return torch.sqrt(torch.clamp(2 - 2 * cosine(x, y), min=0) + EPSILON)


def hybrid(d: Tensor, alpha: float, z: float) -> Tensor:
    return (alpha * d**2 / 2 + d) / z


def hinge(x: Tensor) -> Tensor:
    return torch.clamp(x, min=0)


def hardest(a: Tensor, p: Tensor, i: int, allowed=None, across=False, constant=False) -> Tensor:
    """The nearest negative of pair i: over anchor-positive, positive-anchor, and within each side but for `across`."""
    best, nearest = inf, torch.tensor(2.0, dtype=a.dtype)
    candidates = []
    for j in range(len(a)):
        if j != i and (allowed is None or allowed[i][j]):
            candidates += [(a[i], p[j]), (p[i], a[j])]
            candidates += [] if across else [(a[i], a[j]), (p[i], p[j])]
    for x, y in candidates:
        d = distance(x, y.detach() if constant else y)
        if d.item() > TOO_CLOSE and d.item() < best:
            best, nearest = d.item(), d
    return nearest


def mean(values: list[Tensor]) -> Tensor:
    return sum(values[1:], values[0]) / len(values)


def norms(a: Tensor, p: Tensor) -> Tensor:
    def length(x: Tensor) -> Tensor:
        return torch.sqrt((x * x).sum() + 1e-10)

    return mean([(length(a[i]) - length(p[i])) ** 2 for i in range(len(a))])


def second_order(a: Tensor, p: Tensor, neighbours: int = 8) -> Tensor:
    count = len(a)
    lists: list[set[int]] = []
    for i in range(count):
        lists.append(set())
        for x, others in ((a[i], a), (p[i], p), (a[i], p), (p[i], a)):
            order = sorted((j for j in range(count) if j != i), key=lambda j: distance(x, others[j]).item())
            lists[i] |= set(order[:neighbours])
    rows = []
    for i in range(count):
        chosen = [j for j in range(count) if j in lists[i] or i in lists[j]]
        squares = [(distance(a[i], a[j]) - distance(p[i], p[j])) ** 2 for j in chosen]
        rows.append(torch.sqrt(sum(squares) + 1e-6))
    return mean(rows)


def hynet(a, p, margin=1.2, alpha=2.0, gamma=0.1, z=1.0, sosr=0.0, level=0.0, allowed=None):
    costs, positives, negatives = [], [], []
    for i in range(len(a)):
        d_pos, d_neg = distance(a[i], p[i]), hardest(a, p, i, allowed)
        costs.append(hinge(margin + hybrid(d_pos, alpha, z) - hybrid(d_neg, alpha, z)))
        positives.append(1 - d_pos**2 / 2)
        negatives.append(1 - d_neg**2 / 2)
    total = mean(costs) + gamma * norms(a, p)
    total = total + sosr * second_order(a, p) if sosr else total
    return total + level * one_threshold(positives, negatives) if level else total


def one_threshold(positives: list[Tensor], negatives: list[Tensor], width: float = 0.05) -> Tensor:
    t = (mean(positives).item() + mean(negatives).item()) / 2
    wrong = [torch.log(1 + torch.exp((t - s) / width)) for s in positives]
    return mean(wrong) + mean([torch.log(1 + torch.exp((s - t) / width)) for s in negatives])


def s_only(a, p, margin=0.9, gamma=0.1, allowed=None):
    def away(d: Tensor) -> Tensor:
        return d**2 / 2  # 1 - s

    costs = [hinge(margin + away(distance(a[i], p[i])) - away(hardest(a, p, i, allowed))) for i in range(len(a))]
    return mean(costs) + gamma * norms(a, p)


def d_only(a, p, margin=1.2, gamma=0.1, allowed=None):
    costs = [hinge(margin + distance(a[i], p[i]) - hardest(a, p, i, allowed)) for i in range(len(a))]
    return mean(costs) + gamma * norms(a, p)


def loss_a(a, p, margin=1.0, gamma=0.1, allowed=None):
    costs = [hinge(margin + distance(a[i], p[i]) ** 2 / 2 - hardest(a, p, i, allowed)) for i in range(len(a))]
    return mean(costs) + gamma * norms(a, p)


def loss_b(a, p, margin_s=0.9, margin_d=1.2, alpha=2.0, gamma=0.1, allowed=None):
    costs = []
    for i in range(len(a)):
        d_pos, d_neg = distance(a[i], p[i]), hardest(a, p, i, allowed)
        costs.append(alpha * hinge(margin_s + d_pos**2 / 2 - d_neg**2 / 2) + hinge(margin_d + d_pos - d_neg))
    return mean(costs) + gamma * norms(a, p)


def hardnet(a, p, margin=1.0, allowed=None):
    d_neg = [hardest(a, p, i, allowed, across=True) for i in range(len(a))]
    return mean([hinge(margin + distance(a[i], p[i]) - d_neg[i]) for i in range(len(a))])


def hardnegc(a, p, margin=1.0, allowed=None):
    d_neg = [hardest(a, p, i, allowed, across=True, constant=True) for i in range(len(a))]
    return mean([hinge(margin + distance(a[i], p[i]) - d_neg[i]) for i in range(len(a))])


def hardnet_four(a, p, margin=1.0, allowed=None):
    return mean([hinge(margin + distance(a[i], p[i]) - hardest(a, p, i, allowed)) for i in range(len(a))])


def sosnet(a, p, margin=1.0, sosr=1.0, allowed=None):
    costs = [hinge(margin + distance(a[i], p[i]) - hardest(a, p, i, allowed)) ** 2 for i in range(len(a))]
    return mean(costs) + sosr * second_order(a, p)


def tfeat(a, p, margin=1.0, allowed=None):
    def raw(x: Tensor, y: Tensor) -> Tensor:
        return torch.sqrt(((x - y) ** 2).sum() + 1e-6)

    costs = []
    for i in range(len(a)):
        turn = [(i + 1 + k) % len(a) for k in range(len(a) - 1)]
        others = [j for j in turn if allowed is None or allowed[i][j]]
        if not others:
            costs.append(0 * a.sum())
            continue
        other = p[others[0]]
        costs.append(hinge(margin + raw(a[i], p[i]) - torch.minimum(raw(a[i], other), raw(p[i], other))))
    return mean(costs)


def l2net(a, p, maps=(), allowed=None):
    def relative(score) -> Tensor:
        shares = []
        for i in range(len(a)):
            row = [j for j in range(len(a)) if j == i or allowed is None or allowed[i][j]]
            column = [j for j in range(len(a)) if j == i or allowed is None or allowed[j][i]]
            over_rows = sum(torch.exp(score(i, j)) for j in row)
            over_columns = sum(torch.exp(score(j, i)) for j in column)
            shares.append(
                -torch.log(torch.exp(score(i, i)) / over_rows) - torch.log(torch.exp(score(i, i)) / over_columns)
            )
        return mean(shares) / 2

    def correlation(raw: Tensor) -> Tensor:
        columns = [raw[:, k] - raw[:, k].mean() for k in range(raw.shape[1])]
        columns = [column / torch.sqrt((column**2).sum() + 1e-10) for column in columns]
        return sum(
            (columns[j] * columns[k]).sum() ** 2 for j in range(len(columns)) for k in range(len(columns)) if j != k
        )

    total = relative(lambda i, j: 2 - distance(a[i], p[j])) + (correlation(a) + correlation(p)) / (2 * len(a))
    for first, second in maps:
        total = total + relative(lambda i, j, f=first, g=second: cosine(f[i].flatten(), g[j].flatten()))
    return total


def doap(a, p, bins=25, allowed=None):
    """1 - average precision, every patch once the query against all others of both sides, which fall softly into bins
    of squared distance. Written from the paper (He et al. 2018): its authors' numbers are not at hand."""
    width, count = 4 / (bins - 1), len(a)
    patches = [*a, *p]

    def share(squared: Tensor, k: int) -> Tensor:
        return torch.clamp(1 - torch.abs(squared - k * width) / width, min=0)

    def precision(query: int) -> Tensor:
        right = (query + count) % (2 * count)
        others = [j for j in range(2 * count) if j % count != query % count]
        counted = [right] + [j for j in others if allowed is None or allowed[query % count][j % count]]
        squared = {j: torch.clamp(2 - 2 * cosine(patches[query], patches[j]), 0, 4) for j in counted}
        result = torch.zeros((), dtype=a.dtype)
        right_before, all_before = 0.0, 0.0
        for k in range(bins):
            in_bin, all_in_bin = share(squared[right], k), sum(share(value, k) for value in squared.values())
            right_now, all_now = right_before + in_bin, all_before + all_in_bin
            result = result + in_bin * (right_before + right_now + 1) / (all_before + all_now + 1)
            right_before, all_before = right_now, all_now
        return result

    return 1 - mean([precision(query) for query in range(2 * count)])


def distilled(a, p, copies=4.0, neighbours=1.0, temperature=0.1, pairs=0.5, taught=None, allowed=None):
    own = hynet(a, p, allowed=allowed)
    if taught is None:
        return own
    mine, teachers = [unit(row) for row in (*a, *p)], [unit(row) for row in (*taught[0], *taught[1])]
    copied = mean([((x - t) ** 2).sum() for x, t in zip(mine, teachers, strict=True)])

    def shares(rows: list[Tensor], i: int) -> dict[int, Tensor]:
        """How likely each other is to be taken for i."""
        likely = {j: torch.exp(cosine(rows[i], rows[j]) / temperature) for j in range(len(rows)) if j != i}
        return {j: value / sum(likely.values()) for j, value in likely.items()}

    lost = []
    for i in range(len(mine)):
        p_i, q_i = shares(mine, i), shares(teachers, i)
        lost.append(sum(q_i[j] * torch.log(q_i[j] / p_i[j]) for j in q_i))
    return pairs * own + copies * copied + neighbours * mean(lost)


LOSSES = {
    "hynet": hynet,
    "s_only": s_only,
    "d_only": d_only,
    "loss_a": loss_a,
    "loss_b": loss_b,
    "hardnegc": hardnegc,
    "hardnet": hardnet,
    "hardnet_four": hardnet_four,
    "sosnet": sosnet,
    "tfeat": tfeat,
    "l2net": l2net,
    "doap": doap,
    "distilled": distilled,
}


def fpr95(distances, is_match) -> float:
    """Try every match's distance as a threshold; take the smallest that accepts 95% of the matches."""
    matches = [d for d, m in zip(distances, is_match, strict=True) if m]
    others = [d for d, m in zip(distances, is_match, strict=True) if not m]
    for threshold in sorted(matches):
        if sum(d <= threshold for d in matches) * 20 >= 19 * len(matches):
            return sum(d <= threshold for d in others) / len(others)
    raise AssertionError("the largest distance accepts all matches")


# --- rankings and the HPatches tasks as the public Python benchmark defines them, one entry at a time ---


def listed_precision(distances, is_right, positives=None) -> float:
    """Trapezoids of precision over recall from (0, 1); equal distances stay in the order given."""
    order = sorted(range(len(distances)), key=lambda k: distances[k])  # sorted() keeps the order of equals
    total = sum(map(bool, is_right)) if positives is None else positives
    if not total:
        return 0.0
    area, right, recall, precision = 0.0, 0, 0.0, 1.0
    for seen, k in enumerate(order, 1):
        right += bool(is_right[k])
        area += (right / total - recall) * (right / seen + precision) / 2
        recall, precision = right / total, right / seen
    return area


def step_precision(distances, is_right, positives=None) -> float:
    order = sorted(range(len(distances)), key=lambda k: distances[k])
    total = sum(map(bool, is_right)) if positives is None else positives
    right, area = 0, 0.0
    for seen, k in enumerate(order, 1):
        right += bool(is_right[k])
        area += bool(is_right[k]) * right / seen
    return area / total if total else 0.0


def over_all_orders(score, distances, is_right, positives=None) -> float:
    """The mean of a score over every order in which the entries could have been given."""
    total = sum(map(bool, is_right)) if positives is None else positives
    orders = list(permutations(range(len(distances))))
    return sum(score([distances[k] for k in o], [is_right[k] for k in o], total) for o in orders) / len(orders)


def listed_roc_auc(distances, is_match) -> float:
    order = sorted(range(len(distances)), key=lambda k: distances[k])
    matches, others = sum(map(bool, is_match)), sum(not m for m in is_match)
    area, accepted = 0.0, 0
    for k in order:
        if is_match[k]:
            accepted += 1
        else:
            area += accepted / matches / others
    return area


def roc_auc(distances, is_match) -> float:
    wins = [
        1.0 if d < e else 0.5 if d == e else 0.0
        for d, m in zip(distances, is_match, strict=True)
        for e, n in zip(distances, is_match, strict=True)
        if m and not n
    ]
    return sum(wins) / len(wins)


def _column(noise, t):
    return "ref" if t == 0 else f"{noise}{t}"


def hpatches_verification(descriptors, positive, negative):
    """noise -> (balanced ROC AUC, imbalanced AP). descriptors[sequence][column] is (N, D); rows s, t, idx, s, t, idx.

    Negatives are listed before positives; the imbalanced list ends after a fifth of the positives.
    """
    scores = {}
    for noise in "eht":

        def apart(row, noise=noise):
            s1, t1, i1, s2, t2, i2 = row
            return euclidean(descriptors[s1][_column(noise, t1)][i1], descriptors[s2][_column(noise, t2)][i2])

        distances = [apart(row) for row in [*negative, *positive]]
        labels = [False] * len(negative) + [True] * len(positive)
        end = len(negative) + int(0.2 * len(positive))
        scores[noise] = listed_roc_auc(distances, labels), listed_precision(distances[:end], labels[:end])
    return scores


def hpatches_matching(descriptors):
    """(sequence, column) -> AP of the nearest neighbours of the reference patches; all of them could be right."""
    scores = {}
    for sequence, stacks in descriptors.items():
        for column in (f"{noise}{k}" for noise in "eht" for k in range(1, 6)):
            apart = cdist(stacks["ref"], stacks[column])
            nearest = [min(range(len(row)), key=lambda j, row=row: row[j]) for row in apart]  # the first of equals
            distances = [row[j] for row, j in zip(apart, nearest, strict=True)]
            right = [j == i for i, j in enumerate(nearest)]
            scores[sequence, column] = listed_precision(distances, right, len(right))
    return scores


def hpatches_retrieval(descriptors, queries, distractors, pools):
    """(query, noise, pool) -> AP: the five right ones are listed first, then distractors of other sequences."""
    scores = {}
    for q, (sequence, index) in enumerate(queries):
        query = descriptors[sequence]["ref"][index]
        others = [descriptors[s]["ref"][i] for s, i in distractors if s != sequence]
        for noise in "eht":
            right = [descriptors[sequence][f"{noise}{k}"][index] for k in range(1, 6)]
            distances = cdist([query], [*right, *others])[0].tolist()
            labels = [True] * 5 + [False] * len(others)
            for pool in pools:
                scores[q, noise, pool] = listed_precision(distances[:pool], labels[:pool])
    return scores


# --- geometry ---


def fundamental_from_pose(pose: Pose, first_K: np.ndarray, second_K: np.ndarray) -> np.ndarray:
    """F = K2^-T [t]x R K1^-1."""
    return np.linalg.inv(second_K).T @ np.cross(np.eye(3), pose.translation) @ -pose.rotation @ np.linalg.inv(first_K)


def epipolar_distance(F: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Mean of the distances, in pixels, from each point to the epipolar line of its partner, one match at a time."""
    found = []
    for one, other in zip(first, second, strict=True):
        x1, x2 = np.append(one, 1.0), np.append(other, 1.0)
        in_second, in_first = F @ x1, F.T @ x2  # lines
        residual = abs(x2 @ F @ x1)
        found.append((residual / np.hypot(*in_second[:2]) + residual / np.hypot(*in_first[:2])) / 2)
    return np.array(found)
