#!/usr/bin/env bash
# Affine shapes and descriptors trained together (docs/training-log.md has what came of it), resumable.
# Usage: studies/joint_runs.sh OPEN OUT MINUTES      run it again to go on where it stopped; OPEN is of patch_sets.sh
# One core goes on from `default` and the `shape` that ships. The other goes on from `commercial` and from shapes that
# `commercial` has taught from scratch, so that no photo outside OPEN is behind them, not even by way of a teacher.
set -euo pipefail
if [ $# -ne 3 ] || [[ ! $3 =~ ^[0-9]+$ ]] || [ "$3" -lt 4 ]; then echo "usage: studies/joint_runs.sh OPEN OUT MINUTES" >&2; exit 2; fi
open=$1 out=$2 minutes=$3
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
    train 1 joint commercial --descriptor commercial --shape "$out/first-shape/shape.onnx" \
      --pairs-per-batch 512 --minutes "$((minutes - minutes / 4))" --seed 2
}
mkdir -p "$out"
train 0 joint default --pairs-per-batch 512 --minutes "$minutes" --seed 3 & first=$!
by_commercial & second=$!
failed=0
wait "$first" || failed=1
wait "$second" || failed=1
exit "$failed"
