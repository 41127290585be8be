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
$run "$build/stress" "${1:-20}" "${2:-1}"
