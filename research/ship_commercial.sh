#!/usr/bin/env bash
# The end of commercial_run.sh -> the files of `commercial` in the package: .safetensors in 16-bit floats, since all
# models together may have 20 MB, and .onnx in 8-bit integers. The card is written by hand, with the bill of materials
# that the script prints beside each run.
# Usage: research/ship_commercial.sh OUT/end.safetensors SET      ranges of the integers come from patches of SET, of usual width
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
models=$(cd "$here/../src/hynet/models" && pwd)
cp "$1" "$features/models/commercial.safetensors"
python - "$features/models/commercial.safetensors" <<'HALF'
import sys

from safetensors import safe_open
from safetensors.torch import load_file, save_file

with safe_open(sys.argv[1], "pt") as file:
    about = file.metadata()
weights = {name: value.half() if value.is_floating_point() else value for name, value in load_file(sys.argv[1]).items()}
save_file(weights, sys.argv[1], metadata=about)
HALF
hynet export --model "$features/models/commercial.safetensors" --to "$features/models/commercial.onnx" --int8 "$2" --support 24 --ratio 0.9 \
  --trained-on "real photos whose licence allows commercial use" --licence Apache-2.0
