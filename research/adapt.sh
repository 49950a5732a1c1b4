#!/usr/bin/env bash
# `hynet adapt` on three kinds of scenes that are set aside now (docs/training.md says which models saw them): a drone survey, a room, a statue.
# Usage: research/adapt.sh PATH/TO/data/train OUT MINUTES      a JSON a line; scenes that are done are not done again
set -euo pipefail
mkdir -p "$2"
for scene in drone_langley vggsfm_kitchen vork_alexanderthegreat; do
  found=$2/$scene.json
  if [ ! -s "$found" ]; then
    hynet adapt "$1/$scene" --minutes "$3" --out "$2/$scene.safetensors" --json > "$found.part" || continue
    mv "$found.part" "$found"
  fi
  echo "$scene $(tail -1 "$found")"
done
