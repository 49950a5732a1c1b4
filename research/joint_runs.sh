#!/usr/bin/env bash
# Affine shapes and descriptors trained together (docs/training-log.md has what came of it), resumable.
# Usage: research/joint_runs.sh OPEN START OUT MINUTES      run it again to go on where it stopped
#   OPEN     of patch_sets.sh
#   START    weights of `default` to go on from; today's are half of such a run from those of commit 6a7282a
#   MINUTES  a whole number, from 4 on
# One core goes on from START and the `shape` that ships; the mean of its end and START became `default`. The other goes
# on from `commercial` and from shapes that `commercial` has taught from scratch, so that no photo outside OPEN is behind
# them, not even by way of a teacher.
set -euo pipefail
if [ $# -ne 4 ] || [[ ! $4 =~ ^[1-9][0-9]*$ ]] || [ "$4" -lt 4 ]; then
  echo "usage: research/joint_runs.sh OPEN START OUT MINUTES" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
open=$1 start=$2 out=$3 minutes=$4
train() {  # CORE RECIPE NAME, and what differs
  local core=$1 recipe=$2 name=$3 resume=()
  shift 3
  if [ -e "$out/$name/done" ]; then return; fi
  if [ -e "$out/$name/last.pt" ]; then resume=(--resume); fi
  OMP_NUM_THREADS=1 taskset -c "$core" hynet train "$recipe" --data "$open" --out "$out/$name" "${resume[@]}" "$@" || return
  touch "$out/$name/done"
}
by_commercial() {
  train 1 shape first-shape --descriptor commercial --minutes "$((minutes / 4))" --seed 1 &&
    train 1 joint commercial --descriptor commercial --shape "$out/first-shape/shape.safetensors" \
      --pairs-per-batch 512 --minutes "$((minutes - minutes / 4))" --seed 2
}
mkdir -p "$out"
train 0 joint default --descriptor "$start" --pairs-per-batch 512 --minutes "$minutes" --seed 3 & first=$!
by_commercial & second=$!
failed=0
wait "$first" || failed=1
wait "$second" || failed=1
if [ "$failed" = 1 ]; then exit 1; fi
python "$here/mixed_weights.py" "$out/next.safetensors" "$out/default/descriptor.safetensors" 0.5 "$start" 0.5 --patches "$open"
