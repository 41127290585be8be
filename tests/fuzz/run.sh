#!/usr/bin/env bash
# Builds every fuzz_NAME.c here with the sanitizers and runs each for SECONDS (60 by default) from the seeds that
# seed_NAME.py writes, where there is one. Needs clang with libFuzzer (Debian: clang, libclang-rt-14-dev).
#
#   tests/fuzz/run.sh [SECONDS] [NAME...]
#
# What it finds stays in build/fuzz/NAME/: crash-*, timeout-*, oom-*; the corpus is kept between runs.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
seconds=${1:-60}
shift || true
names=("$@")
compiler=${FUZZ_CC:-clang}
python=${PYTHON:-$root/.venv/bin/python}
[[ -x $python ]] || python=python3

if ! command -v "$compiler" >/dev/null; then
  echo "tests/fuzz/run.sh: $compiler not found; install clang and its runtime (Debian: clang libclang-rt-14-dev)" >&2
  exit 2
fi
if ((${#names[@]} == 0)); then
  for source in "$here"/fuzz_*.c; do
    name=${source##*/fuzz_}
    names+=("${name%.c}")
  done
fi

# What is freed stays in memory a while, to be caught in use: a small part of the limit, which is for the decoder.
export ASAN_OPTIONS=quarantine_size_mb=64${ASAN_OPTIONS:+:$ASAN_OPTIONS}
failed=()
for name in "${names[@]}"; do
  work=$root/build/fuzz/$name
  mkdir -p "$work/corpus" "$work/seeds"
  # Each target says what it is built from in a line "fuzz-sources: ..." relative to csrc/; the default is the decoder.
  sources=$(sed -n 's|.*fuzz-sources: *\([^*]*\).*|\1|p' "$here/fuzz_$name.c")
  read -ra sources <<<"${sources:-decode/$name.c}"
  "$compiler" -std=gnu11 -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer,address,undefined \
    -fno-sanitize-recover=undefined -Wall -Wextra -I"$root/csrc" \
    -o "$work/fuzz_$name" "$here/fuzz_$name.c" "${sources[@]/#/$root/csrc/}"
  if [[ -f $here/seed_$name.py ]]; then
    "$python" "$here/seed_$name.py" "$work/seeds"
  fi
  echo "== fuzz_$name for $seconds s"
  if ! "$work/fuzz_$name" -max_total_time="$seconds" -timeout=1 -rss_limit_mb=512 -max_len=4096 \
    -print_final_stats=1 -verbosity=0 -artifact_prefix="$work/" "$work/corpus" "$work/seeds"; then
    failed+=("$name")
  fi
done
if ((${#failed[@]})); then
  echo "tests/fuzz/run.sh: failed: ${failed[*]}; the inputs are in build/fuzz/" >&2
  exit 1
fi
