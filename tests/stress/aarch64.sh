#!/bin/sh
# Builds every C file for aarch64 and stresses the dispatcher there: aarch64.sh [SECONDS] [SEED]. On another machine it runs
# emulated, which shows what the compiler made of the code but not the weaker order of memory: that is tests/model's business.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cc=aarch64-linux-gnu-gcc run=qemu-aarch64
if [ "$(uname -m)" = aarch64 ]; then cc=${CC:-cc} run=; fi
flags="-std=gnu11 -O3 -Wall -Wextra -Wno-unused-parameter -Werror -I $root/csrc"
find "$root/csrc" -name '*.c' ! -name '_*.c' | while read -r file; do
  case $file in */seeded/*) more=-DSD_MODEL_SCHEDULER ;; *) more= ;; esac
  $cc $flags $more -c "$file" -o "$build/one.o"
done
engine=$(cd "$root/csrc" && find $(cat engine_rooms) -name '*.c' -printf "$root/csrc/%p\n")
$cc $flags -static -pthread -DSD_STRESS "$root/tests/stress/stress.c" $engine -o "$build/stress" -lm
# The emulator keeps a table of pages for each space that there ever was, 24 MB each, until the process ends.
slice=30 left=${1:-20} seed=${2:-1} rounds=0
while [ "$left" -gt 0 ]; do
  seconds=$((left < slice ? left : slice))
  $run "$build/stress" "$seconds" "$seed" | tee "$build/said"
  grep -q '^ok ' "$build/said"
  rounds=$((rounds + $(sed 's/^ok \([0-9]*\) rounds.*/\1/' "$build/said")))
  left=$((left - seconds)) seed=$((seed + 1))
done
echo "$rounds rounds in all, ${1:-20} s"
