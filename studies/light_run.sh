#!/usr/bin/env bash
# The run that becomes `light`: a small network taught by `default`, from the weights that ship, on one core, resumable.
# Usage: studies/light_run.sh OPEN OUT MINUTES     OPEN: of patch_sets.sh; run it again to go on where it stopped.
set -euo pipefail
resume=()
if [ -e "$2/last.pt" ]; then resume=(--resume); fi
# jitter: twice the recipe's, since what light lacked most was what `default` makes of badly placed keypoints
OMP_NUM_THREADS=1 exec taskset -c 1 hynet train light --teacher default --start-from light --data "$1" --out "$2" --minutes "$3" \
  "${resume[@]}" --pairs-per-batch 256 --jitter 0.6 --lessons 1 --learning-rate 0.004 --warmup 0.03 --average 0.998 --precision auto \
  --checkpoint-minutes 4
