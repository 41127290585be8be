#!/bin/sh
# Stresses the dispatcher under ThreadSanitizer: run.sh [SECONDS] [SEED]. Fails on a broken contract or a report.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
: "${CC:=cc}"
engine=$(cd "$root/csrc" && find $(cat engine_rooms) -name '*.c' -printf "$root/csrc/%p\n")
$CC -std=gnu11 -O2 -g -Wall -Wextra -Wno-unused-parameter -fsanitize=thread -Wno-tsan -pthread -DSD_STRESS -I "$root/csrc" \
  "$root/tests/stress/stress.c" $engine -o "$build/stress" -lm
TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 ${TSAN_OPTIONS:-}" "$build/stress" "${1:-60}" "${2:-1}"
