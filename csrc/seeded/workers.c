#include "seeded/workers.h"

#include "base/clock.h"
#include "sd_error.h"
#include "seeded/scheduler.h"

enum { PAUSES = 16 };
enum { WORKS = 0, WAITS = 1, IN_PYTHON = 2 };

/* A worker; its number is that of its fiber. */
typedef struct seeded_worker {
  sd_py_worker hand;
  int64_t strand;   /* as sd_py_worker_next returned it */
  uint64_t busy_ns; /* its handler in Python took so long */
  int state, ended, done;
} seeded_worker;

static seeded_worker workers[SD_SEEDED_WORKERS];
static uint32_t n_workers, left, in_python; /* n_workers: none is */

static void work(void *at, unsigned fiber) {
  (void)fiber;
  seeded_worker *w = at;
  while (!w->ended) {
    w->strand = w->done ? sd_py_worker_go_on(&w->hand) : sd_py_worker_next(&w->hand);
    w->done = 0;
    int what = w->hand.what;
    if (what != SD_PY_RECORDS && what != SD_PY_TASK && what != SD_PY_WAKE) break;
    w->state = WAITS;
    sd_scheduler_wake(n_workers); /* the caller, which may sleep */
    sd_scheduler_wait("Python");
  }
  left--;
}

void sd_seeded_start(sd_dispatcher *d, uint64_t seed) {
  sd_scheduler_start(seed);
  n_workers = left = in_python = d->n_workers;
  for (uint32_t i = 0; i < n_workers; i++) {
    workers[i] = (seeded_worker){.hand = {.d = d, .participant = i}};
    sd_scheduler_add(work, &workers[i]);
  }
  sd_scheduler_enter();
}

uint32_t sd_seeded_pause(void) {
  for (int i = 0; i < PAUSES && left; i++) sd_pause();
  return left;
}

int64_t sd_seeded_waiting(void) {
  uint32_t waiting[SD_SEEDED_WORKERS], n = 0;
  for (uint32_t i = 0; i < n_workers; i++)
    if (workers[i].state == WAITS) waiting[n++] = i;
  return n ? (int64_t)waiting[sd_scheduler_random(n)] : -1;
}

void sd_seeded_go_on(uint32_t participant, int ended) {
  seeded_worker *w = &workers[participant];
  w->ended = ended;
  w->state = WORKS;
  in_python = n_workers;
  sd_scheduler_act_for(n_workers);
  if (w->busy_ns) sd_scheduler_wake_at(participant, sd_now() + w->busy_ns);
  else sd_scheduler_wake(participant);
  w->busy_ns = 0;
}

uint64_t sd_seeded_now(void) { return sd_now() + (in_python < n_workers ? workers[in_python].busy_ns : 0); }

int sd_seeded_take(uint64_t ns) {
  if (in_python == n_workers) return 0;
  workers[in_python].busy_ns += ns;
  sd_scheduler_act(ns);
  return 1;
}

void sd_seeded_pass(uint64_t until) {
  for (uint32_t i = 0; i < n_workers; i++)
    if (workers[i].state == WAITS) return;
  if (sd_now() < until) sd_scheduler_sleep(until);
}

void sd_seeded_stop(void) { sd_scheduler_leave(); }

int64_t sd_seeded_next(sd_py_worker *hand) {
  seeded_worker *w = &workers[hand->participant];
  if (w->state != WAITS) {
    hand->what = SD_E_STOPPED;
    return -1;
  }
  w->state = IN_PYTHON;
  in_python = hand->participant;
  sd_scheduler_act_for(in_python);
  *hand = w->hand;
  return w->strand;
}

int64_t sd_seeded_done(sd_py_worker *hand) {
  seeded_worker *w = &workers[hand->participant];
  w->hand = *hand;
  w->done = 1;
  hand->what = SD_E_STOPPED;
  return -1;
}

void sd_seeded_destroy(sd_dispatcher *d) {
  const int was = sd_scheduler_hold();
  sd_dispatcher_destroy(d);
  sd_scheduler_let_go(was);
}

void sd_seeded_space_destroy(sd_space *space) {
  const int was = sd_scheduler_hold();
  sd_space_destroy(space);
  sd_scheduler_let_go(was);
}
