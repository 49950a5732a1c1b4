#!/usr/bin/env bash
# Weights -> the files of `default` in the package: .safetensors to train on, .onnx in 8-bit integers and in floats.
# Usage: research/ship_default.sh WEIGHTS.safetensors SET     ranges of the integers come from patches of SET, of usual width
set -euo pipefail
models=$(cd "$(dirname "$0")/../src/hynet/models" && pwd)
told=(--support 24 --ratio 0.9 --trained-on "real photos: landmarks, buildings, drone surveys, objects" --licence Apache-2.0)
cp "$1" "$features/models/default.safetensors"
hynet export --model "$features/models/default.safetensors" --to "$features/models/default-float.onnx" "${told[@]}"
hynet export --model "$features/models/default.safetensors" --to "$features/models/default.onnx" --int8 "$2" "${told[@]}"
