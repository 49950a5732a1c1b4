#!/usr/bin/env bash
# The studies of docs/paper.md and their figures, the shortest first. Run it again to go on where it stopped.
# Usage: research/paper.sh SETS EVAL OUT      SETS holds open/ and choose/ (patch_sets.sh), EVAL holds homography/
# JOBS=1 research/paper.sh ...                one run at a time; by default one a core
# ONLY="losses sosr" research/paper.sh ...    these studies only, and the figures that they allow
# Every row is scored on 25,000 pairs of choose/ and on 500 patches of each sequence, two minutes of a core; those of
# the grid and of components, which are many, on 10,000 and 200.
set -euo pipefail
usage="usage: research/paper.sh SETS EVAL OUT"
sets=${1:?$usage}
photos=${2:?$usage}
out=${3:?$usage}
for patches in 500 200; do
  stacks=$out/stacks-$patches
  if [ ! -d "$stacks" ]; then
    rm -rf "$stacks.part"
    python "$(dirname "$0")/fewer_patches.py" "$photos/homography" "$stacks.part" $patches
    mv "$stacks.part" "$stacks"
  fi
done
for study in ${ONLY:-losses sosr rivals grid components}; do
  steps=800 seeds=1 pairs=25000 patches=500
  if [ "$study" = grid ]; then steps=200; fi
  if [ "$study" = components ]; then seeds=2; fi
  if [ "$study" = grid ] || [ "$study" = components ]; then pairs=10000 patches=200; fi
  hynet paper ablate "$study" --steps $steps --seeds $seeds --data "$sets/open" --validate "$sets/choose" --test "$out/stacks-$patches" --out "$out" \
    --pairs-per-batch 256 --precision auto --pair-list $pairs ${JOBS:+--jobs "$JOBS"}
done
hynet paper figures --out "$out/figures" --study "$out" --data "$sets/open" --batches 100
hynet report "$out" --out "$out/report.html"
