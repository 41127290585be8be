/* The token's protocol under sequential consistency, searched to the end: 3 workers, 2 strands, 3 publishes by 2 publishers,
 * one strand that is paused and resumed. One schedule list stands for one a worker with stealing: where a strand is taken
 * from matters for speed, never for who holds its token.
 *
 * A publish's link and add are one step each under the publish lock; so are a worker's moves, named as in csrc/strand/strand.h.
 * WRONG=1: the owner word is given back after the subtraction, and the next who takes the strand finds it taken.
 * WRONG=2: a worker that is done clears a flag and does not look again.
 * WRONG=3: resuming takes the token although nobody set it aside.
 */
#ifndef WRONG
#define WRONG 0
#endif
#define STRANDS 2
#define WORKERS 3
#define EVENTS 3
#define NONE 255

byte pending[STRANDS], owner[STRANDS], linked[STRANDS], done[STRANDS], running[STRANDS], tokens[STRANDS];
bool lock[STRANDS], paused[STRANDS], aside[STRANDS];
chan list = [STRANDS] of { byte };
byte published = 0, handled = 0;

/* Rule 3: a strand with something pending is in one place, and never in two. */
#define GOT(s) tokens[s]++; assert(tokens[s] == 1)
#define LET_GO(s) tokens[s]--

inline put_on_list(s) {
  assert(nfull(list));
  list!s
}

inline publish(s) {
  atomic { !lock[s] -> lock[s] = true }
  linked[s]++;                               /* sd_strand_link */
  atomic { /* P2 */
    pending[s]++;
    mine = (pending[s] == 1);
    if :: mine -> GOT(s) :: else fi
  }
  lock[s] = false;
  if :: mine -> put_on_list(s) :: else fi;
  published++
}

proctype publisher(byte first; byte n) {
  bool mine;
  byte s = first;
  do
  :: n > 0 -> publish(s); s = 1 - s; n--
  :: n == 0 -> break
  od
}

proctype controller() {
  bool mine;
  paused[0] = true; /* S4 */
  atomic { /* S3 */
    paused[0] = false;
    mine = aside[0];
#if WRONG == 3
    mine = pending[0] > 0;
#endif
    aside[0] = false;
    if :: mine && WRONG == 3 -> GOT(0) :: else fi
  }
  if :: mine -> put_on_list(0) :: else fi
}

proctype worker(byte me) {
  byte s = NONE, n, left;
  bool held;
end:
  do
  :: list?s ->
    atomic { /* S1 */
      held = paused[s];
      if :: held -> aside[s] = true :: else fi
    }
    if
    :: held -> skip
    :: else ->
      atomic { assert(owner[s] == 0); owner[s] = me + 1 } /* W1 */
      n = pending[s];                                     /* W2 */
      assert(n > 0);
      /* the budget: one record, or all that are counted */
      if :: n > 1 -> n = 1 :: true fi;
      assert(running[s] == 0);
      running[s] = 1;
      done[s] = done[s] + n;
      assert(done[s] <= linked[s]);
      running[s] = 0;
      handled = handled + n;
#if WRONG == 1
      atomic { pending[s] = pending[s] - n; left = pending[s]; if :: left == 0 -> LET_GO(s) :: else fi }
      if :: left > 0 -> put_on_list(s) :: else fi;
      owner[s] = 0
#elif WRONG == 2
      owner[s] = 0;
      left = pending[s] - n;
      atomic { pending[s] = pending[s] - n; LET_GO(s); if :: left > 0 -> GOT(s) :: else fi }
      if :: left > 0 -> put_on_list(s) :: else fi
#else
      owner[s] = 0; /* W3 */
      atomic { pending[s] = pending[s] - n; left = pending[s]; if :: left == 0 -> LET_GO(s) :: else fi } /* W4 */
      if :: left > 0 -> put_on_list(s) :: else fi
#endif
    fi;
    s = NONE; n = 0; left = 0
  od
}

/* At the end nothing runs any more: all are handled, no token is left. */
proctype at_rest() {
  timeout -> assert(published == EVENTS && handled == EVENTS);
  assert(pending[0] == 0 && pending[1] == 0 && tokens[0] == 0 && tokens[1] == 0 && owner[0] == 0 && owner[1] == 0)
}

init {
  atomic {
    run publisher(0, 2);
    run publisher(0, 1);
    run worker(0);
    run worker(1);
    run worker(2);
    run controller();
#ifndef LIVENESS
    run at_rest()
#endif
  }
}

#ifdef LIVENESS
ltl all_are_handled { <> (handled == EVENTS) }
#endif
