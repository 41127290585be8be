/* Parking (csrc/schedule/idle.h) under sequential consistency, searched to the end: 2 pushers of 2 entries each, 3 workers that
 * sleep, and a futex that wakes whom it likes. No wake-up is lost: nobody sleeps beside a list that is not empty while
 * nothing else goes on.
 *
 * WRONG=1: state is loaded before the push. WRONG=2: the bit is cleared before the count.
 * WRONG=3: a sleeper that the futex woke waits again when the epoch is the one it knew.
 */
#ifndef WRONG
#define WRONG 0
#endif
#define WORKERS 3
#define PUSHERS 2
#define EACH 2

byte entries = 0, taken = 0, sleepers = 0, epoch = 0;
bool waking = false;
bool asleep[WORKERS], woken[WORKERS];

/* FUTEX_WAKE of one: any of those that sleep. */
inline futex_wake() {
  atomic {
    if
    :: asleep[0] && !woken[0] -> woken[0] = true
    :: asleep[1] && !woken[1] -> woken[1] = true
    :: asleep[2] && !woken[2] -> woken[2] = true
    :: else
    fi
  }
}

inline wake_one() { /* I3, I8, I7 */
  atomic {
    wake = (sleepers > 0 && !waking);
    if :: wake -> waking = true :: else fi
  }
  if :: wake -> epoch++; futex_wake() :: else fi
}

proctype pusher() {
  byte n = 0;
  bool wake, any;
  do
  :: n < EACH ->
#if WRONG == 1
    any = (sleepers > 0);
    entries++;
    if :: any -> wake_one() :: else fi;
#else
    entries++; /* under the list's lock */
    wake_one();
#endif
    n++
  :: n == EACH -> break
  od
}

proctype worker(byte me) {
  byte seen;
  bool got;
  do
  :: atomic { got = (entries > 0); if :: got -> entries--; taken++ :: else fi }
    if
    :: got -> skip
    :: else ->
      seen = epoch;              /* I5 */
      sleepers++;                /* I1 */
      if
      :: entries > 0 -> skip     /* I2 */
      :: entries == 0 ->
again:
        atomic { if :: epoch == seen -> asleep[me] = true :: else fi }
end:
        atomic { !asleep[me] || woken[me] -> asleep[me] = false; woken[me] = false }
#if WRONG == 3
        if :: epoch == seen -> goto again :: else fi
#endif
      fi;
#if WRONG == 2
      waking = false;
      sleepers--
#else
      sleepers--;                /* I4 */
      waking = false
#endif
    fi
  od
}

proctype at_rest() {
  timeout -> assert(entries == 0 && taken == PUSHERS * EACH && !waking)
}

init {
  atomic { run pusher(); run pusher(); run worker(0); run worker(1); run worker(2); run at_rest() }
}
