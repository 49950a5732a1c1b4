#!/usr/bin/env bash
# The studies of docs/paper.md and their figures, the shortest first. Run it again to go on where it stopped.
# Usage: studies/paper.sh SETS EVAL OUT      SETS holds open/ and choose/ (patch_sets.sh), EVAL holds homography/
# JOBS=1 studies/paper.sh ...                one run at a time; by default one a core
# ONLY="losses sosr" studies/paper.sh ...    these studies only, and the figures that they allow
set -euo pipefail
sets=$1 eval=$2 out=$3
for study in ${ONLY:-losses sosr rivals grid components}; do
  steps=800 seeds=1
  if [ "$study" = grid ]; then steps=200; fi
  if [ "$study" = components ]; then seeds=2; fi
  hynet ablate "$study" --steps $steps --seeds $seeds --data "$sets/open" --validate "$sets/choose" --test "$eval/homography" --out "$out" \
    --pairs-per-batch 256 --precision auto ${JOBS:+--jobs "$JOBS"}
done
hynet figures --out "$out/figures" --study "$out" --data "$sets/open" --batches 100
hynet report "$out" --out "$out/report.html"
