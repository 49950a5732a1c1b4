#!/usr/bin/env bash
# A try at the next `default` (docs/training.md says why it does not ship, and that --night is to blame): from its weights
# in two stages on one core, and their mean with where it started.
# Usage: studies/long_run.sh SETS START OUT      SETS holds open/, rest/ and choose/ (patch_sets.sh); START: default.safetensors
# Run it again to go on where it stopped; OUT/mixed.safetensors is the mean.
set -euo pipefail
sets=$1 start=$2 out=$3
stage() {
  local resume=()
  if [ -e "$out/$1/last.pt" ]; then resume=(--resume); fi
  hynet train hynet-cpu --out "$out/$1" "${@:2}" "${resume[@]}" --learning-rate 0.002 --level 1 --average 0.999 --dropout 0.1 --jitter 0.4 \
    --light 0.5 --night 0.3 --blur 0.4 --noise 0.1 --jpeg 0.2 --precision bfloat16 --checkpoint-minutes 4
}
stage first --data "$sets/open" --start-from "$start" --minutes 38 --schedule constant --warmup 0.03
stage second --data "$sets/open" "$sets/rest" --validate "$sets/choose" --start-from "$out/first/last.pt" --minutes 72 --warmup 0.02 \
  --validate-minutes 18
rm -f "$out/second/best.pt"  # the end of the run is shared, not its best look
hynet push "$out/second" "$out/second.safetensors" --sources "$(dirname "$0")/sources.csv"
python "$(dirname "$0")/mixed_weights.py" "$start" "$out/second.safetensors" 0.7 "$out/mixed.safetensors"
