#!/usr/bin/env bash
# Weights -> the files of `default` in the package: .safetensors to train on, .onnx in 8-bit integers and in floats.
# Usage: studies/ship_default.sh WEIGHTS.safetensors SET     ranges of the integers come from patches of SET, of usual width
set -euo pipefail
models=$(cd "$(dirname "$0")/../src/hynet/models" && pwd)
told=(--support 24 --ratio 0.9 --trained-on "real photos: landmarks, buildings, drone surveys, objects" --licence Apache-2.0)
cp "$1" "$models/default.safetensors"
hynet export --model "$models/default.safetensors" --to "$models/default-float.onnx" "${told[@]}"
hynet export --model "$models/default.safetensors" --to "$models/default.onnx" --int8 "$2" "${told[@]}"
