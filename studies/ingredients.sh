#!/usr/bin/env bash
# What each ingredient of the next `default` brings: HyNet from scratch, an equal number of patches a row, one seed.
# Usage: studies/ingredients.sh SETS OUT [STEPS]      SETS holds open/, rest/ and choose/ (patch_sets.sh); run it again to go on
set -euo pipefail
sets=$1 out=$2 steps=${3:-400}
row() {  # NAME, share of the steps, data ... -- options that differ
  local name=$1 length=$2 data=()
  shift 2
  while [ "$1" != -- ]; do data+=("$sets/$1"); shift; done
  shift
  [ -e "$out/$name/done" ] && return
  local resume=()
  if [ -e "$out/$name/last.pt" ]; then resume=(--resume); fi
  hynet train hynet-cpu --data "${data[@]}" --validate "$sets/choose" --out "$out/$name" --steps "$length" "${resume[@]}" \
    --jitter 0.4 --light 0.5 --blur 0.4 --noise 0.1 --jpeg 0.2 --dropout 0.1 --average 0.99 --precision auto \
    --validate-minutes 60 "$@" --json | tail -1 > "$out/$name.json"
  touch "$out/$name/done"
}
mkdir -p "$out"
row all "$steps" open rest --
row open "$steps" open --
row rest "$steps" rest --
row level "$steps" open rest -- --level 1
row night "$steps" open rest -- --night 0.3
row sosr "$steps" open rest -- --sosr 1
row pairs512 $((steps / 2)) open rest -- --pairs-per-batch 512
row pairs128 $((steps * 2)) open rest -- --pairs-per-batch 128
for file in "$out"/*.json; do echo "$(basename "$file" .json) $(cat "$file")"; done
