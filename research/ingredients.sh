#!/usr/bin/env bash
# What each ingredient of `default` brings: HyNet from scratch, an equal number of patches a row, on one core.
# Usage: research/ingredients.sh SETS OUT [STEPS]      SETS holds, from the scenes of patch_sets.sh,
#   open/, rest/               with the defaults of `hynet patches`
#   open-mixed/, rest-mixed/   with --elliptic 0.5
#   former/                    those of both that were there before the tourist photos
# Run it again to go on where it stopped; run it twice at once, and the two share the rows:
#   CORE=0 research/ingredients.sh ... & CORE=1 research/ingredients.sh ...
# ONLY="all open" takes only these rows.
set -euo pipefail
if [ $# -lt 2 ]; then echo "usage: research/ingredients.sh SETS OUT [STEPS]" >&2; exit 2; fi
sets=$1 out=$2 steps=${3:-250}
row() {  # NAME, steps, sets ... -- options that differ
  local name=$1 length=$2 data=() resume=()
  shift 2
  while [ "$1" != -- ]; do data+=("$sets/$1"); shift; done
  shift
  if [ -n "${ONLY:-}" ] && [[ " $ONLY " != *" $name "* ]]; then return; fi
  exec 9> "$out/$name.lock"
  if ! flock --nonblock 9 || [ -e "$out/$name.safetensors" ]; then return; fi
  if [ -e "$out/$name/last.pt" ]; then resume=(--resume); fi
  OMP_NUM_THREADS=1 taskset -c "${CORE:-0}" hynet train hynet-cpu --data "${data[@]}" --out "$out/$name" --steps "$length" \
    "${resume[@]}" --pairs-per-batch 256 --jitter 0.6 --light 0.5 --blur 0.2 --noise 0.1 --jpeg 0.1 --dropout 0.1 \
    --level 1 --sosr 1 --average 0.99 --precision bfloat16 "$@"
  hynet push "$out/$name" "$out/$name.safetensors"
}
mkdir -p "$out"
row all "$steps" open rest --
row open "$steps" open --
row former "$steps" former --
row no-sosr "$steps" open rest -- --sosr 0
row no-level "$steps" open rest -- --level 0
row no-light "$steps" open rest -- --light 0
row mixed "$steps" open-mixed rest-mixed --
row pairs512 $((steps / 2)) open rest -- --pairs-per-batch 512
row all-again "$steps" open rest -- --seed 1
row open-again "$steps" open -- --seed 1
row no-jitter "$steps" open rest -- --jitter 0
row night "$steps" open rest -- --night 0.3
row pairs128 $((steps * 2)) open rest -- --pairs-per-batch 128
