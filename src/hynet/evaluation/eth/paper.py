"""The paper's Table 2: what it reports for the scenes of the ETH benchmark, at their full resolution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...types import Table

COLUMNS = ("registered", "points", "dense_points", "track_length", "reprojection_error")
# A word of the scene's name -> method (mean keypoints a photo) -> row
SCENES: dict[str, dict[str, tuple[int, int, int, float, float]]] = {
    "herz": {
        "SIFT (11.3K)": (8, 7_500, 241_000, 4.22, 0.43),
        "DoG+HardNet": (8, 8_700, 239_000, 4.30, 0.50),
        "DoG+SOSNet": (8, 8_700, 239_000, 4.31, 0.50),
        "DoG+HyNet": (8, 8_900, 246_000, 4.32, 0.52),
        "SuperPoint (6.1K)": (8, 5_000, 244_000, 4.47, 0.79),
        "D2-Net (13.1K)": (8, 13_000, 221_000, 2.87, 1.37),
        "R2D2 (12.1K)": (8, 10_000, 244_000, 4.48, 1.04),
        "Key.Net+HyNet (11.9K)": (8, 9_400, 246_000, 5.24, 0.69),
    },
    "fountain": {
        "SIFT (11.8K)": (11, 14_700, 292_000, 4.79, 0.39),
        "DoG+HardNet": (11, 16_300, 303_000, 4.91, 0.47),
        "DoG+SOSNet": (11, 16_300, 306_000, 4.92, 0.46),
        "DoG+HyNet": (11, 16_500, 303_000, 4.93, 0.48),
        "SuperPoint (5.5K)": (11, 7_000, 304_000, 4.93, 0.81),
        "D2-Net (12.5K)": (11, 19_000, 301_000, 3.03, 1.40),
        "R2D2 (12.6K)": (11, 13_400, 308_000, 5.02, 1.47),
        "Key.Net+HyNet (11.9K)": (11, 12_000, 307_000, 7.81, 0.69),
    },
    "south": {
        "SIFT (13.3K)": (128, 108_000, 2_140_000, 6.04, 0.54),
        "DoG+HardNet": (128, 159_000, 2_120_000, 5.18, 0.62),
        "DoG+SOSNet": (128, 160_000, 2_120_000, 5.17, 0.63),
        "DoG+HyNet": (128, 166_000, 2_120_000, 5.14, 0.64),
        "SuperPoint (10.6K)": (128, 125_000, 2_130_000, 7.10, 0.83),
        "D2-Net (12.4K)": (128, 178_000, 2_060_000, 3.11, 1.36),
        "R2D2 (13.2K)": (128, 136_000, 3_310_000, 5.60, 1.43),
        "Key.Net+HyNet (12.9K)": (128, 100_000, 2_110_000, 12.03, 0.74),
    },
    "madrid": {
        "SIFT (7.4K)": (500, 116_000, 1_820_000, 6.32, 0.60),
        "DoG+HardNet": (697, 261_000, 1_270_000, 4.16, 0.98),
        "DoG+SOSNet": (675, 240_000, 1_270_000, 4.40, 0.94),
        "DoG+HyNet": (697, 337_000, 1_250_000, 3.93, 0.98),
        "SuperPoint (2.1K)": (702, 125_000, 1_140_000, 4.43, 1.05),
        "D2-Net (7.74K)": (787, 229_000, 960_000, 5.50, 1.27),
        "R2D2 (12.9K)": (790, 158_000, 1_150_000, 7.26, 1.20),
        "Key.Net+HyNet (9.3K)": (897, 386_000, 1_620_000, 5.87, 1.05),
    },
    "gendarmen": {
        "SIFT (8.5K)": (1035, 338_000, 4_220_000, 5.52, 0.69),
        "DoG+HardNet": (1018, 827_000, 2_060_000, 2.56, 1.09),
        "DoG+SOSNet": (1129, 729_000, 3_050_000, 3.85, 0.95),
        "DoG+HyNet": (1181, 927_000, 2_930_000, 3.49, 1.05),
        "SuperPoint (2.3K)": (1112, 236_000, 2_490_000, 4.74, 1.10),
        "D2-Net (8.0K)": (1225, 541_000, 2_600_000, 5.21, 1.30),
        "R2D2 (13.3K)": (1226, 529_000, 3_800_000, 6.38, 1.21),
        "Key.Net+HyNet (10.6K)": (1259, 897_000, 3_580_000, 5.79, 1.13),
    },
}


# A word of the scene's name -> its photos, and their longer side where all have one size
SIZES: dict[str, tuple[int, int | None]] = {
    "herz": (8, 3072),
    "fountain": (11, 3072),
    "south": (128, 3072),
    "madrid": (1344, None),
    "gendarmen": (1463, None),
}


def is_papers(scenes: Mapping[str, tuple[int, int]]) -> bool:
    """Whether these are the paper's scenes at full size: name -> photos, longer side of the first."""
    return all(_is_papers(name, *found) for name, found in scenes.items())


def _is_papers(name: str, photos: int, longest: int) -> bool:
    expected = next((size for word, size in SIZES.items() if word in name.lower()), None)
    return expected is not None and photos == expected[0] and expected[1] in (None, longest)


def table(scenes: Sequence[str]) -> Table | None:
    """The rows of those scenes that the paper has."""
    known = {scene: word for scene in scenes for word in SCENES if word in scene.lower()}
    rows = {
        method if len(scenes) == 1 else f"{scene}: {method}": dict(zip(COLUMNS, row, strict=True))
        for scene, word in known.items()
        for method, row in SCENES[word].items()
    }
    return Table("The paper's Table 2", COLUMNS, rows, "HyNet, 2020") if rows else None


def of_hynet(paper: Table) -> Table:
    """Only its rows of HyNet, for a note."""
    return replace(paper, rows={name: row for name, row in paper.rows.items() if "HyNet" in name})
