#!/usr/bin/env bash
# Checks the protocol: run.sh [ITERATIONS] [SEEDS]
#   the core's headers under Relacy's random scheduler, ITERATIONS a program (and the smallest one by bounded search)
#   known-wrong variants, each of which has to be caught
#   every label weakened to relaxed: those that docs/memory-order.md calls caught have to be caught
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

cxx=(${CXX:-g++} -std=gnu++11 -O2 -w ${RELACY:+-I$RELACY} -I"$root/csrc" -I"$here")
programs=(drain lossy tasks park pause variants)
for program in model_main "${programs[@]}"; do
  beside must "$program" "${cxx[@]}" -c "$here/$program.cpp" -o "$build/$program.o"
done

# ---- the real dispatcher under the seeded scheduler

cc=(${CC:-cc} -std=gnu11 -O2 -g -w -DSD_MODEL_SCHEDULER -I"$here")

# compile_scheduled FOLDER FILE: a file of the dispatcher as it is in FOLDER, or of the scheduler, to FOLDER/FILE.o.
compile_scheduled() {
  local source=$1/$2
  [[ -f $source ]] || source=$here/$2
  "${cc[@]}" -I"$1" -c "$source" -o "$1/$2.o"
}

mkdir "$build/right"
cp "$root"/csrc/sd_*.[ch] "$build/right"
rm "$build/right/sd_clock.c" # the scheduler has a clock of its own
engine=(scheduler.c $(cd "$build/right" && ls sd_*.c))
scheduled=(schedule liveness)
for file in "${engine[@]}" "${scheduled[@]/%/.c}"; do beside must "$file" compile_scheduled "$build/right" "$file"; done

# link_scheduled FOLDER PROGRAM TO: the engine as it was compiled in FOLDER, under one of the programs.
link_scheduled() { "${cc[@]}" "$1/$2.c.o" "$1"/scheduler.c.o "$1"/sd_*.c.o -o "$3" -lm; }

wait
if [[ ! -s $build/failed ]]; then
  for program in "${programs[@]}"; do
    "${cxx[@]}" "$build/$program.o" "$build/model_main.o" -o "$build/$program"
  done
  for program in "${scheduled[@]}"; do link_scheduled "$build/right" "$program" "$build/$program"; done
else
  echo "FAILED: these do not compile: $(tr '\n' ' ' <"$build/failed")"
  exit 1
fi

# A program prints its own lines and the interleaving when it fails.
beside must bound "$build/drain" publish_drain_small --search bound --iterations 3000000
for program in "${programs[@]}"; do beside must "$program" "$build/$program" --iterations "$iterations"; done

# The table says which labels carry something: its last column begins with "caught" or "redundant". Relaxed ones have "-".
rows=$(sed -n 's/^| \([A-Z][0-9]*\) | [a-z_]* | .* | \(caught\|redundant\)[^|]*|$/\1 \2/p' "$root/docs/memory-order.md")
[[ -n $rows ]] || { echo 'FAILED: docs/memory-order.md names no labels'; exit 1; }
weaken() {
  local label=$1 expected=$2 found=redundant program line= verdict=ok
  for program in drain pause park lossy tasks; do
    line=$("$build/$program" --iterations 20000 --weaken "$label") && { found=caught; break; }
  done
  [[ $found == "$expected" ]] || verdict=FAILED
  echo "$verdict          weakened $label: $found ${line:-}"
  [[ $verdict == ok ]]
}
while read -r label expected; do beside must "$label" weaken "$label" "$expected"; done <<<"$rows"

# In pieces, so that every core has some.
piece=$((seeds / jobs + 1))
for ((first = 1; first <= seeds; first += piece)); do
  beside must schedule "$build/schedule" "$((piece < seeds - first + 1 ? piece : seeds - first + 1))" "$first"
done

beside must liveness "$build/liveness" "$((seeds / 10))"

# fault NAME FILE SED: the same with a fault put in, that `schedule` catches; fault_of PROGRAM: that another one does.
fault() { fault_of schedule "$@"; }
fault_of() { beside must "$2" catch_fault "$@"; }
catch_fault() {
  local program=$1 folder said file
  shift
  folder=$(mktemp -d "$build/fault.XXXXXX")
  # A fault in one C file leaves the others as they are.
  cp -p "$build"/right/*.[cho] "$folder"
  sed -i "$3" "$folder/$2"
  if cmp -s "$root/csrc/$2" "$folder/$2"; then
    echo "FAILED      fault $1 changes nothing in $2"
    return 1
  fi
  local changed=("$2")
  [[ $2 == *.c ]] || changed=("${engine[@]}" "$program.c")
  for file in "${changed[@]}"; do
    compile_scheduled "$folder" "$file" || { echo "FAILED      fault $1 does not compile"; return 1; }
  done
  link_scheduled "$folder" "$program" "$folder/faulty" || { echo "FAILED      fault $1 does not link"; return 1; }
  if said=$("$folder/faulty" "$seeds"); then
    echo "FAILED      fault $1 was not caught"
    return 1
  fi
  rm -rf "$folder"
  echo "caught      fault $1, $(head -1 <<<"${said:-it crashed}")"
}
fault "relisted by a helper, nobody woken" sd_visit.c 's/slot >= d->n_workers && sd_idle_wake_one/0 \&\& sd_idle_wake_one/'
fault "the bit cleared before the count" sd_idle.h 's/^  sd_fetch_sub(&idle->state, 1u, acq_rel, I4);/  sd_fetch_and(\&idle->state, ~SD_WAKING, acq_rel, I4), sd_fetch_sub(\&idle->state, 1u, acq_rel, I4);/;s/^  sd_fetch_and(&idle->state, ~SD_WAKING, acq_rel, I4);$//'
fault "claimed whatever is pending" sd_strand.h 's/sd_load(&s->pending, acquire, P3) != 0/0/'
fault "handled what was not claimed" sd_claim.c 's/if (SD_LIKELY(sd_strand_claim(\(.*\)))) continue;/sd_strand_claim(\1); continue;/'
fault "counted what found no place" sd_queue.c 's/uint32_t linked = g->n - g->missing;/uint32_t linked = g->n;/'
fault "copied after the lock was given back" sd_queue.c 's/^  sd_prefetch_write(g->to);$/  sd_unlock(\&s->publish_lock);/'
fault "an add of nothing" sd_queue.h 's/int ready = net && sd_strand_add/int ready = sd_strand_add/'
fault "the frontier taken after the lanes were read" sd_hand_out.c 's/^  sd_due_sort(.*$/&\n  if (o->frontier != UINT64_MAX) o->frontier = sd_watermark(d) - d->config.sizes.counters_start;/'
fault "room asked for one record where a chunk may come" sd_queue.c 's/room_for(d, s, most) < most/room_for(d, s, 1) < 1/'
fault "numbered before the locks" sd_queue.c 's/^  open_groups(d, p);$/  if (p->marks) sd_number_records(d, p, records, (uint32_t)p->chunk); open_groups(d, p);/;s/^  if (p->marks) sd_number_records(d, p, records, (uint32_t)p->chunk);$//'
fault "numbers given out by two at a time" sd_publish.c 's/^  sd_lock(&a->numbering);$//'
fault "numbers given up before the strands are locked that are met" sd_queue.c 's/^  sd_mark next_mark = marked ? sd_numbers_begin(d) : (sd_mark){0, 0};$/  if (marked) sd_number_records(d, p, from, (uint32_t)n);\n  sd_mark next_mark = marked ? p->marks[0] : (sd_mark){0, 0};/;s/^  sd_numbers_end(d, (uint32_t)n, next_mark.time);$//;s/ \&\& (!p->marks || sd_publishes_alone(d, slot))//'
fault "numbers kept though others came first" sd_put.c 's/d->last_number\[strand\] > p->marks\[pick\[0\]\].number/0/'
fault "emitted for a record that failed" sd_visit.c 's/sd_sinks_void(ctx, marks\[done\].number)/sd_sinks_commit(ctx)/'
fault "merged without asking how far lanes are filled" sd_sink.c 's/^  lane->done_chunk = lane->chunk;$/&\n  if (lane->before) return;/'
fault "numbers taken to rise that do not" sd_sink.c 's/^  rises &= before + 1 < SD_VOID;$/  rises = 1;/'
fault "numbers that do not rise, beyond a chunk" sd_sink.c 's/^    if (!rises) sd_store(&chunk->mixed, 1u, relaxed, E4);$//'
fault "handed out past what another lane has" sd_hand_out.c 's/first_ref(output, number + 1, end)/o->frontier/'
fault "handed out past what has a reference" sd_hand_out.c 's/first_ref(output, number + 1, end)/end/'
fault "the time of a bound said before the bound" sd_publish.c '/^  sd_store(&s->publishing, low == .*M1);$/{h;d};/^  sd_store(&s->published_time, time, release, N2);$/G'
fault "a bound and a time of two moments" sd_watermark.c 's/^      if (again == at) break;$/      break;/'
fault "wishes looked at before the watermark" sd_output.c 's/^    uint64_t start = sd_now();$/&\n    const uint64_t armed = sd_earliest_wish(d);/;/^    \/\* After the watermark/,/^    o->armed/s/^    o->armed = .*/    o->armed = armed;/'
fault "a wish taken back before what it emitted is there" sd_timer.c 's/^  sd_timer_context(ctx, key, time);$/&\n  arm_leaf(d, t, leaf, 0);/'
fault "handed out past a timer that is armed" sd_hand_out.c 's/return time >= o->armed ? NOT_YET : /return /'
fault "timers handed out past one that is armed" sd_hand_out.c 's/uint64_t time = o->time < o->armed ? o->time : o->armed - 1;/uint64_t time = o->time;/'
fault "a record before the timers of its time" sd_hand_out.c 's/SD_UNLIKELY(head->time >= stop)/head->time > stop/'
fault "timers of one time as they came" sd_due.c 's/a->key < b->key;/0;/'
fault "a task counted as a record" sd_worker.h 's/^  if (SD_LIKELY(!sd_strand_tasks(s))) return pending;/  return pending;/'
fault "a task that records pass when they are conflated" sd_put.c '/sd_task_keep/d'
fault "a task that records pass when they are discarded" sd_put.c '/sd_task_pass/d'
fault "a task that the helper keeps" sd_task.c 's/if (sd_strand_release(s, 0)) sd_make_ready(d, list, &index, 1);/sd_strand_release(s, 0);/'
fault "a busy strand with a task, let go and not listed" sd_task.c 's/^  if (sd_strand_release(s, 0)) sd_list_again(d, slot, index);$/  sd_strand_release(s, 0);/'
fault "a record before its timer" sd_timer.c 's/next_due(d, from) <= sd_wish_until/next_due(d, from) < sd_wish_until/'
# When a wish is seen by a sweep that is not a drain's (next_wish, clock_until) decides how soon a timer fires, not where:
# faults there are not seen here, because a drain looks at all wishes.
fault "the clock ahead of what is linked" sd_timer.c 's/^  sd_lowest_unpublished(d, &time);$/  time = sd_feed_time(d);/'
fault "drained with a timer due" sd_dispatcher.c 's/if (!sd_timed(d) || !sd_clock_sweep(d)) return SD_OK;/return SD_OK;/'
fault "a timer's wish that does not yield" sd_timer.c 's/^    ctx->yield = 1;$/    ctx->yield = 0;/'
fault_of liveness "a list whose publisher never comes back" sd_worker.c 's/if (SD_UNLIKELY(\*turns == LOOK_ROUND))/if (0)/'
fault_of liveness "a list whose worker is in a visit without end" sd_worker.c 's/return ++w->turns >= STEAL_TURNS;/return !busy \&\& ++w->turns >= STEAL_TURNS;/'
fault "a task that is used again while it runs" sd_task.h 's/if (t->state != SD_TASK_CANCELLED) return 0;//'

wait

if [[ -s $build/failed ]]; then
  echo "FAILED: $(tr '\n' ' ' <"$build/failed")"
  exit 1
fi
