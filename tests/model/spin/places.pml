/* The hand-over of places (strand/tasks/places.py) under sequential consistency, searched to the end: 2 places, up to THREADS threads, tasks
 * that checkpoint, block, or go on as coroutines, and an end at any time. A section under the lock of Places is one step, and so is what
 * the engine does with a task; which thread of the spares is woken, and which listed task is taken, is left open. Names are those of
 * places.py.
 *
 * One thread at a time uses a place. When nothing goes on any more, all tasks are over and each place has a thread that waits at it. A
 * thread that sleeps is woken once: as its task is taken, or by the end, after which all threads end.
 *
 * WRONG=1: the place is given before the task is listed. WRONG=2: a worker that hands over says that it has no place after it is a spare.
 * WRONG=3: the seat is entered after the task is listed. WRONG=4: the end clears the spares and does not wake them.
 * WRONG=5: a task is suspended although the end came after its spare was found.
 * WRONG=6: a new thread does not sleep if it sees a place already, whose giver wakes it after that.
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

byte state[TASKS], waits[TASKS];
byte in_hand[PLACES], user[PLACES]; /* the task of a place, and the thread that is in the engine as that worker */
bool stopping;

byte place[THREADS]; /* Seat.place */
bool born[THREADS], woken[THREADS], is_spare[THREADS];
byte suspended[TASKS]; /* by task: the thread */
bool held[TASKS];      /* Held, by task */
bool in_loop[TASKS];   /* a coroutine in the asyncio thread */
byte n_threads = PLACES;
bool ended;

/* ---- the engine, as the worker of place p */

#define ENTER(p) atomic { assert(user[p] == NONE); user[p] = me }
#define LEAVE(p) user[p] = NONE

/* ---- a seat */

#define WAKE(t) assert(!woken[t]); woken[t] = true
#define SLEEP atomic { woken[me] -> woken[me] = false }

/* A spare, or a new thread; NONE: there may be no more. */
inline find_spare() {
  if
  :: is_spare[0] -> spare = 0
  :: is_spare[1] -> spare = 1
  :: is_spare[2] -> spare = 2
#if THREADS > 3
  :: is_spare[3] -> spare = 3
#endif
  :: else ->
    if
    :: n_threads < THREADS -> spare = n_threads; born[spare] = true; n_threads++
    :: else -> spare = NONE
    fi
  fi;
  if :: spare != NONE -> is_spare[spare] = false :: else fi
}

inline give(t, p) {
  place[t] = p;
  WAKE(t)
}

/* The task in hand leaves the place, to be suspended or away. */
inline leave(to) {
#if WRONG == 1
  give(spare, p);
  ENTER(p);
  d_step { assert(state[k] == RUNS); state[k] = to; LEAVE(p) }
#else
  ENTER(p);
  d_step { assert(state[k] == RUNS); state[k] = to; LEAVE(p) }
  give(spare, p)
#endif
}

proctype thread(byte me) {
  byte p, k, spare, sleeper;
  bool stopped;

end_unborn:
  born[me];
#if WRONG == 6
  if :: place[me] == NONE -> SLEEP :: else fi;
#else
  SLEEP;
#endif

work:
  p = place[me];
  if :: p == NONE -> goto no_more :: else fi;
  ENTER(p);
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
    LEAVE(p);
    if :: k == NONE -> goto no_more :: else fi;
    in_hand[p] = k;
    if :: state[k] == SUSPENDED -> state[k] = RUNS; goto hand_over :: else -> state[k] = RUNS fi
  }

task:
  if
  :: waits[k] < WAITS -> waits[k]++; goto suspend
  :: waits[k] < WAITS -> waits[k]++; goto go_away
  :: waits[k] < WAITS -> waits[k] = WAITS; goto hold
  :: atomic { waits[k] = WAITS; state[k] = OVER; goto work }
  fi;

hold: /* the thread keeps its place */
#if WRONG != 7
  held[k] = true;
#endif
  ENTER(p);
  d_step { assert(state[k] == RUNS); state[k] = AWAY; in_loop[k] = true; LEAVE(p) }
#if WRONG == 7
  held[k] = true;
#endif
  goto work;

suspend:
  atomic {
    stopped = ended || stopping;
    if :: !stopped -> find_spare() :: else fi
  }
  if :: stopped -> goto told :: else fi;
  if :: spare == NONE -> goto task :: else fi;
#if WRONG != 3
  atomic {
#if WRONG != 5
    stopped = ended;
#endif
    if :: !stopped -> suspended[k] = me :: else fi
  }
  if :: stopped -> give(spare, NONE); goto told :: else fi;
#endif
  place[me] = NONE;
  leave(SUSPENDED);
#if WRONG == 3
  suspended[k] = me;
#endif
  goto wait;

go_away:
  atomic {
    stopped = ended || stopping;
    if :: !stopped -> find_spare() :: else fi
  }
  if :: stopped -> goto told :: else fi;
  if :: spare == NONE -> goto task :: else fi; /* WouldDeadlockError */
  if :: ended -> give(spare, NONE); goto told :: else fi;
  place[me] = NONE;
  leave(AWAY);
  /* the block, and come_back */
  atomic {
    stopped = ended;
    if :: !stopped -> suspended[k] = me :: else fi
  }
  if :: stopped -> goto told :: else fi;
  d_step { assert(state[k] == AWAY); state[k] = SUSPENDED }

wait:
  SLEEP;
  p = place[me];
  if :: p == NONE -> goto told :: else fi;
  ENTER(p); /* PyBatches.resumed */
  d_step { assert(in_hand[p] == k && state[k] == RUNS); LEAVE(p) }
  goto task;

told: /* StoppedError */
  atomic { assert(stopping); waits[k] = WAITS; state[k] = OVER; goto work }

hand_over:
  if
  :: held[k] ->
    held[k] = false;
    ENTER(p);
    d_step { assert(in_hand[p] == k && state[k] == RUNS); state[k] = OVER; LEAVE(p) }
    goto work
  :: else
  fi;
  atomic {
    sleeper = suspended[k];
    suspended[k] = NONE;
    if
    :: sleeper != NONE ->
#if WRONG != 2
      place[me] = NONE;
#endif
      is_spare[me] = true
    :: else -> assert(ended); goto no_more
    fi
  }
#if WRONG == 2
  place[me] = NONE;
#endif
  give(sleeper, p);
  SLEEP;
  goto work;

no_more:
  skip
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
  bool asleep[THREADS];
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
  d_step { /* the lock */
    ended = true;
    t = 0;
    do
    :: t < THREADS -> asleep[t] = is_spare[t]; is_spare[t] = false; t++
    :: else -> break
    od;
#if WRONG == 4
    t = 0;
    do
    :: t < THREADS -> asleep[t] = false; t++
    :: else -> break
    od;
#endif
    t = 0;
    do
    :: t < TASKS ->
      if :: suspended[t] != NONE -> asleep[suspended[t]] = true; suspended[t] = NONE :: else fi;
      t++
    :: else -> break
    od;
    t = 0
  }
  do
  :: t < THREADS ->
    if :: asleep[t] -> give(t, NONE) :: else fi;
    t++
  :: else -> break
  od
}

init {
  byte i;
  d_step {
    for (i : 0 .. THREADS - 1) { place[i] = NONE }
    for (i : 0 .. TASKS - 1) { suspended[i] = NONE }
    for (i : 0 .. PLACES - 1) {
      place[i] = i;
      born[i] = true;
      woken[i] = (WRONG != 6);
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
