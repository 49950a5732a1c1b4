#!/usr/bin/env bash
# HyNet only on scenes whose stated licence allows commercial use: two runs beside each other, on a core each, that
# differ in jitter; from their mean two more with the term of one threshold; the mean of these is the result.
# Usage: studies/commercial_run.sh OPEN START OUT STEPS LAST_STEPS      run it again to go on where it stopped
#   OPEN    of patch_sets.sh, with --elliptic 0.5 --max-keypoints 8000
#   START   weights of an earlier run on OPEN; none of any other photos
set -euo pipefail
if [ $# -ne 5 ]; then echo "usage: studies/commercial_run.sh OPEN START OUT STEPS LAST_STEPS" >&2; exit 2; fi
here=$(cd "$(dirname "$0")" && pwd)
open=$1 start=$2 out=$3 steps=$4 last_steps=$5
run() {  # CORE NAME, and what differs
  local core=$1 name=$2 resume=()
  shift 2
  if [ -e "$out/$name.safetensors" ]; then return; fi
  if [ -e "$out/$name/last.pt" ]; then resume=(--resume); fi
  OMP_NUM_THREADS=1 taskset -c "$core" hynet train hynet-cpu --data "$open" --out "$out/$name" "${resume[@]}" \
    --pairs-per-batch 512 --learning-rate 0.004 --average 0.998 --dropout 0.1 --sosr 1 --light 0.2 --blur 0.2 --noise 0.1 \
    --jpeg 0.1 --precision bfloat16 --checkpoint-minutes 4 "$@"
  hynet push "$out/$name" "$out/$name.safetensors" --sources "$here/sources.csv"
}
mean() { python "$here/mixed_weights.py" "$out/$1.safetensors" "$out/$2.safetensors" 0.5 "$out/$3.safetensors" 0.5 "${@:4}"; }
mkdir -p "$out"
run 0 mild --start-from "$start" --steps "$steps" --schedule constant --warmup 0.02 --jitter 0.5 --seed 1 &
run 1 strong --start-from "$start" --steps "$steps" --schedule constant --warmup 0.02 --jitter 0.8 --seed 2
wait
mean middle mild strong
run 0 last-mild --start-from "$out/middle.safetensors" --steps "$last_steps" --warmup 0.02 --jitter 0.5 --seed 3 --level 1 &
run 1 last-strong --start-from "$out/middle.safetensors" --steps "$last_steps" --warmup 0.02 --jitter 0.8 --seed 4 --level 1
wait
mean end last-mild last-strong --patches "$open"
