#!/usr/bin/env bash
# A try at the next `default`, which does not ship (docs/training-log.md says why): on from its weights, on one core, and the mean of both ends.
# Usage: studies/long_run.sh OPEN START OUT MINUTES SHARE      run it again to go on where it stopped
#   OPEN   of patch_sets.sh
#   START  weights to go on from, such as default.safetensors
#   SHARE  of the new weights in OUT/mixed.safetensors
# CORE=1 studies/long_run.sh ...      on another core than the first
set -euo pipefail
here=$(dirname "$0")
resume=()
if [ -e "$3/last.pt" ]; then resume=(--resume); fi
# jitter: what the weights before lacked most is bearing badly placed keypoints; no --night, which cost planes (docs/training-log.md)
OMP_NUM_THREADS=1 taskset -c "${CORE:-0}" hynet train hynet-cpu --data "$1" --start-from "$2" --out "$3" --minutes "$4" "${resume[@]}" \
  --learning-rate 0.002 --warmup 0.03 --level 1 --average 0.999 --dropout 0.1 --jitter 0.8 --light 0.5 --blur 0.2 --noise 0.1 --jpeg 0.1 \
  --precision bfloat16 --checkpoint-minutes 4
hynet push "$3" "$3/end.safetensors" --sources "$here/sources.csv"
python "$here/mixed_weights.py" "$2" "$3/end.safetensors" "$5" "$3/mixed.safetensors"
