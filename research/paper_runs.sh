#!/usr/bin/env bash
# The paper's rows trained with equal settings, the learning rate falling to 0: run folders of `hynet train`.
# Usage: research/paper_runs.sh SETS OUT margins|800|3200|12800      SETS holds open/ and choose/ (patch_sets.sh)
# Run it again to go on where it stopped. A number of steps takes the margins of OUT/margins.txt, lines of ROW MARGIN
# that are written by hand from the curves of `margins`; rows without a line keep their recipe's.
set -euo pipefail
if [ $# -ne 3 ]; then sed -n 3,5p "$0" >&2; exit 2; fi
sets=$1 out=$2 what=$3
# The settings of HyNet's recipe but for what a row is, as in `hynet ablate`.
declare -A row=(
  [hynet]="" [hynet-bn]="" [hynet-sosr]="--sosr 1" [sosnet]="--network l2net --loss sosnet"
  [hardnet]="--network l2net --loss hardnet" [loss-a]="--loss loss_a" [loss-b]="--loss loss_b"
  [hynet-s]="--loss s_only" [hynet-d]="--loss d_only"
)

run() { # NAME STEPS SEED OPTIONS...
  local folder=$out/$1 resume=() recipe=hynet
  case $1 in *hynet-bn*) recipe=hynet-bn ;; esac
  if [ -e "$folder/ended" ]; then return; fi
  if [ -e "$folder/last.pt" ]; then resume=(--resume); fi
  python -m hynet train "$recipe" --data "$sets/open" --validate "$sets/choose" --out "$folder" --steps "$2" --seed "$3" "${@:4}" \
    --schedule linear --pairs-per-batch 256 --precision auto --checkpoint-minutes 2 "${resume[@]}"
  touch "$folder/ended"
}

margin_of() { [ -e "$out/margins.txt" ] && awk -v row="$1" '$1 == row { print "--margin " $2 }' "$out/margins.txt" || true; }

# shellcheck disable=SC2046,SC2086  # options are words
if [ "$what" = margins ]; then
  while read -r name margins; do
    for margin in $margins; do run "margins/$name-$margin" 200 0 ${row[$name]} --margin "$margin"; done
  done <<'ROWS'
hynet-s 0.05 0.1 0.2 0.4
hynet-d 0.2 0.4 0.6 0.8
loss-a 0.3 0.6 0.9 1.2
loss-b 0.3 0.6 0.9 1.2
hynet 0.8 1.0 1.2 1.4
sosnet 0.5 1.0 1.5
hardnet 0.5 1.0 1.5
ROWS
else
  names="hynet sosnet hynet-bn hynet-sosr hardnet loss-a"
  if [ "$what" = 12800 ]; then names="hynet-bn hynet sosnet"; fi  # what is first gives way last
  for name in $names; do
    for seed in 0 1 2; do run "$what/$name-$seed" "$what" "$seed" ${row[$name]} $(margin_of "$name"); done
  done
fi
