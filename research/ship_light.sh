#!/usr/bin/env bash
# The weights of a run -> the files of `light` in the package: .safetensors to train on, .onnx in 8-bit integers, the card.
# Usage: research/ship_light.sh RUN SETS      ranges of the integers come from patches of SETS/open
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
models=$(cd "$here/../src/hynet/models" && pwd)
pushed=$(hynet push "$1" "$features/models/light.safetensors" --sources "$here/sources.csv" --json)
steps=$(python -c "import json, sys; print(json.load(sys.stdin)['steps'])" <<<"$pushed")
hynet export --model "$features/models/light.safetensors" --to "$features/models/light.onnx" --int8 "$2/open" --support 24 --ratio 0.9 \
  --trained-on "real photos, by \`default\`, $steps steps" --licence Apache-2.0
sed -i '1s/.*/# light: a small network taught by `default`/' "$features/models/light.md"
cat >> "$features/models/light.md" <<'CARD'

## Files

`light.onnx`, for inference, is in 8-bit integers; `light.safetensors`, for further training (`--start-from light`), in float32.
Apache-2.0 for the weights; the photos belong to their authors, and some were published for research or non-commercial use.
CARD
