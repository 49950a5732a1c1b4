#!/usr/bin/env bash
# The weights of a run -> the files of `default` in the package: .safetensors to train on, .onnx in 8-bit integers and in floats.
# Usage: studies/ship_default.sh RUN SETS CARD     ranges of the integers come from patches of SETS/open; CARD gets the run's own card
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
models=$(cd "$here/../src/hynet/models" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
hynet push "$1" "$work/default.safetensors" --sources "$here/sources.csv"
told=(--support 24 --ratio 0.9 --trained-on "real photos: landmarks, buildings, drone surveys, objects" --licence Apache-2.0)
hynet export --model "$work/default.safetensors" --to "$work/default-float.onnx" "${told[@]}"
hynet export --model "$work/default.safetensors" --to "$work/default.onnx" --int8 "$2/open" "${told[@]}"
mv "$work/default.md" "$3"
mv "$work"/default* "$models/"
