/* The hand-over of places (strand/tasks/places.py) under sequential consistency, searched to the end: 2 places, up to THREADS threads, tasks
 * that checkpoint, block, or go on as coroutines, and an end at any time. Names are those of places.py.
 *
 * A section under the lock of Places is one step, and so is what the engine does with a task: whoever could see the middle of a section
 * waits for that lock before it changes anything. Which thread of the spares is woken, and which listed task is taken, is left open. A wake
 * may come to a thread that is awake, and then stays for its next sleep. `_spares` may have seats that are none any more, and each reader
 * looks.
 *
 * One thread at a time uses a place. When nothing goes on any more, all tasks are over and each place has a thread that waits at it.
 * After the end all threads end.
 *
 * WRONG=1: the place is given before the task is listed. WRONG=2: a worker that hands over says that it has no place after it
 * has given it, and a spare is taken without a look at what it has.
 * WRONG=3: the seat is entered after the task is listed, and not under the lock. WRONG=4: the end wakes the spares alone.
 * WRONG=5: who sleeps does not look at the end. WRONG=6: who sleeps does not look at its place once more after a wake.
 * WRONG=7: the entry of a coroutine is noted as held after it is away.
 */
#ifndef WRONG
#define WRONG 0
#endif
#ifndef THREADS
#define THREADS 4
#endif
#ifndef TASKS
#define TASKS 2
#endif
#ifndef WAITS
#define WAITS 1 /* times that a task waits in its middle */
#endif
#define PLACES 2
#define NONE 15

/* The state of a task in the engine. */
#define LISTED 0
#define RUNS 1
#define SUSPENDED 2 /* and listed */
#define AWAY 3
#define OVER 4

byte state[TASKS], waited[TASKS];
byte in_hand[PLACES], user[PLACES]; /* the task of a place, and the thread that is in the engine as that worker */
bool stopping;

byte place[THREADS], waits[THREADS]; /* Seat.place, and the task of Seat.waits */
bool is_listed[THREADS], born[THREADS], woken[THREADS], spares[THREADS];
byte suspended[TASKS]; /* by task: the thread */
bool held[TASKS];      /* Held, by task */
bool in_loop[TASKS];   /* a coroutine in the asyncio thread */
byte n_threads = PLACES;
bool ended;

/* ---- a seat */

#define WAKE(t) woken[t] = true
#if WRONG == 6
#define SLEEP if :: place[me] == NONE && !ended -> atomic { woken[me] -> woken[me] = false } :: else fi; skip
#else
#define SLEEP                                                                                                                              \
  do                                                                                                                                       \
  :: place[me] == NONE && (!ended || WRONG == 5) -> atomic { woken[me] -> woken[me] = false }                                              \
  :: else -> break                                                                                                                         \
  od;                                                                                                                                      \
  skip
#endif
#if WRONG == 2
#define IS_SPARE(t) spares[t]
#else
#define IS_SPARE(t) (spares[t] && place[t] == NONE && waits[t] == NONE)
#endif

/* A spare, or a new thread; NONE: there may be no more. Within a section under the lock. */
inline find_spare() {
  if
  :: IS_SPARE(0) -> spare = 0
  :: IS_SPARE(1) -> spare = 1
  :: IS_SPARE(2) -> spare = 2
#if THREADS > 3
  :: IS_SPARE(3) -> spare = 3
#endif
  :: else ->
    if
    :: n_threads < THREADS -> spare = n_threads; born[spare] = true; spares[spare] = true; n_threads++
    :: else -> spare = NONE
    fi
  fi
}

/* The task in hand leaves the place, to be suspended or away: Places._leave. */
inline leave(to) {
  atomic {
    if
    :: ended || stopping -> goto told
    :: else
    fi;
    find_spare();
    if :: spare == NONE -> goto task :: else fi; /* it goes on, or gets WouldDeadlockError */
#if WRONG == 1
    d_step { place[spare] = p; WAKE(spare) }
  }
  atomic {
#endif
#if WRONG != 3
    if :: to == SUSPENDED -> suspended[k] = me :: else fi;
#endif
    assert(user[p] == NONE && state[k] == RUNS);
    d_step {
      state[k] = to;
      is_listed[me] = (to == SUSPENDED);
      waits[me] = k;
      place[me] = NONE;
      spares[spare] = false;
#if WRONG != 1
      place[spare] = p;
      WAKE(spare)
#endif
    }
  }
#if WRONG == 3
  if :: to == SUSPENDED -> suspended[k] = me :: else fi
#endif
}

/* Places.end wakes all that have no place. */
#if WRONG == 4
#define WAKE_AT_END(t) if :: spares[t] && place[t] == NONE -> WAKE(t) :: else fi
#else
#define WAKE_AT_END(t) if :: place[t] == NONE -> WAKE(t) :: else fi
#endif
inline end_all() {
  d_step {
    ended = true;
    WAKE_AT_END(0);
    WAKE_AT_END(1);
    WAKE_AT_END(2);
#if THREADS > 3
    WAKE_AT_END(3)
#endif
  }
}

proctype thread(byte me) {
  byte p, k, spare, sleeper;

end_unborn:
  born[me];

live:
  atomic {
    p = place[me];
    if
    :: p != NONE -> goto serve
    :: p == NONE && ended -> goto gone_for_good
    :: p == NONE && !ended -> spares[me] = true
    fi
  }
  SLEEP;
  goto live;

serve:
  atomic { assert(user[p] == NONE); user[p] = me }
  atomic { /* Place.take and PyBatches.more, which wait, and end the task in hand */
    k = NONE;
    if
    :: stopping
    :: state[0] == LISTED || state[0] == SUSPENDED -> k = 0
#if TASKS > 1
    :: state[1] == LISTED || state[1] == SUSPENDED -> k = 1
#endif
#if TASKS > 2
    :: state[2] == LISTED || state[2] == SUSPENDED -> k = 2
#endif
    fi;
    user[p] = NONE;
    if :: k == NONE -> goto give_up :: else fi;
    in_hand[p] = k;
    if :: state[k] == SUSPENDED -> state[k] = RUNS; goto hand_over :: else -> state[k] = RUNS fi
  }

task:
  if
  :: atomic { waited[k] < WAITS -> waited[k]++; goto suspend }
  :: atomic { waited[k] < WAITS -> waited[k]++; goto go_away }
  :: atomic { waited[k] < WAITS -> waited[k] = WAITS; goto hold }
  :: atomic { waited[k] = WAITS; state[k] = OVER; goto live }
  fi;

hold: /* the thread keeps its place */
#if WRONG != 7
  held[k] = true;
#endif
  atomic { assert(user[p] == NONE && state[k] == RUNS); state[k] = AWAY; in_loop[k] = true }
#if WRONG == 7
  held[k] = true;
#endif
  goto live;

suspend:
  leave(SUSPENDED);
  goto come_back;

go_away:
  leave(AWAY);

come_back:
  if
  :: is_listed[me]
  :: else ->
    atomic {
      suspended[k] = me;
      if
      :: ended -> waits[me] = NONE; goto told
      :: else -> assert(state[k] == AWAY); state[k] = SUSPENDED; is_listed[me] = true
      fi
    }
  fi;
  SLEEP;
  atomic { /* the lock: a worker may be about to hand its place over; and Suspension.resumed */
    p = place[me];
    if
    :: p == NONE -> waits[me] = NONE; goto told
    :: else -> assert(user[p] == NONE && in_hand[p] == k && state[k] == RUNS); waits[me] = NONE; goto task
    fi
  }

told: /* StoppedError: the task ends, with a place or without one */
  atomic { assert(stopping); waited[k] = WAITS; state[k] = OVER; goto live }

hand_over:
  atomic {
    if
    :: held[k] ->
      held[k] = false;
      assert(user[p] == NONE && in_hand[p] == k && state[k] == RUNS);
      state[k] = OVER;
      goto live
    :: else
    fi
  }
  atomic {
    sleeper = suspended[k];
    if
    :: ended -> sleeper = NONE
    :: !ended && sleeper != NONE && (place[sleeper] != NONE || !is_listed[sleeper] || waits[sleeper] != k) -> sleeper = NONE
    :: else
    fi;
    if
    :: sleeper != NONE ->
      spares[me] = true;
      suspended[k] = NONE;
#if WRONG != 2
      place[me] = NONE;
#endif
      place[sleeper] = p;
      WAKE(sleeper)
    :: else -> assert(ended); goto give_up
    fi
  }
#if WRONG == 2
  place[me] = NONE;
#endif
  goto live;

give_up:
  stopping = true;
  end_all();
  place[me] = NONE;

gone_for_good: /* Places._go */
  skip;
  d_step {
    for (k : 0 .. THREADS - 1) { spares[k] = false }
    for (k : 0 .. TASKS - 1) { suspended[k] = NONE }
  }
}

/* The asyncio thread: coroutines end, and come back to whoever takes them. */
proctype loop() {
end_loop:
  do
  :: d_step { in_loop[0] -> in_loop[0] = false; assert(state[0] == AWAY); state[0] = SUSPENDED }
#if TASKS > 1
  :: d_step { in_loop[1] -> in_loop[1] = false; assert(state[1] == AWAY); state[1] = SUSPENDED }
#endif
#if TASKS > 2
  :: d_step { in_loop[2] -> in_loop[2] = false; assert(state[2] == AWAY); state[2] = SUSPENDED }
#endif
  od
}

proctype end() {
  byte t;
  if
  :: skip /* at any time */
  :: skip ->
    timeout;
    t = 0;
    do
    :: t < TASKS -> assert(state[t] == OVER); t++
    :: else -> break
    od;
    assert(user[0] != NONE && user[1] != NONE)
  fi;
  stopping = true;
  end_all()
}

init {
  byte i;
  d_step {
    for (i : 0 .. THREADS - 1) { place[i] = NONE; waits[i] = NONE }
    for (i : 0 .. TASKS - 1) { suspended[i] = NONE }
    for (i : 0 .. PLACES - 1) {
      place[i] = i;
      born[i] = true;
      in_hand[i] = NONE;
      user[i] = NONE
    }
  }
  atomic {
    for (i : 0 .. THREADS - 1) { run thread(i) }
    run loop();
    run end()
  }
}
