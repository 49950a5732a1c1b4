"""Makes the shards of training pairs, a scene or some fifty made pairs each; run again it makes what is missing.

python -m research.matcher.pairs real SCENES DATA OUT         SCENES: folders of `hynet reconstruct`
python -m research.matcher.pairs made DATA OUT --count 1000
python -m research.matcher.pairs describe DATA OUT --model light      with weights that have changed
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .. import scenes as all_scenes
from . import describing, made_pairs, real_pairs, shards
from .hynet_paths import Array, images

IN_A_SHARD = 50
DEFAULT_TOO = 4  # every so many shards of made pairs have the descriptors of all models, the others of light alone


def real(reconstructed: Path, data: Path, out: Path) -> None:
    models = describing.extractors(describing.MODELS)
    for folder in real_pairs.scenes(reconstructed, all_scenes.apart()):
        file = out / f"real-{folder.name}.npz"
        if file.exists():
            continue
        shard = real_pairs.make(folder, data / folder.name, models)
        if shard.pairs:
            shards.save(file, shard)
        tell(file, shard)


def photos_to_train_on(data: Path) -> list[Path]:
    apart = all_scenes.apart()
    return sorted(path for path in data.glob("*/*.jpg") if path.parent.name not in apart)


def made(data: Path, out: Path, count: int, first: int) -> None:
    photos = photos_to_train_on(data)
    both = describing.extractors(describing.MODELS)
    for number in range(first, first + count // IN_A_SHARD):
        file = out / f"made-{number:04d}.npz"
        if file.exists():
            continue
        models = both if number % DEFAULT_TOO == 0 else {"light": both["light"]}
        seen, truths = [], []
        for seed in range(number * IN_A_SHARD, (number + 1) * IN_A_SHARD):
            if (found := made_pairs.make(seed, photos, models)) is not None:
                truths.append(replace(found[1], photos=(len(seen), len(seen) + 1)))
                seen += found[0]
        shard = shards.Shard(seen, truths)
        shards.save(file, shard)
        tell(file, shard)


def image_of(seen: shards.Seen, data: Path, photos: Sequence[Path]) -> Array:
    """The photo, or the view that was made of it."""
    if seen.view < 0:
        return images.read(data / seen.source)
    seed, side = divmod(seen.view, 2)
    return made_pairs.views(made_pairs.plan(seed, photos), seed)[side][0]


def describe(data: Path, out: Path, model: str) -> None:
    """Descriptors of one model, made again for the keypoints that the shards have."""
    models = describing.extractors([model])
    photos = photos_to_train_on(data)
    for file in sorted(out.glob("*.npz")):
        shard = shards.load(file)
        again = []
        for seen in shard.photos:
            codes = describing.described(image_of(seen, data, photos), describing.circles(seen), models)
            again.append(replace(seen, codes={**seen.codes, **codes}))
        shards.save(file, shards.Shard(again, shard.pairs))
        print(file.name, flush=True)


def tell(file: Path, shard: shards.Shard) -> None:
    kinds = Counter(truth.kind for truth in shard.pairs)
    found = sum(len(truth.positives) for truth in shard.pairs)
    print(f"{file.name}: {len(shard.photos)} photos, {dict(kinds)}, {found} positives", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    each = commands.add_parser("real")
    each.add_argument("reconstructed", type=Path)
    each.add_argument("data", type=Path)
    each.add_argument("out", type=Path)
    each = commands.add_parser("made")
    each.add_argument("data", type=Path)
    each.add_argument("out", type=Path)
    each.add_argument("--count", type=int, default=1000)
    each.add_argument("--first", type=int, default=0, help="number of the first shard")
    each = commands.add_parser("describe")
    each.add_argument("data", type=Path)
    each.add_argument("out", type=Path)
    each.add_argument("--model", default="light")
    options = vars(parser.parse_args())
    for name in ("reconstructed", "data"):
        if name in options and not any(options[name].glob("*/")):
            parser.error(f"no scenes in {options[name]}.")
    {"real": real, "made": made, "describe": describe}[options.pop("command")](**options)


if __name__ == "__main__":
    main()
