#!/usr/bin/env bash
# Weights -> the files of a model in the package: .safetensors to train on, .onnx in 8-bit integers, and in floats too
# for default. commercial's .safetensors is in 16-bit floats, since all models together may have 20 MB. The cards are
# written by hand, from the one that `hynet export --card` writes beside the weights.
# Usage: research/ship.sh default|light|commercial|shape WEIGHTS.safetensors SET      ranges of the integers come from patches of SET
set -euo pipefail
if [ $# -ne 3 ]; then sed -n 5p "$0" >&2; exit 2; fi
name=$1 weights=$2 patches=$3
models=$(cd "$(dirname "$0")/../src/hynet/features/models" && pwd)
case $name in
  default) options=(--support 24 --ratio 0.9 --trained-on "real photos: landmarks, buildings, drone surveys, objects") ;;
  light) options=(--support 24 --ratio 0.9 --trained-on "real photos, by \`default\`") ;;
  commercial) options=(--support 24 --ratio 0.9 --trained-on "real photos whose licence allows commercial use") ;;
  shape) options=(--support 17.14 --trained-on "patches of 14 scenes of real photos under random warps") ;;
  *) echo "no model $name; choose default, light, commercial or shape." >&2; exit 2 ;;
esac
cp "$weights" "$models/$name.safetensors"
if [ "$name" = commercial ]; then
  python - "$models/$name.safetensors" <<'HALF'
import sys

from safetensors import safe_open
from safetensors.torch import load_file, save_file

with safe_open(sys.argv[1], "pt") as file:
    about = file.metadata()
weights = {name: value.half() if value.is_floating_point() else value for name, value in load_file(sys.argv[1]).items()}
save_file(weights, sys.argv[1], metadata=about)
HALF
fi
options+=(--licence Apache-2.0)
if [ "$name" = default ]; then
  hynet export --model "$models/default.safetensors" --to "$models/default-float.onnx" "${options[@]}"
fi
hynet export --model "$models/$name.safetensors" --to "$models/$name.onnx" --int8 "$patches" "${options[@]}"
