#!/usr/bin/env bash
# Runs the fuzz targets for SECONDS each (60 by default), all of them or those named, JOBS at a time (one a core).
#
#   tests/fuzz/run.sh [SECONDS] [TARGET...]
#
# TOTAL=N instead: N seconds of a core for all targets together, each with its share, so that what there is to fuzz may
# grow and the time it takes does not.
#
# A target is NAME of a fuzz_NAME.c here, built with the sanitizers and fed the seeds of seed_NAME.py, where
# there is one; or open-NAME, a format of strand.feeds (or "streams") in fuzz_open.py. C needs clang with libFuzzer
# (Debian: clang, libclang-rt-14-dev), Python the package atheris (extra "fuzz").
#
# Each begins with its corpus of corpus/TARGET.tar.xz, where there is one. KEEP=1 packs what reaches code of its own, of
# that and of what this run found, as the next one.
#
# What they find stays in build/fuzz/TARGET/: crash-*, timeout-*, oom-*, with a log.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
seconds=${1:-60}
shift || true
targets=("$@")
compiler=${FUZZ_CC:-clang}
python=${PYTHON:-$root/.venv/bin/python}
[[ -x $python ]] || python=python3
jobs=${JOBS:-$(nproc)}

if ! command -v "$compiler" >/dev/null; then
  echo "tests/fuzz/run.sh: $compiler not found; install clang and its runtime (Debian: clang libclang-rt-14-dev)" >&2
  exit 2
fi
if ((${#targets[@]} == 0)) || [[ " ${targets[*]}" == *" open-"* ]] && ! "$python" -c 'import atheris' 2>/dev/null; then
  echo "tests/fuzz/run.sh: $python has no package atheris; install the extra: pip install -e '.[fuzz]'" >&2
  exit 2
fi
if ((${#targets[@]} == 0)); then
  for source in "$here"/fuzz_*.c; do
    name=${source##*/fuzz_}
    targets+=("${name%.c}")
  done
  mapfile -t formats < <("$python" "$here/fuzz_open.py" --list)
  targets+=("${formats[@]/#/open-}")
fi

if [[ -n ${TOTAL:-} ]]; then
  seconds=$((TOTAL / ${#targets[@]}))
  ((seconds >= 5)) || seconds=5
fi

# What is read lies in memory where that can be. libFuzzer leaves without a last word to Python, so it is tidied up here.
memory=/dev/shm
[[ -d $memory ]] || memory=${TMPDIR:-/tmp}
TMPDIR=$(mktemp -d "$memory/strand-fuzz-XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

# What is freed stays in memory a while, to be caught in use: a small part of the limit, which is for the decoder.
export ASAN_OPTIONS=quarantine_size_mb=64${ASAN_OPTIONS:+:$ASAN_OPTIONS}
limits=(-max_total_time="$seconds" -rss_limit_mb=512 -print_final_stats=1 -verbosity=0)

# Runs a target, given with its own bounds, in a folder. The clock goes on while a busy machine does other things: an
# input that took too long (70 is libFuzzer's status for it) is tried again by itself, and is a hang if it does so again.
fuzz() {
  local work=$1 status=0 slow kept=$here/corpus/${1##*/}.tar.xz
  shift
  [[ ! -f $kept ]] || tar -xJf "$kept" -C "$work/seeds" || return
  "$@" "${limits[@]}" -artifact_prefix="$work/" "$work/corpus" "$work/seeds" || status=$?
  if ((status == 0)) && [[ -n ${KEEP:-} ]]; then
    rm -rf "$work/kept"
    mkdir -p "$work/kept" "$here/corpus"
    "$@" -merge=1 "$work/kept" "$work/corpus" "$work/seeds" || return
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cJf "$kept" -C "$work/kept" . || return
  fi
  ((status == 70)) || return "$status"
  for slow in "$work"/timeout-*; do
    "$@" "$slow" || return
  done
  rm "$work"/timeout-*
}

build_and_run() {
  local name=$1 work=$2 sources
  # Each target says what it is built from in a line "fuzz-sources: ..." relative to csrc/; the default is its decoder.
  sources=$(sed -n 's|.*fuzz-sources: *\([^*]*\).*|\1|p' "$here/fuzz_$name.c")
  read -ra sources <<<"${sources:-codec/$name/$name.c}"
  "$compiler" -std=gnu11 -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer,address,undefined \
    -fno-sanitize-recover=undefined -Wall -Wextra -I"$root/csrc" \
    -o "$work/fuzz_$name" "$here/fuzz_$name.c" "${sources[@]/#/$root/csrc/}" || return
  if [[ -f $here/seed_$name.py ]]; then
    "$python" "$here/write_seeds.py" "$name" "$work/seeds" || return
  fi
  fuzz "$work" "$work/fuzz_$name" -timeout=1 -max_len=4096
}

# A hang is one second of the processor; beside other targets an input of that kind may take some more.
open_and_run() {
  local name=$1 work=$2
  "$python" "$here/fuzz_open.py" "$name" --seeds "$work/seeds" || return
  fuzz "$work" "$python" "$here/fuzz_open.py" "$name" -timeout=5 -max_len=8192
}

run() {
  local target=$1 work=$root/build/fuzz/$1
  mkdir -p "$work/corpus" "$work/seeds"
  rm -f "$work/status"
  local status=0
  case $target in
  open-*) (open_and_run "${target#open-}" "$work") >"$work/log" 2>&1 || status=$? ;;
  *) (build_and_run "$target" "$work") >"$work/log" 2>&1 || status=$? ;;
  esac
  echo "$status" >"$work/status"
}

for target in "${targets[@]}"; do
  while (($(jobs -rp | wc -l) >= jobs)); do wait -n; done
  run "$target" &
done
wait

failed=()
total=0
for target in "${targets[@]}"; do
  work=$root/build/fuzz/$target
  tried=$(sed -n 's/^stat::number_of_executed_units: *//p' "$work/log" | tail -1)
  rss=$(sed -n 's/^stat::peak_rss_mb: *//p' "$work/log" | tail -1)
  printf '%-20s %12s inputs in %s s, at most %s MB\n' "$target" "${tried:-no}" "$seconds" "${rss:-?}"
  total=$((total + ${tried:-0}))
  if [[ $(cat "$work/status") != 0 || -z $tried ]]; then
    failed+=("$target")
    tail -n 40 "$work/log" >&2
  fi
done
echo "$total inputs tried, ${#targets[@]} targets for $seconds s each"
if ((${#failed[@]})); then
  echo "tests/fuzz/run.sh: failed: ${failed[*]}; the inputs and logs are in build/fuzz/" >&2
  exit 1
fi
