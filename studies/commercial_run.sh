#!/usr/bin/env bash
# `commercial`: HyNet from scratch, only on scenes whose stated licence allows commercial use, on one core.
# Usage: studies/commercial_run.sh OPEN OUT MINUTES [START]      run it again to go on where it stopped
#   OPEN   of patch_sets.sh
#   START  weights of an earlier run of this script to go on from; none of any other photos
# CORE=1 studies/commercial_run.sh ...      on another core than the first
set -euo pipefail
if [ $# -lt 3 ] || [ $# -gt 4 ]; then echo "usage: studies/commercial_run.sh OPEN OUT MINUTES [START]" >&2; exit 2; fi
more=()
if [ $# -eq 4 ]; then more+=(--start-from "$4"); fi
if [ -e "$2/last.pt" ]; then more+=(--resume); fi
OMP_NUM_THREADS=1 taskset -c "${CORE:-0}" hynet train hynet-cpu --data "$1" --out "$2" --minutes "$3" "${more[@]}" \
  --pairs-per-batch 256 --learning-rate 0.005 --warmup 0.01 --level 1 --average 0.998 --dropout 0.1 \
  --jitter 0.5 --light 0.5 --blur 0.2 --noise 0.1 --jpeg 0.1 --precision bfloat16 --checkpoint-minutes 4
