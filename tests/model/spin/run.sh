#!/bin/sh
# Searches the Promela models to the end and checks that each wrong variant is caught. Prints states, seconds and memory.
# WHOLE=1 has the search of three tasks too: 60 million states, minutes and 3.4 GB.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cd "$build"
failed=0

# search NAME FILE EXPECT SPIN-FLAGS CC-FLAGS RUN-FLAGS
search() {
  name=$1 file=$2 expect=$3
  spin $4 -a "$here/$file" >spin.log 2>&1 || { cat spin.log; exit 1; }
  ${CC:-cc} -O2 -w $5 -DCOLLAPSE -DMEMLIM=4000 -o pan pan.c
  from=$(date +%s.%N)
  ./pan $6 >pan.log 2>&1 || true
  to=$(date +%s.%N)
  if grep -q "errors: 0" pan.log; then found=none; else found=error; fi
  # A search that was cut short proves nothing.
  if grep -q "max search depth too small\|reached -DMEMLIM\|Search not completed" pan.log && [ "$expect" = none ]; then found=cut; fi
  states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log)
  memory=$(sed -n 's/^ *\([0-9.]*\)\ttotal actual memory usage.*/\1/p' pan.log)
  verdict=ok
  [ "$expect" = error ] && verdict=caught
  [ "$found" = "$expect" ] || { verdict=FAILED; failed=1; }
  printf '%-7s %-34s %s states, %.1f s, %s MB%s\n' "$verdict" "$name" "${states:-?}" "$(echo "$to - $from" | bc)" "${memory:-?}" \
    "$(sed -n 's/^pan:[0-9]*: \(.*\) (at depth.*/, \1/p' pan.log | head -1)"
  [ $verdict = FAILED ] && tail -20 pan.log || true
}

safe="-DSAFETY"
search "protocol, every state" protocol.pml none "" "$safe" "-m1000000"
search "protocol, all are handled (fair)" protocol.pml none "-DLIVENESS" "-DNFAIR=4" "-a -f -m1000000"
search "parking, every state" parking.pml none "" "$safe" "-m1000000"
search "places, 4 threads, every state" places.pml none "" "$safe" "-m1000000"
[ -z "${WHOLE:-}" ] || search "places, 3 tasks, every state" places.pml none "-DTHREADS=3 -DTASKS=3" "$safe" "-m1000000"
for w in 1 2 3; do search "wrong: protocol $w" protocol.pml error "-DWRONG=$w" "$safe" "-m1000000"; done
for w in 1 2 3; do search "wrong: parking $w" parking.pml error "-DWRONG=$w" "$safe" "-m1000000"; done
for w in 1 2 3 4 5 6 7; do search "wrong: places $w" places.pml error "-DTHREADS=3 -DWRONG=$w" "$safe" "-m1000000"; done
exit $failed
