#!/usr/bin/env bash
# The studies of docs/paper.md, the most important first. Run it again to go on where it stopped.
# Usage: studies/paper.sh SETS EVAL OUT      SETS holds open/, rest/ and choose/ (patch_sets.sh), EVAL holds homography/
# JOBS=1 studies/paper.sh ...                one run at a time; by default one a core
set -euo pipefail
study() {
  hynet ablate "$@" --data "$sets/open" "$sets/rest" --validate "$sets/choose" --test "$eval/homography" --out "$out" \
    --pairs-per-batch 256 --precision auto ${JOBS:+--jobs "$JOBS"}
}
sets=$1 eval=$2 out=$3
study components --steps 800 --seeds 2
study losses --steps 800
study rivals --steps 800
study sosr --steps 800
study grid --steps 200
hynet figures --out "$out/figures" --study "$out" --data "$sets/open"
hynet report "$out" --out "$out/report.html"
