#!/bin/sh
# Stresses the dispatcher, and blocks of several files, under ThreadSanitizer: run.sh [SECONDS] [SEED]. Fails on a broken contract or a
# report.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
: "${CC:=cc}"
export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 ${TSAN_OPTIONS:-}"
# PROGRAM SANITIZERS SOURCE...
build() {
  program=$1 sanitizers=$2
  shift 2
  $CC -std=gnu11 -O2 -g -Wall -Wextra -Wno-unused-parameter -fsanitize="$sanitizers" -fno-sanitize-recover=undefined -Wno-tsan -pthread -DSD_STRESS -I "$root/csrc" \
    "$root/tests/stress/$program.c" "$@" -o "$build/$program" -lm
}
build files thread,undefined $(cd "$root/csrc/codec" && find itch files.c blocks.c count_by_symbol.c -name '*.c' -printf "$root/csrc/codec/%p\n")
"$build/files" "${2:-1}"
build stress thread $(cd "$root/csrc" && find $(cat engine_rooms) -name '*.c' -printf "$root/csrc/%p\n")
"$build/stress" "${1:-60}" "${2:-1}"
