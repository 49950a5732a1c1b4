#!/usr/bin/env bash
# The weights of commercial_run.sh -> the files of `commercial` in the package: .safetensors in 16-bit floats, since all
# models together may have 20 MB, .onnx in 8-bit integers, and the card, to which "Measured" is added by hand.
# Usage: studies/ship_commercial.sh RUN SET      ranges of the integers come from patches of SET, of usual width
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
models=$(cd "$here/../src/hynet/models" && pwd)
hynet push "$1" "$models/commercial.safetensors" --sources "$here/sources.csv"
python - "$models/commercial.safetensors" <<'HALF'
import sys

from safetensors import safe_open
from safetensors.torch import load_file, save_file

with safe_open(sys.argv[1], "pt") as file:
    about = file.metadata()
weights = {name: value.half() if value.is_floating_point() else value for name, value in load_file(sys.argv[1]).items()}
save_file(weights, sys.argv[1], metadata=about)
HALF
hynet export --model "$models/commercial.safetensors" --to "$models/commercial.onnx" --int8 "$2" --support 24 --ratio 0.9 \
  --trained-on "real photos whose licence allows commercial use" --licence Apache-2.0
sed -i '1s/.*/# commercial: HyNet, trained only on photos whose licence allows commercial use/' "$models/commercial.md"
