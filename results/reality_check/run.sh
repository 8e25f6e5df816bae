#!/usr/bin/env bash
# Run everything behind docs/reality-check.md, in order. To resume, give the same command again.
#
#   results/reality_check/run.sh LEVELFIELD CUB_ROOT CARS_ROOT OUT
#
# LEVELFIELD is the command of an installed copy of a clean commit (pip install git+file:///...@TAG), so that edits
# cannot change a running experiment. OUT is a directory outside the work tree. Archive the results with
# `levelfield archive OUT/NAME`.
set -euo pipefail
levelfield=$1 cub=$2 cars=$3 out=$4
here=$(cd "$(dirname "$0")/../experiments" && pwd)
export OMP_NUM_THREADS=1
mkdir -p "$out"

run() { # NAME ROOT: run one arena; both datasets are searched before a test set is opened
  "$levelfield" run "$here/$1.yaml" --set "dataset.root=$2" --out "$out/$1" "${@:3}"
}

run cub200-frozen "$cub" --search-only
run cars196-frozen "$cars" --search-only
run cub200-frozen "$cub"
run cars196-frozen "$cars"
run cub200-tail "$cub"
run cars196-tail "$cars"
"$levelfield" study test-feedback "$here/studies.yaml" --set "dataset.root=$cub" --out "$out/test-feedback"
"$levelfield" sweep "$here/studies.yaml" --set "dataset.root=$cub" --set hyperparameters=defaults --out "$out/sweeps" \
  --over head.size=64,128,256,512 --over batch.size=16,32,64,128 --over batch.samples_per_class=2,4,8
structure() { # NAME ROOT: measure the structure of the training embeddings
  "$(dirname "$levelfield")/python" "$(dirname "$0")/structure.py" "$out/$1" --root "$2" "$out/structure-$1.json"
}

structure cub200-frozen "$cub"
structure cars196-frozen "$cars"
