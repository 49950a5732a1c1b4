#!/usr/bin/env bash
# The run that becomes `light`: a small network taught by `default`, from trained weights, on one core, resumable.
# Usage: research/light_run.sh START OPEN OUT MINUTES     run it again to go on where it stopped
#   START  weights to go on from: `light`, or a .safetensors such as grown_light.py makes of fewer layers
#   OPEN   of patch_sets.sh
set -euo pipefail
resume=()
if [ -e "$3/last.pt" ]; then resume=(--resume); fi
# jitter: twice the recipe's, since what light lacked most was what `default` makes of badly placed keypoints
OMP_NUM_THREADS=1 exec taskset -c "${CORE:-0}" hynet train light --teacher default --start-from "$1" --data "$2" --out "$3" --minutes "$4" \
  "${resume[@]}" --pairs-per-batch 256 --jitter 0.6 --distill-fraction 1 --learning-rate 0.004 --warmup 0.03 --average 0.998 --precision auto \
  --checkpoint-minutes 4
