#!/usr/bin/env bash
# The runs that `commercial` is the mean of: HyNet only on scenes whose stated licence allows commercial use, on two cores.
# Usage: research/commercial_run.sh OPEN START OUT      run it again to go on where it stopped
#   OPEN    of patch_sets.sh
#   START   weights of an earlier run on OPEN alone; none of any other photos
# Two runs at a constant rate differ in jitter; from them two more, with the term of one threshold, come to rest.
set -euo pipefail
if [ $# -ne 3 ]; then echo "usage: research/commercial_run.sh OPEN START OUT" >&2; exit 2; fi
here=$(cd "$(dirname "$0")" && pwd)
open=$1 start=$2 out=$3
run() {  # CORE NAME, and what differs
  local core=$1 name=$2 resume=()
  shift 2
  if [ -e "$out/$name.safetensors" ]; then return; fi
  if [ -e "$out/$name/last.pt" ]; then resume=(--resume); fi
  OMP_NUM_THREADS=1 taskset -c "$core" hynet train hynet-cpu --data "$open" --out "$out/$name" "${resume[@]}" \
    --pairs-per-batch 512 --learning-rate 0.004 --warmup 0.02 --average 0.998 --dropout 0.1 --sosr 1 --light 0.2 --blur 0.2 \
    --noise 0.1 --jpeg 0.1 --precision bfloat16 --checkpoint-minutes 4 "$@" || return
  hynet push "$out/$name" "$out/$name.safetensors" --sources "$here/sources.csv"
}
mean() { python "$here/mixed_weights.py" "$out/$1.safetensors" "${@:2}"; }
both() {  # two runs, each on its core: waits for both, and fails if one does
  "$1" & local first=$!
  "$2" & local second=$!
  local failed=0
  wait "$first" || failed=1
  wait "$second" || failed=1
  return "$failed"
}
mild() { run 0 mild --start-from "$start" --steps 2132 --schedule constant --jitter 0.5 --seed 1; }
strong() { run 1 strong --start-from "$start" --steps 625 --schedule constant --jitter 0.8 --seed 2; }
last_mild() { run 0 last-mild --start-from "$out/mild.safetensors" --steps 1600 --jitter 0.6 --seed 3 --level 1; }
last_strong() { run 1 last-strong --start-from "$out/middle.safetensors" --steps 900 --jitter 0.9 --seed 4 --level 1; }
mkdir -p "$out"
both mild strong
mean middle "$out/mild.safetensors" 0.6 "$out/strong.safetensors" 0.4
both last_mild last_strong
mean end "$out/last-mild.safetensors" 0.55 "$out/mild.safetensors" 0.35 "$out/last-strong.safetensors" 0.1 --patches "$open"
