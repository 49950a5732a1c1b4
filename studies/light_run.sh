#!/usr/bin/env bash
# The run that becomes `light`: a small network taught by `default`, on the sets of patch_sets.sh, resumable.
# Usage: studies/light_run.sh SETS OUT STEPS     SETS holds open/, rest/ and choose/; run it again to go on where it stopped.
set -euo pipefail
resume=()
if [ -e "$2/last.pt" ]; then resume=(--resume); fi
exec hynet train light --teacher default --data "$1/open" "$1/rest" --validate "$1/choose" --out "$2" --steps "$3" "${resume[@]}" \
  --pairs-per-batch 256 --average 0.999 --validate-minutes 20 --checkpoint-minutes 4
