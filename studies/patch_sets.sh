#!/usr/bin/env bash
# The two patch sets that weights are trained and chosen on, from PATH/TO/data/train:
#   OUT/choose   the scenes of scenes_for_choosing.txt: never trained on
#   OUT/train    all others
# Usage: studies/patch_sets.sh PATH/TO/data/train OUT
# Made on 2026-11-17 in 70 minutes of two busy cores; patch_sets.json has what came out, with a fingerprint of each.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
choosing=$(sed 's/#.*//' "$here/scenes_for_choosing.txt" | awk 'NF { print $1 }')
chosen=() others=()
for scene in "$1"/*/; do
  scene=${scene%/}
  if grep -qx "$(basename "$scene")" <<<"$choosing"; then chosen+=("$scene"); else others+=("$scene"); fi
done
hynet patches "${chosen[@]}" --out "$2/choose" --hard-share 1 --max-keypoints 8000
hynet patches "${others[@]}" --out "$2/train"
