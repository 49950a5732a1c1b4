#!/usr/bin/env bash
# The three patch sets that weights are trained and chosen on, from PATH/TO/data/train:
#   OUT/choose   the scenes of scenes_for_choosing.txt: never trained on
#   OUT/open     of the others, those whose licence allows commercial use, by sources.csv
#   OUT/rest     all others
# Usage: research/patch_sets.sh PATH/TO/data/train OUT
# patch_sets.json has what came out of an earlier version of it, with a fingerprint of each set.
set -euo pipefail
if [ $# -ne 2 ]; then echo "usage: research/patch_sets.sh PATH/TO/data/train OUT" >&2; exit 2; fi
here=$(cd "$(dirname "$0")" && pwd)
choosing=$(sed 's/#.*//' "$here/scenes_for_choosing.txt" | awk 'NF { print $1 }')
commercial=$(awk -F, '$NF == "yes" { print $1 }' "$here/sources.csv")
chosen=() open=() rest=()
for scene in "$1"/*/; do
  scene=${scene%/} name=$(basename "$scene")
  if grep -qx "$name" <<<"$choosing"; then chosen+=("$scene")
  elif grep -qx "$name" <<<"$commercial"; then open+=("$scene")
  else rest+=("$scene"); fi
done
hynet patches "${open[@]}" --out "$2/open" --elliptic 0.5 --max-keypoints 8000
hynet patches "${chosen[@]}" --out "$2/choose" --hard-share 1 --max-keypoints 8000
hynet patches "${rest[@]}" --out "$2/rest"
