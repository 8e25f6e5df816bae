#!/usr/bin/env bash
# Run everything behind docs/reality-check.md, in order. To resume, give the same command again.
#
#   results/reality_check/run.sh LEVELFIELD DATA OUT
#
# LEVELFIELD is the command of an installed copy of a clean commit (pip install git+file:///...@TAG), so that edits
# cannot change a running experiment. DATA has the datasets' directories, such as DATA/CUB_200_2011. OUT is a directory
# outside the work tree. Every arena runs under its plan in results/plans. A trial that is in an unfinished archive
# (results/unfinished/NAME) is not run again. Archive the results with `levelfield archive OUT/NAME -o results/NAME`; if
# results/NAME exists, keep what it found first (keep_earlier.py).
set -euo pipefail
levelfield=$1 data=$2 out=$3
results=$(cd "$(dirname "$0")/.." && pwd)
export OMP_NUM_THREADS=1
mkdir -p "$out"

run() { # NAME: run one arena under its plan, which was published before any of these test sets was opened
  local name=$1 options=()
  [[ $name == glyphs* ]] || options+=(--set "dataset.root=$data")
  [[ -d $results/unfinished/$name ]] && options+=(--reuse "$results/unfinished/$name")
  "$levelfield" run "$results/experiments/$name.yaml" --plan "$results/plans/$name.json" --out "$out/$name" "${options[@]}"
}

for name in glyphs-frozen cub200-frozen flowers102-frozen cars196-frozen cub200-frozen-lite012; do run "$name"; done
for name in cub200-tail cars196-tail; do run "$name"; done
"$levelfield" study test-feedback "$results/experiments/studies.yaml" --set "dataset.root=$data" --out "$out/test-feedback"
"$levelfield" sweep "$results/experiments/studies.yaml" --set "dataset.root=$data" --set hyperparameters=defaults --out "$out/sweeps" \
  --over head.size=64,128,256,512 --over batch.size=16,32,64,128 --over batch.samples_per_class=2,4,8
for name in cub200-frozen cars196-frozen; do # structure of the training embeddings
  "$(dirname "$levelfield")/python" "$results/reality_check/structure.py" "$out/$name" --root "$data" "$out/structure-$name.json"
done
