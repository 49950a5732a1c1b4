#!/usr/bin/env bash
# The run that becomes the next `default`: on from trained weights, on one core (docs/training-log.md has what came of it).
# Usage: research/long_run.sh OPEN START OUT MINUTES      run it again to go on where it stopped
#   OPEN   of patch_sets.sh
#   START  weights to go on from, such as default.safetensors
# CORE=1 research/long_run.sh ...      on another core than the first
set -euo pipefail
if [ $# -ne 4 ]; then echo "usage: research/long_run.sh OPEN START OUT MINUTES" >&2; exit 2; fi
resume=()
if [ -e "$3/last.pt" ]; then resume=(--resume); fi
# jitter: between what earlier runs had, of which 0.3 lost planes and 0.8 lost FPR@95; no --night, which cost planes
# sosr: better on both in a short run
OMP_NUM_THREADS=1 taskset -c "${CORE:-0}" hynet train hynet-cpu --data "$1" --start-from "$2" --out "$3" --minutes "$4" "${resume[@]}" \
  --pairs-per-batch 512 --learning-rate 0.002 --warmup 0.03 --level 1 --average 0.998 --dropout 0.1 \
  --jitter 0.6 --sosr 1 --light 0.5 --blur 0.2 --noise 0.1 --jpeg 0.1 --precision bfloat16 --checkpoint-minutes 4
hynet push "$3" "$3/end.safetensors" --sources "$(dirname "$0")/sources.csv"
