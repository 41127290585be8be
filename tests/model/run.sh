#!/usr/bin/env bash
# Checks the protocol: run.sh [ITERATIONS] [SEEDS]
#   the core's headers under Relacy's random scheduler, ITERATIONS a program (and the smallest one by bounded search), and the
#   whole engine so too (engine.cpp), a twentieth of them
#   known-wrong variants, each of which has to be caught
#   every label weakened to relaxed: those that docs/memory-order.md calls caught have to be caught, and the others not, in a
#   twentieth of ITERATIONS, 5,000 at least
#   the real dispatcher under the seeded scheduler over SEEDS seeds (liveness: a tenth of them), and with faults put in, which
#   have to be caught
# JOBS of it at a time (one a core). A line each; not 0 when anything is not as it should be. Needs relacy-dev (RELACY=folder elsewhere) and a C++ compiler.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
iterations=${1:-200000}
seeds=${2:-20000}
jobs=${JOBS:-$(nproc)}
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
: >"$build/failed"

# Runs a command when one of `jobs` places is free; what it says comes out in one piece.
beside() {
  while (($(jobs -rp | wc -l) >= jobs)); do wait -n || true; done
  { said=$("$@" 2>&1) || true; printf '%s' "${said:+$said$'\n'}"; } &
}

# Runs a command and notes NAME where it fails.
must() {
  local name=$1
  shift
  "$@" || echo "$name" >>"$build/failed"
}

# ---- the core's headers under Relacy; the longest first

# More optimizing takes longer than it saves.
cxx=(${CXX:-g++} -std=gnu++11 -O1 -w ${RELACY:+-I$RELACY} -I"$root/csrc" -I"$here" -I"$build")
programs=(engine drain lossy tasks park pause look blocks bench variants)
# A new policy is one file more, and no line in engine.hpp.
(cd "$root/csrc" && printf '#include "%s"\n' schedule/*.c) >"$build/all_of_schedule.c"
# The engine's files are C: what C allows of pointers and C++ does not is let pass.
compile_program() { "${cxx[@]}" $([[ $1 == engine ]] && echo -fpermissive) -c "$here/$1.cpp" -o "$build/$1.o"; }
for program in engine model_main "${programs[@]:1}"; do beside must "$program" compile_program "$program"; done

# ---- the real dispatcher under the seeded scheduler

cc=(${CC:-cc} -std=gnu11 -O2 -g -w -DSD_MODEL_SCHEDULER -I"$here")

# compile_scheduled FOLDER FILE [OPTION...]: a file of the dispatcher as it is in FOLDER, or of the scheduler, to FOLDER/FILE.o.
compile_scheduled() {
  local source=$1/$2
  [[ -f $source ]] || source=$here/$2
  "${cc[@]}" "${@:3}" -I"$1" -c "$source" -o "$1/$2.o"
}

mkdir "$build/right"
(cd "$root/csrc" && cp -r sd_*.h $(cat engine_rooms) "$build/right")
rm "$build/right/base/clock.c" # the scheduler has a clock of its own
mkdir "$build/right/seeded"
cp "$root"/csrc/seeded/scheduler.[ch] "$build/right/seeded"
engine=($(cd "$build/right" && ls */*.c))
scheduled=(schedule liveness checks)
for file in "${engine[@]}" "${scheduled[@]/%/.c}"; do beside must "$file" compile_scheduled "$build/right" "$file"; done

# link_scheduled FOLDER PROGRAM TO: the engine as it was compiled in FOLDER, under one of the programs.
link_scheduled() { "${cc[@]}" "$1/$2.c.o" "$1"/*/*.c.o -o "$3" -lm; }

wait
if [[ ! -s $build/failed ]]; then
  for program in "${programs[@]}"; do
    "${cxx[@]}" "$build/$program.o" "$build/model_main.o" -o "$build/$program"
  done
  for program in "${scheduled[@]}"; do link_scheduled "$build/right" "$program" "$build/$program"; done
  # Blocks of other sizes, which only these files see: the records of one, slots, and homes.
  for sizes in '1 2 4' '7 5 12'; do
    read -r records slots homes <<<"$sizes"
    cp -r "$build/right" "$build/of-$records"
    for file in blocks/array.c blocks/blocks.c publish/in_blocks.c checks.c; do
      beside must "$file" compile_scheduled "$build/of-$records" "$file" \
        -DSD_MODEL_BLOCK="$records" -DSD_MODEL_SLOTS="$slots" -DSD_MODEL_HOMES="$homes"
    done
  done
  wait
  for records in 1 7; do link_scheduled "$build/of-$records" checks "$build/checks-of-$records"; done
else
  echo "FAILED: these do not compile: $(tr '\n' ' ' <"$build/failed")"
  exit 1
fi

# The longest first. A program prints its own lines and the interleaving when it fails.
beside must checks "$build/checks"
for records in 1 7; do
  for check in blocks-keep-the-order sources-are-numbered blocks-hold-back-in-order blocks-stop-in-the-middle blocks-give-numbers; do
    beside must "$check-of-$records" "$build/checks-of-$records" "$check"
  done
done
beside must bound "$build/drain" publish_drain_small --search bound --iterations 3000000
beside must engine "$build/engine" --iterations "$((iterations / 20 + 1))"
# What is wrong ends when it is caught. The rarest takes some 200,000 iterations.
for program in "${programs[@]:1}"; do
  beside must "$program" "$build/$program" --iterations "$iterations$([[ $program != variants ]] || echo 0)"
done

# The table says which labels carry something: its last column begins with "caught" or "redundant". Relaxed ones have "-". Where it
# tells of the halves of a label, each is weakened by itself too.
rows=$(sed -n 's/^| \([A-Z]*[0-9]*\) | [a-z_; ]* | .* | \(\(caught\|redundant\)[^|]*\)|$/\1 \2/p' "$root/docs/memory-order.md")
[[ -n $rows ]] || { echo 'FAILED: docs/memory-order.md names no labels'; exit 1; }
weaken() {
  local label=$1 expected=$2 found=unreached program line= verdict=ok these=(drain look pause park lossy tasks) most=20000
  case $label in
    BR* | BL*) these=(bench) ;;
    H*) these=(blocks) ;;
    [ADEFKMNT]*) these=(engine) most=50000 ;;
  esac
  # What is caught ends there, and what is redundant takes them all.
  [[ $expected == caught ]] || most=$((iterations > 100000 ? iterations / 20 : 5000))
  for program in "${these[@]}"; do
    local code=0
    line=$("$build/$program" --iterations "$most" --weaken "$label") || code=$?
    case $code in
      0) found=caught && break ;;
      4) found=redundant ;;
      5) ;; # it does not run the label, and proves nothing
      *) found="exit $code" && break ;;
    esac
  done
  [[ $found == "$expected" ]] || verdict=FAILED
  echo "$verdict          weakened $label: $found ${line:-}"
  [[ $verdict == ok ]]
}
while read -r label verdict; do
  beside must "$label" weaken "$label" "${verdict%%[: .]*}"
  case $verdict in
    *'each half by itself too'*) halves='acquire:caught release:caught' ;;
    *'The acquire half '*'is redundant'*) halves='acquire:redundant release:caught' ;;
    *'The release half '*'is redundant'*) halves='acquire:caught release:redundant' ;;
    *) halves= ;;
  esac
  for half in $halves; do beside must "$label:${half%:*}" weaken "$label:${half%:*}" "${half#*:}"; done
done <<<"$rows"

# In pieces, so that every core has some. The first policy is the one of the runs without POLICY.
policies=($(grep -o 'X([a-z_]*, SD_' "$root/csrc/schedule/policy.h" | sed 's/X(\(.*\), SD_/\1/'))
piece=$((seeds / jobs + 1))
for ((first = 1; first <= seeds; first += piece)); do
  beside must schedule "$build/schedule" "$((piece < seeds - first + 1 ? piece : seeds - first + 1))" "$first"
  for policy in "${policies[@]:1}"; do
    beside must "schedule-$policy" env POLICY="$policy" "$build/schedule" "$((piece / 4 + 1))" "$first"
  done
done

beside must liveness "$build/liveness" "$((seeds / 10))"
for policy in "${policies[@]:1}"; do
  beside must "liveness-$policy" env POLICY="$policy" "$build/liveness" "$((seeds / 20))"
done

wait

if [[ -s $build/failed ]]; then
  echo "FAILED: $(tr '\n' ' ' <"$build/failed")"
  exit 1
fi
