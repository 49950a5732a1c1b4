#!/usr/bin/env bash
# The studies of docs/paper.md and their figures, the shortest first. Run it again to go on where it stopped.
# Usage: studies/paper.sh SETS EVAL OUT      SETS holds open/ and choose/ (patch_sets.sh), EVAL holds homography/
# JOBS=1 studies/paper.sh ...                one run at a time; by default one a core
# ONLY="losses sosr" studies/paper.sh ...    these studies only, and the figures that they allow
# Every row is scored on 25,000 pairs of choose/ and on 500 patches of each sequence: two minutes of a core.
set -euo pipefail
sets=$1 eval=$2 out=$3
if [ ! -d "$out/stacks" ]; then
  rm -rf "$out/stacks.part"
  python "$(dirname "$0")/fewer_patches.py" "$eval/homography" "$out/stacks.part"
  mv "$out/stacks.part" "$out/stacks"
fi
for study in ${ONLY:-losses sosr rivals grid components}; do
  steps=800 seeds=1
  if [ "$study" = grid ]; then steps=200; fi
  if [ "$study" = components ]; then seeds=2; fi
  hynet ablate "$study" --steps $steps --seeds $seeds --data "$sets/open" --validate "$sets/choose" --test "$out/stacks" --out "$out" \
    --pairs-per-batch 256 --precision auto --pairs 25000 ${JOBS:+--jobs "$JOBS"}
done
hynet figures --out "$out/figures" --study "$out" --data "$sets/open" --batches 100
hynet report "$out" --out "$out/report.html"
