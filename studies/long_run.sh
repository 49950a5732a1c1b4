#!/usr/bin/env bash
# The long run that becomes the next `default`: from the shipped weights, on the sets of patch_sets.sh, resumable.
# Usage: studies/long_run.sh SETS OUT      SETS holds open/, rest/ and choose/; run it again to go on where it stopped.
set -euo pipefail
resume=()
if [ -e "$2/last.pt" ]; then resume=(--resume); fi
exec hynet train hynet-cpu --data "$1/open" "$1/rest" --validate "$1/choose" --out "$2" --steps 33000 "${resume[@]}" \
  --start-from default --learning-rate 0.002 --warmup 0.02 --level 1 --average 0.999 --dropout 0.1 \
  --jitter 0.3 --light 0.5 --blur 0.2 --noise 0.1 --jpeg 0.1 --validate-minutes 20 --checkpoint-minutes 4
