/* A dispatcher from its creation to its end: its memory, its strands and handlers, pausing and resuming strands, and the wait until
 * everything is drained. */
#include "engine/dispatcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "blocks/blocks.h"
#include "emit/writer.h"
#include "memory/lines.h"
#include "numbering/failure.h"
#include "numbering/watermark.h"
#include "publish/publish.h"
#include "schedule/policy.h"
#include "sd_error.h"
#include "worker/alarm.h"
#include "worker/free_task.h"
#include "worker/overdue.h"
#include "worker/worker.h"

/* Whether there is a bound over strands: in all, or for a level. */
static int bounds_levels(const sd_config *c) {
  uint64_t any = 0;
  for (int level = 0; level < SD_LEVEL_COUNT; level++) any |= c->level_capacity[level];
  return any != 0;
}

/* Publishers that make room on a strand cannot make it on others. */
static int good_bounds(const sd_config *c) {
  const sd_policy *policy = sd_policy_of(c->policy.number);
  if (!policy || (bounds_levels(c) && !policy->level)) return 0;
  if (c->on_full == SD_SHED) return c->total_capacity && policy->take_last;
  return (c->on_full != SD_DROP_OLDEST && c->on_full != SD_CONFLATE) || (!c->total_capacity && !bounds_levels(c));
}

static int good_config(const sd_config *c) {
  const sd_sizes *z = &c->sizes;
  if (c->idle < SD_IDLE_SPIN || c->idle > SD_IDLE_SLEEP) return 0;
  if (c->on_full < SD_BLOCK || c->on_full > SD_SHED) return 0;
  if (c->python_workers > z->n_workers && c->python_workers != SD_ALL_BUT_ONE) return 0;
  if (c->on_error != SD_ON_ERROR_STOP && c->on_error != SD_ON_ERROR_QUARANTINE) return 0;
  if (!good_bounds(c)) return 0;
  if (!c->capacity || !c->budget_records || !c->budget_ns || !c->batch_records) return 0;
  if (c->batch_records > 1u << 16) return 0;
  /* All caches of participants may be full of free segments. There must be more segments than that, or a strand at its bound might get
   * none. */
  uint64_t in_caches = (uint64_t)(z->n_workers + z->n_publishers) * 2 * SD_FREE_RUN;
  return z->n_segments > in_caches;
}

#if defined(SD_MODEL_SCHEDULER) || defined(SD_STRESS)
enum { CACHE_COLD_SYMBOLS = 2 };
#else
enum { CACHE_COLD_SYMBOLS = 1 << 15 };
#endif

void sd_dispatcher_settle(sd_dispatcher *d) {
  d->lossy = d->config.on_full == SD_DROP_OLDEST || d->config.on_full == SD_CONFLATE;
  d->by_strand = d->lossy || d->admitted;
  for (uint32_t i = 0; i < d->arena->n_strands; i++) {
    d->strands[i].capacity = d->config.capacity;
    d->strands[i].on_full = (uint8_t)d->config.on_full;
    d->strands[i].lossy = (uint8_t)d->lossy;
  }
}

void sd_dispatcher_view(sd_dispatcher *d) {
  sd_space *space = d->space;
  sd_arena *a = d->arena;
  d->config = a->config;
  d->policy = sd_policy_of(d->config.policy.number);
  d->strands = sd_space_at(space, a->strands);
  d->ready = sd_arena_ready(space, a);
  d->participants = sd_space_at(space, a->participants);
  d->by_level = sd_space_at(space, a->by_level);
  d->n_levels = d->policy ? sd_levels_in(d->policy) : 0;
  d->map = sd_space_at(space, a->map);
  d->rows = sd_space_at(space, a->rows);
  d->pool = (sd_segment_pool){.list = &a->free_list,
                              .stack = sd_space_at(space, a->stack),
                              .segments = sd_space_at(space, a->segments),
                              .segment_bytes = a->segment_bytes,
                              .record_size = a->record_size,
                              .records = a->segment_records,
                              .positions_at = a->positions_at,
                              .space = space};
  const sd_policy *policy = d->policy;
  const uint32_t n = a->task_list.n;
  /* What the policy keeps of tasks lies at the end of its state. */
  const uint64_t policy_bytes =
      policy ? policy->state_bytes(&a->config.policy, d->ready.n_lists, a->n_strands, a->n_strands + n) : 0;
  d->tasks = (sd_task_pool){.list = &a->task_list,
                            .stack = sd_space_at(space, a->task_stack),
                            .tasks = sd_space_at(space, a->tasks),
                            .space = space,
                            .policy_at = policy ? a->policy + policy_bytes - (uint64_t)n * policy->entry_bytes : 0,
                            .policy_bytes = policy ? policy->entry_bytes : 0};
  d->last_number = sd_space_at(space, a->last_numbers);
  d->watermark_target = sd_space_at(space, a->watermark_targets);
  d->watermark_strand = sd_space_at(space, a->watermark_strands);
  d->admitted = a->admitted ? sd_space_at(space, a->admitted) : NULL;
  d->admissions = a->admissions ? sd_space_at(space, a->admissions) : NULL;
  d->n_workers = a->n_workers;
  d->n_participants = a->n_workers + a->n_publishers;
}

/* Makes what bounds over strands need, if there are any. */
static int make_bounds(sd_dispatcher *d) {
  sd_arena *a = d->arena;
  if (!d->config.total_capacity && !bounds_levels(&d->config)) return SD_OK;
  d->admitted = sd_arena_get(d->space, d->n_participants, sizeof *d->admitted, &a->admitted);
  d->admissions = sd_arena_get(d->space, a->n_strands, sizeof *d->admissions, &a->admissions);
  return d->admitted && d->admissions ? SD_OK : SD_E_NO_MEMORY;
}

/* Allocates the memory that is private to this process. */
static int make_private(sd_dispatcher *d) {
  const uint64_t budget = d->config.budget_records;
  d->scratch = calloc(d->n_participants, sizeof *d->scratch);
  d->watches = calloc(d->n_workers, sizeof *d->watches);
  d->py_batches = calloc(d->n_participants, sizeof *d->py_batches);
  d->scratch_positions = calloc(d->n_participants, sizeof *d->scratch_positions);
  if (!d->scratch || !d->watches || !d->py_batches || !d->scratch_positions) return SD_E_NO_MEMORY;
  for (uint32_t i = 0; i < d->n_participants; i++) {
    d->scratch[i] = malloc(budget * d->arena->record_size);
    if (!d->scratch[i]) return SD_E_NO_MEMORY;
    if (i < d->n_workers && !(d->watches[i] = sd_lines(d->n_workers, sizeof **d->watches))) return SD_E_NO_MEMORY;
    if (!d->config.sizes.has_positions) continue;
    d->scratch_positions[i] = malloc(budget * sizeof **d->scratch_positions);
    if (!d->scratch_positions[i]) return SD_E_NO_MEMORY;
  }
  return sd_publishers_create(d);
}

int sd_dispatcher_create(sd_space *space, const sd_config *config, sd_dispatcher **out) {
  *out = NULL;
  if (!good_config(config)) return SD_E_ARGUMENT;
  sd_clock_init();
  sd_dispatcher *d = calloc(1, sizeof *d);
  if (!d) return SD_E_NO_MEMORY;
  d->space = space;
  d->publish = sd_publish_from_handler;
  d->budget_counts = sd_clock_counts(config->budget_ns);
  int code = sd_arena_create(space, config, &d->arena);
  /* With one core, publishers handle most of what they publish themselves and use few segments, so none are pre-faulted. */
  const uint64_t in_flight = (uint64_t)config->ahead_records + config->batch_records;
  if (!code) code = sd_arena_fill_segments(space, d->arena, in_flight, !config->one_core);
  if (!code) {
    sd_dispatcher_view(d);
    d->cache_cold = d->arena->n_symbols >= CACHE_COLD_SYMBOLS;
    /* Strands keep their last segment only if there are enough segments for all of them, in addition to those in caches. */
    const uint32_t strands = d->arena->n_strands, segments = d->arena->n_segments;
    d->shed = strands > segments / 2 || strands + d->n_participants * 2 * SD_FREE_RUN >= segments;
    code = make_bounds(d);
    sd_dispatcher_settle(d);
    if (!code) code = make_private(d);
  }
  if (code) {
    sd_dispatcher_destroy(d);
    return code;
  }
  *out = d;
  return SD_OK;
}

void sd_dispatcher_destroy(sd_dispatcher *d) {
  if (!d) return;
  sd_publishers_destroy(d);
  sd_blocks_destroy(d);
  sd_outputs_destroy(d);
  for (uint32_t i = 0; d->scratch && i < d->n_participants; i++) free(d->scratch[i]);
  for (uint32_t i = 0; d->watches && i < d->n_workers; i++) free(d->watches[i]);
  for (uint32_t i = 0; d->scratch_positions && i < d->n_participants; i++) free(d->scratch_positions[i]);
  free(d->scratch);
  free(d->scratch_positions);
  free(d->failures);
  free(d->py_batches);
  free(d->watches);
  free(d->handlers);
  free(d);
}

int sd_dispatcher_route(sd_dispatcher *d, const uint32_t *strand_of_symbol, const uint16_t *handler_of_strand) {
  for (uint32_t i = 0; i < d->arena->n_symbols; i++) {
    if (strand_of_symbol[i] >= d->arena->n_strands) return SD_E_ARGUMENT;
    d->map[i] = strand_of_symbol[i];
  }
  for (uint32_t i = 0; i < d->arena->n_strands; i++) d->strands[i].handler = handler_of_strand[i];
  return SD_OK;
}

int sd_dispatcher_handlers(sd_dispatcher *d, const sd_handler *handlers, uint32_t n) {
  free(d->handlers);
  d->handlers = n ? calloc(n, sizeof *handlers) : NULL;
  d->n_handlers = 0;
  if (!d->handlers) return n ? SD_E_NO_MEMORY : SD_E_ARGUMENT;
  memcpy(d->handlers, handlers, n * sizeof *handlers);
  d->n_handlers = n;
  d->all_native = 1;
  d->may_run_inline = d->policy->runs_inline;
  for (uint32_t i = 0; i < d->arena->n_strands; i++) {
    uint16_t h = d->strands[i].handler;
    if (h >= n) return SD_E_ARGUMENT;
    if (!handlers[h].fn) d->all_native = 0;
    if (!handlers[h].fn || !handlers[h].never_publishes || h != d->strands[0].handler) d->may_run_inline = 0;
  }
  int code = sd_timers_connect(d);
  if (!code) code = sd_outputs_connect(d);
  const int made = sd_blocks_decide(d);
  return code ? code : made;
}

void *sd_dispatcher_rows(sd_dispatcher *d, uint64_t *stride) {
  *stride = d->arena->row_stride;
  return d->rows;
}

/* ---- pausing and resuming strands */

int sd_dispatcher_hold(sd_dispatcher *d, uint32_t strand, uint32_t why) {
  if (strand >= d->arena->n_strands || !why || (why & ~(uint32_t)SD_HELD)) return SD_E_ARGUMENT;
  sd_strand_hold(&d->strands[strand], why);
  return SD_OK;
}

int sd_dispatcher_activate(sd_dispatcher *d, uint32_t n) {
  if (!n || n > d->n_workers) return SD_E_ARGUMENT;
  /* I10: relaxed; I7 and I5 carry it to workers that rest. */
  sd_store(&d->arena->active, n, relaxed, I10);
  sd_idle_wake_all(&d->arena->resting);
  /* There may be a permit more, for what is deferred, and a worker that does not rest yet takes it late. */
  sd_idle_wake_one(&d->arena->idle);
  return SD_OK;
}

int sd_dispatcher_prioritise(sd_dispatcher *d, uint32_t strand, uint32_t priority, int for_backlog) {
  if (strand >= d->arena->n_strands || !d->policy->prioritise) return SD_E_ARGUMENT;
  if (!d->policy->prioritise(&d->ready, strand, priority, for_backlog, sd_now())) return SD_E_ARGUMENT;
  /* It may have been held back. Who listed it has woken a worker for it that did not find it. */
  sd_idle_wake_one(&d->arena->idle);
  return SD_OK;
}

int sd_dispatcher_mark(sd_dispatcher *d, uint32_t strand, uint32_t marks) {
  if (strand >= d->arena->n_strands || !d->policy->mark || (marks & ~(uint32_t)SD_ALL_MARKS)) return SD_E_ARGUMENT;
  d->policy->mark(&d->ready, strand, marks);
  return SD_OK;
}

int sd_dispatcher_hold_back(sd_dispatcher *d, uint32_t resources, uint32_t *waiting) {
  if (!d->policy->hold || resources >> SD_RESOURCE_COUNT) return SD_E_ARGUMENT;
  *waiting = d->policy->hold(&d->ready, resources, sd_now());
  for (uint32_t list = 0; list < d->ready.n_lists; list++) {
    /* As a push: the policy has changed the list under its lock, so a sleeper that did not see that is seen here (I3). */
    if (!sd_list_length(&d->ready.lists[list])) continue;
    sd_idle_wake_one(&d->arena->idle);
    break;
  }
  return SD_OK;
}

int sd_dispatcher_retime(sd_dispatcher *d, const uint64_t *timeout_ns) {
  if (!d->policy->retime) return SD_E_ARGUMENT;
  d->policy->retime(&d->ready, timeout_ns);
  return SD_OK;
}

int sd_dispatcher_weigh(sd_dispatcher *d, uint32_t group, uint32_t weight) {
  return d->policy->weigh && d->policy->weigh(&d->ready, group, weight) ? SD_OK : SD_E_ARGUMENT;
}

int sd_dispatcher_resume(sd_dispatcher *d, uint32_t strand, uint32_t why) {
  if (strand >= d->arena->n_strands || !why || (why & ~(uint32_t)SD_HELD)) return SD_E_ARGUMENT;
  sd_strand *s = &d->strands[strand];
  if (sd_strand_resume(s, why)) {
    sd_make_ready(d, s->last, &strand, 1, SD_VISITED, sd_now());
    sd_idle_wake_one(&d->arena->idle);
  }
  return SD_OK;
}

/* ---- waiting until everything is drained */

/* Whether records are left only on strands whose token is set aside. *seen gets a sum over all strands, which changes if one of them
 * accepts records or sets its token aside. */
static int only_held(sd_dispatcher *d, uint64_t *seen) {
  *seen = 0;
  for (uint32_t i = 0; i < d->arena->n_strands; i++) {
    sd_strand *s = &d->strands[i];
    /* A1: acquire; pairs with S1, P2 and W4: whoever is told that everything is drained sees what was done before. */
    if (sd_load(&s->pending, acquire, A1) == 0) *seen += sd_peek(&s->accepted);
    else if (sd_load(&s->control, acquire, A1) & SD_SET_ASIDE) *seen += (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    else return 0;
  }
  return 1;
}

/* If handlers or tasks publish, one look at each strand in turn is not enough. A handler may publish to a strand that has been looked at,
 * and may have finished when its own strand is looked at. Two consecutive looks that find nothing, with nothing accepted or submitted
 * between them, show that there was nothing left at the end of the first one. */
static int drained(sd_dispatcher *d) {
  uint64_t first, second, submitted, again;
  if (!sd_free_tasks_over(d, &submitted) || !only_held(d, &first)) return 0;
  if (d->may_run_inline && !submitted) return 1;
  return only_held(d, &second) && first == second && sd_free_tasks_over(d, &again) && again == submitted;
}

int sd_dispatcher_drain(sd_dispatcher *d, uint32_t participant, uint64_t slice_ns) {
  uint64_t start = sd_now(), slice = sd_clock_counts(slice_ns);
  int may_help = d->all_native && d->config.publisher_drains && participant != SD_NONE;
  for (uint32_t turn = 0;; turn++) {
    if (sd_dispatcher_stopping(d)) return SD_E_STOPPED;
    const int helped = may_help && sd_help(d, participant);
    /* The loads of the scan make the handlers' writes visible; the counters only say when a scan is worth its cost. Alarms that the feed's
     * time has passed are due, and their timers may publish or set further alarms. */
    if (!helped && (turn % 64 == 0 || sd_in_flight(d) == 0) && drained(d) && (!sd_timed(d) || !sd_overdue_sweep(d)))
      return SD_OK;
    if (sd_now() - start > slice) return SD_AGAIN;
    if (helped) continue;
    if (turn < 200 && !sd_held_back(d)) {
      sd_pause();
    } else {
#if defined(SD_MODEL_SCHEDULER)
      sd_pause();
#else
      nanosleep(&(struct timespec){0, 50000}, NULL);
#endif
    }
  }
}
