#!/usr/bin/env bash
# The run that becomes `shape`, affine shapes for keypoints, resumable; then its files in the package.
# Usage: research/shape_run.sh OPEN CHOOSE OUT STEPS      run it again to go on where it stopped
#   OPEN    what `hynet patches` makes of the scenes whose licence allows commercial use; the card names them
#   CHOOSE  what patch_sets.sh makes of scenes_for_choosing.txt
set -euo pipefail
models=$(cd "$(dirname "$0")/../src/hynet/models" && pwd)
resume=()
if [ -e "$3/last.pt" ]; then resume=(--resume); fi
hynet train shape --data "$1" --validate "$2" --out "$3" --steps "$4" "${resume[@]}"
cp "$features/models/shape.md" "$3/shape.md"  # the card is written by hand
hynet push "$3" "$features/models/shape.safetensors"
mv "$3/shape.md" "$features/models/shape.md"
hynet export --model "$features/models/shape.safetensors" --to "$features/models/shape.onnx" --int8 "$1" \
  --support 17.14 --trained-on "patches of 14 scenes of real photos under random warps, $4 steps" --licence Apache-2.0
