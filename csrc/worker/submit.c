/* How tasks get onto lists and strands, and how they change while they wait. */
#include "worker/submit.h"

#include "base/clock.h"
#include "numbering/failure.h"
#include "sd_error.h"

#if defined(SD_MODEL_SCHEDULER)
enum { LISTED_AT_ONCE = 3 };
#else
enum { LISTED_AT_ONCE = 64 }; /* tasks that are listed under one lock */
#endif

/* ---- filling entries */

static uint64_t deadline_of(const sd_task_spec *spec) {
  return spec->fn && spec->within_ns ? sd_now() + sd_clock_span(spec->within_ns) : UINT64_MAX;
}

/* Fills an entry in; returns its handle. */
static uint64_t fill_entry(sd_dispatcher *d, uint32_t index, const sd_task_spec *spec, uint32_t flags) {
  sd_task *t = &d->tasks.tasks[index];
  t->call = spec->fn ? (uint64_t)(uintptr_t)spec->fn : spec->tag;
  t->deadline = deadline_of(spec);
  if (spec->fn) flags |= SD_TASK_IN_C;
  if (spec->fn && spec->argument_bytes) {
    memcpy(t->argument, spec->argument, spec->argument_bytes);
    flags |= SD_TASK_COPIED;
  } else if (spec->fn) {
    memcpy(t->argument, &spec->argument, sizeof spec->argument);
  }
  return sd_task_handle(sd_task_fill(t, flags), index);
}

static int good_spec(const sd_dispatcher *d, const sd_task_spec *spec) {
  if (!spec->fn && !spec->tag) return 0;
  if (spec->argument_bytes > SD_TASK_BYTES || (spec->marks & ~(uint32_t)SD_ALL_MARKS)) return 0;
  if (spec->key != SD_NO_KEY) return spec->key < d->arena->n_symbols;
  if (spec->priority == SD_USUAL_PRIORITY) return 1;
  return d->policy->accepts && d->policy->accepts(&d->ready, spec->priority);
}

/* ---- taking entries: from a worker's cache, or as a guest if `participant` is SD_NONE or a publisher */

static uint32_t take_entries(sd_dispatcher *d, uint32_t participant, uint32_t *index, uint32_t n, int kind) {
  if (participant >= d->n_workers) return sd_guest_takes(&d->tasks, index, n, kind, 0);
  sd_participant *me = &d->participants[participant];
  n = sd_tasks_take(&d->tasks, &me->task_cache, index, n);
  sd_tasks_count_submitted(&me->tasks, kind, n);
  return n;
}

static void leave_pool(sd_dispatcher *d, uint32_t participant) {
  if (participant >= d->n_workers) sd_guest_leaves(&d->tasks);
}

/* ---- free tasks */

/* A worker's own list, or the active workers' in turn. */
static uint32_t list_for(sd_dispatcher *d, uint32_t participant) {
  if (participant < d->n_workers) return participant;
  /* J7, I10: relaxed; any list will do. */
  const uint32_t active = sd_load(&d->arena->active, relaxed, I10);
  return sd_fetch_add(&d->tasks.list->turn, 1u, relaxed, J7) % active;
}

static void wake_for(sd_dispatcher *d, uint32_t participant) {
  if (sd_idle_wake_one(&d->arena->idle) && participant != SD_NONE)
    sd_bump(&d->participants[participant].counters.wakes, 1);
}

/* Submits up to n free tasks. Returns how many; SD_NONE: nobody may submit any more. */
static uint32_t submit_free(sd_dispatcher *d, uint32_t participant, sd_task_spec *specs, uint32_t n) {
  const uint32_t list = list_for(d, participant);
  uint32_t done = 0, index[LISTED_AT_ONCE];
  while (done < n) {
    const uint32_t most = n - done < LISTED_AT_ONCE ? n - done : LISTED_AT_ONCE;
    const uint32_t got = take_entries(d, participant, index, most, SD_FREE_TASKS);
    if (got == SD_NONE) return done ? done : SD_NONE;
    for (uint32_t i = 0; i < got; i++) {
      sd_task_spec *spec = &specs[done + i];
      const uint32_t entry = index[i] + d->ready.n_strands;
      if (d->policy->renew) d->policy->renew(&d->ready, entry, spec->priority, spec->marks);
      spec->handle = fill_entry(d, index[i], spec, 0);
      index[i] = entry;
    }
    if (got) sd_make_ready(d, list, index, got, SD_WAS_EMPTY, sd_now());
    done += got;
    if (done == n || got < most) {
      if (done) wake_for(d, participant);
      leave_pool(d, participant);
      return done;
    }
    leave_pool(d, participant);
  }
  return done;
}

/* ---- tasks on strands */

/* Puts an entry that is filled in onto a strand, or revives the strand's last task in its place: then *revived is its handle. */
static void put_on_strand(sd_dispatcher *d, uint32_t strand, uint32_t index, uint64_t tag, uint64_t *revived) {
  sd_strand *s = &d->strands[strand];
  uint32_t list = 0;
  int ready = 0;
  sd_lock_strand(d, s);
  *revived = tag ? sd_task_revive(d->tasks.tasks, s, tag) : 0;
  if (!*revived) {
    sd_task_link(d->tasks.tasks, s, index + 1);
    ready = sd_strand_add(s, 1);
    /* We hold the token, so `last` and `oldest` are ours to use. */
    if (ready) {
      list = s->last;
      s->oldest = sd_now();
    }
  }
  sd_unlock(&s->publish_lock);
  if (ready) {
    sd_make_ready(d, list, &strand, 1, SD_WAS_EMPTY, sd_now());
    sd_idle_wake_one(&d->arena->idle);
  }
}

/* By a guest. A task of Python's may use the strand's last one again. `flags`: SD_TASK_OVERDUE or 0. */
static int enqueue_one(sd_dispatcher *d, uint32_t strand, const sd_task_spec *spec, uint32_t flags, uint64_t *handle) {
  uint32_t index;
  const uint32_t got = sd_guest_takes(&d->tasks, &index, 1, SD_STRAND_TASKS, flags != 0);
  if (got == SD_NONE) return SD_E_STOPPED;
  if (got) {
    uint64_t revived;
    *handle = fill_entry(d, index, spec, flags | SD_TASK_ON_STRAND);
    put_on_strand(d, strand, index, spec->fn || flags ? 0 : spec->tag, &revived);
    if (revived) {
      *handle = revived;
      sd_task_end(&d->tasks.tasks[index]);
      sd_guest_gives_up(&d->tasks, index, SD_STRAND_TASKS);
    }
  }
  sd_guest_leaves(&d->tasks);
  return got ? SD_OK : SD_AGAIN;
}

int sd_task_enqueue(sd_dispatcher *d, uint32_t strand, uint64_t tag, uint64_t *handle) {
  if (strand >= d->arena->n_strands || !tag) return SD_E_ARGUMENT;
  const sd_task_spec spec = {.tag = tag};
  return enqueue_one(d, strand, &spec, 0, handle);
}

int sd_enqueue_overdue(sd_dispatcher *d, uint32_t strand, uint64_t time) {
  const sd_task_spec spec = {.tag = time};
  uint64_t handle;
  return enqueue_one(d, strand, &spec, SD_TASK_OVERDUE, &handle);
}

/* ---- the calls */

/* Submits in the order of specs: free tasks in rows, those of a symbol one by one. */
static int64_t submit_specs(sd_dispatcher *d, uint32_t participant, sd_task_spec *specs, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (!good_spec(d, &specs[i])) return SD_E_ARGUMENT;
  if (sd_dispatcher_stopping(d)) return SD_E_STOPPED;
  uint32_t done = 0;
  while (done < n) {
    if (specs[done].key != SD_NO_KEY) {
      const int code = enqueue_one(d, d->map[specs[done].key], &specs[done], 0, &specs[done].handle);
      if (code) return code == SD_AGAIN || done ? (int64_t)done : code;
      done++;
      continue;
    }
    uint32_t row = 1;
    while (done + row < n && specs[done + row].key == SD_NO_KEY) row++;
    const uint32_t some = submit_free(d, participant, specs + done, row);
    if (some == SD_NONE) return done ? (int64_t)done : SD_E_STOPPED;
    done += some;
    if (some < row) break;
  }
  return done;
}

int64_t sd_tasks_submit(sd_dispatcher *d, sd_task_spec *specs, uint32_t n) {
  return submit_specs(d, SD_NONE, specs, n);
}

int64_t sd_submit_from_task(sd_task_context *ctx, sd_task_spec *specs, uint32_t n) {
  return submit_specs(ctx->engine, ctx->participant, specs, n);
}

int64_t sd_submit_from_handler(sd_context *ctx, sd_task_spec *specs, uint32_t n) {
  sd_dispatcher *d = ctx->engine;
  /* A handler that runs inline has the locks of its strands. */
  for (uint32_t i = 0; i < n && d->may_run_inline; i++)
    if (specs[i].key != SD_NO_KEY) return SD_E_WOULD_DEADLOCK;
  return submit_specs(d, ctx->participant, specs, n);
}

/* ---- changing tasks that wait */

static sd_task *task_named(sd_dispatcher *d, uint64_t handle) {
  const uint32_t index = (uint32_t)handle - 1;
  return index < d->tasks.list->n ? &d->tasks.tasks[index] : NULL;
}

/* A seized task of Python's that is taken off its list is over: a worker that has taken it before sees another state, and ends it itself. */
int sd_task_give_up(sd_dispatcher *d, uint64_t handle) {
  const uint32_t index = (uint32_t)handle - 1, entry = d->ready.n_strands + index;
  sd_task *t = task_named(d, handle);
  if (!t) return SD_AGAIN;
  if (!d->policy->leave || (sd_task_word(t) & (SD_TASK_ON_STRAND | SD_TASK_IN_C)))
    return sd_task_cancel(t, handle) ? SD_OK : SD_AGAIN;
  if (!sd_task_seize(t, handle)) return SD_AGAIN;
  if (!d->policy->leave(&d->ready, entry)) {
    sd_task_let_go(t, SD_TASK_GIVEN_UP);
    return SD_OK;
  }
  if (d->policy->over) d->policy->over(&d->ready, entry);
  sd_task_end(t);
  sd_guest_gives_up(&d->tasks, index, SD_FREE_TASKS);
  return SD_OK;
}

uint32_t sd_task_rose(sd_dispatcher *d, uint64_t handle) {
  sd_task *t = task_named(d, handle);
  if (!d->policy->rose || !t || !sd_task_seize(t, handle)) return 0;
  const int free = !(sd_task_word(t) & SD_TASK_ON_STRAND);
  const uint32_t level = free ? d->policy->rose(&d->ready, d->ready.n_strands + ((uint32_t)handle - 1), 0) : 0;
  sd_task_let_go(t, SD_TASK_WAITS);
  return level;
}

void sd_tasks_risen(sd_dispatcher *d, int64_t *more) {
  if (d->policy->risen) d->policy->risen(&d->ready, more);
}

int sd_task_prioritise(sd_dispatcher *d, uint64_t handle, uint32_t priority) {
  sd_task *t = task_named(d, handle);
  if (!d->policy->accepts || !d->policy->accepts(&d->ready, priority)) return SD_E_ARGUMENT;
  if (!t || !sd_task_seize(t, handle)) return SD_AGAIN;
  const int on_strand = (sd_task_word(t) & SD_TASK_ON_STRAND) != 0;
  if (!on_strand) d->policy->prioritise(&d->ready, d->ready.n_strands + ((uint32_t)handle - 1), priority, 0, sd_now());
  sd_task_let_go(t, SD_TASK_WAITS);
  /* It may have been held back: whoever listed it has woken a worker that did not find it. */
  if (!on_strand) sd_idle_wake_one(&d->arena->idle);
  return on_strand ? SD_E_ARGUMENT : SD_OK;
}
