"""The numbers that the paper reports, beside which ours stand in a table, or in a sentence where the data differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..types import Table

SOURCE = "HyNet, 2020"


def note(paper: Table, measured_on: str) -> str:
    """The paper's rows in one sentence that names their data: they are not comparable with ours."""
    rows = (
        f"{name} "
        + ", ".join(f"{row[column]:{',' if isinstance(row[column], int) else '.2f'}}" for column in paper.columns)
        for name, row in paper.rows.items()
    )
    return f"{paper.title} ({', '.join(paper.columns)}), on {measured_on}, so not comparable: {'; '.join(rows)}."


# --- Table 1: PhotoTour ---

UBC_PATCHES = {"liberty": 450_092, "notredame": 468_159, "yosemite": 633_587}  # of the published sets
UBC_COLUMNS = ("ND>LIB", "YOS>LIB", "LIB>ND", "YOS>ND", "LIB>YOS", "ND>YOS", "fpr95")
UBC = {
    "SIFT": (29.84, 29.84, 22.53, 22.53, 27.29, 27.29, 26.55),
    "TFeat": (7.39, 10.13, 3.06, 3.80, 8.06, 7.24, 6.64),
    "L2-Net": (2.36, 4.70, 0.72, 1.29, 2.57, 1.71, 2.23),
    "HardNet": (1.49, 2.51, 0.53, 0.78, 1.96, 1.84, 1.51),
    "DOAP": (1.54, 2.62, 0.43, 0.87, 2.00, 1.21, 1.45),
    "SOSNet": (1.08, 2.12, 0.35, 0.67, 1.03, 0.95, 1.03),
    "HyNet": (0.89, 1.37, 0.34, 0.61, 0.88, 0.96, 0.84),
    "HyNet+SOSR": (0.91, 1.62, 0.31, 0.54, 0.78, 0.73, 0.82),
}


def ubc(columns: Sequence[str]) -> Table:
    """Table 1, those of its columns that are asked for."""
    shared = [column for column in UBC_COLUMNS if column in columns]
    rows = {name: dict(zip(UBC_COLUMNS, values, strict=True)) for name, values in UBC.items()}
    return Table(
        "The paper's Table 1", shared, {name: {c: row[c] for c in shared} for name, row in rows.items()}, SOURCE
    )


# --- Fig. 4: HPatches, split a of the patch release with its own lists, trained on Liberty ---

HPATCHES_QUERIES = 10_000  # of the release's list; fewer are a part of it
# Fig. 4 has the numbers as bars only. The text has HyNet's matching, from which SOSNet's follows by GAINS; the others
# are Table 3, HyNet but for one thing.
MATCHING = {
    "SOSNet": 51.62,
    "HyNet": 53.97,
    "HyNet without R_L2": 53.58,
    "HyNet by s alone": 53.19,
    "HyNet by d alone": 52.10,
    "HyNet with BN": 52.04,
    "HyNet with IN": 52.47,
    "HardNet's loss, FRN": 51.80,
    "SOSNet's loss, FRN": 52.12,
}
GAINS = {"verification": 0.89, "matching": 2.35, "retrieval": 1.75}  # of HyNet over SOSNet, Sec. 4.2
HPATCHES = Table(
    "The paper's Fig. 4 and Table 3",
    ["matching"],
    {name: {"matching": value} for name, value in MATCHING.items()},
    SOURCE,
)


def hpatches_notes(same_data: bool) -> list[str]:
    """Sentences below our table of HPatches."""
    gains = ", ".join(f"{gain:+.2f} in {task}" for task, gain in GAINS.items())
    gained = f"The paper's HyNet over its SOSNet, on split a of the release: {gains}."
    return [gained] if same_data else [note(HPATCHES, "split a of the release with its own lists"), gained]


# --- Table 2: the ETH benchmark, photos at full resolution ---

ETH_COLUMNS = ("registered", "points", "dense_points", "track_length", "reprojection_error")
# A word of the scene's name -> method (mean keypoints a photo) -> row
ETH: dict[str, dict[str, tuple[int, int, int, float, float]]] = {
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
# A word of the scene's name -> the number of its photos, and their longer side where all have one size
ETH_SIZES: dict[str, tuple[int, int | None]] = {
    "herz": (8, 3072),
    "fountain": (11, 3072),
    "south": (128, 3072),
    "madrid": (1344, None),
    "gendarmen": (1463, None),
}


def eth(scenes: Sequence[str]) -> Table | None:
    """Table 2, the rows of those scenes; None if it has none of them."""
    known = {scene: word for scene in scenes for word in ETH if word in scene.lower()}
    rows = {
        method if len(scenes) == 1 else f"{scene}: {method}": dict(zip(ETH_COLUMNS, row, strict=True))
        for scene, word in known.items()
        for method, row in ETH[word].items()
    }
    return Table("The paper's Table 2", ETH_COLUMNS, rows, SOURCE) if rows else None


def is_eth(scenes: Mapping[str, tuple[int, int]]) -> bool:
    """True if these are the paper's scenes at full size: name -> number of photos, longer side of the first."""

    def same(name: str, photos: int, longest: int) -> bool:
        expected = next((size for word, size in ETH_SIZES.items() if word in name.lower()), None)
        return expected is not None and photos == expected[0] and expected[1] in (None, longest)

    return all(same(name, *found) for name, found in scenes.items())


def eth_note(paper: Table) -> str:
    """HyNet's rows of Table 2 in one sentence."""
    hynet = replace(paper, rows={name: row for name, row in paper.rows.items() if "HyNet" in name})
    return note(hynet, "its own photos, at full size")


# --- Table 4: the Image Matching Challenge's validation scenes ---

IMC_COLUMNS = ("stereo", "multiview", "average")  # of both tasks
IMC = {
    "Key.Net + HardNet": (63.40, 74.41, 68.91),
    "Key.Net + SOSNet": (63.41, 74.51, 68.96),
    "Key.Net + HyNet": (64.07, 74.84, 69.46),
}
IMC_SCENES, IMC_PHOTOS = ("reichstag", "sacre_coeur", "st_peters_square"), 100  # of each scene


def imc(task: str) -> Table:
    """The appendix's table under the names of our columns."""
    ours = {"maa10": "average", "stereo": "stereo", "multiview": "multiview"} if task == "both" else {"maa10": task}
    rows = {
        name: {column: dict(zip(IMC_COLUMNS, values, strict=True))[theirs] for column, theirs in ours.items()}
        for name, values in IMC.items()
    }
    return Table("The paper's appendix", list(ours), rows)


def is_imc(photos: Mapping[str, int]) -> bool:
    """True if these are the challenge's whole validation scenes: name -> number of photos."""
    return {name.rpartition("/")[2]: count for name, count in photos.items()} == dict.fromkeys(IMC_SCENES, IMC_PHOTOS)


def imc_note(paper: Table) -> str:
    """The appendix's rows in one sentence."""
    return note(paper, f"{IMC_PHOTOS} photos each of {', '.join(IMC_SCENES)}")
