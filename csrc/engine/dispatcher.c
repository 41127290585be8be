/* The dispatcher from its making to its end: what it owns, its handlers, its stop; failures; strands that are held back;
 * and the wait until all is drained.
 */
#include "engine/dispatcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "emit/writer.h"
#include "memory/lines.h"
#include "numbering/failure.h"
#include "numbering/watermark.h"
#include "overdue/overdue.h"
#include "publish/publish.h"
#include "sd_error.h"
#include "worker/alarm.h"
#include "worker/worker.h"

static int good_config(const sd_config *c) {
  const sd_sizes *z = &c->sizes;
  if (c->idle < SD_IDLE_SPIN || c->idle > SD_IDLE_PARK) return 0;
  if (c->on_full < SD_BLOCK || c->on_full > SD_RAISE) return 0;
  if (c->on_error != SD_ON_ERROR_STOP && c->on_error != SD_ON_ERROR_QUARANTINE) return 0;
  if (!c->capacity || !c->budget_records || !c->budget_ns || !c->batch_records) return 0;
  if (c->batch_records > 1u << 16) return 0;
  /* Segments may rest in every participant's cache; a strand at its bound must still find its own. */
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
  d->strands = sd_space_at(space, a->strands);
  d->ready = (sd_ready){sd_space_at(space, a->lists), space->base};
  d->participants = sd_space_at(space, a->participants);
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
  d->tasks = (sd_task_pool){&a->task_list, sd_space_at(space, a->tasks)};
  d->last_number = sd_space_at(space, a->last_numbers);
  d->watermark_target = sd_space_at(space, a->watermark_targets);
  d->watermark_strand = sd_space_at(space, a->watermark_strands);
  d->n_workers = a->n_workers;
  d->n_participants = a->n_workers + a->n_publishers;
}

/* Memory that no other process has a use for. */
static int make_private(sd_dispatcher *d) {
  const uint64_t budget = d->config.budget_records;
  d->scratch = calloc(d->n_participants, sizeof *d->scratch);
  d->watches = calloc(d->n_participants, sizeof *d->watches);
  d->py_batches = calloc(d->n_participants, sizeof *d->py_batches);
  d->scratch_positions = calloc(d->n_participants, sizeof *d->scratch_positions);
  if (!d->scratch || !d->watches || !d->py_batches || !d->scratch_positions) return SD_E_NO_MEMORY;
  for (uint32_t i = 0; i < d->n_participants; i++) {
    d->scratch[i] = malloc(budget * d->arena->record_size);
    d->watches[i] = sd_lines(d->n_participants, sizeof **d->watches);
    if (!d->scratch[i] || !d->watches[i]) return SD_E_NO_MEMORY;
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
  d->policy = &sd_policy_fifo;
  d->budget_counts = sd_clock_counts(config->budget_ns);
  int code = sd_arena_create(space, config, &d->arena);
  /* Where publishers handle what they publish, few segments are used or none. */
  const uint64_t in_flight = (uint64_t)config->ahead_records + config->batch_records;
  if (!code) code = sd_arena_fill_segments(space, d->arena, in_flight, !config->one_core);
  if (!code) {
    sd_dispatcher_view(d);
    d->cache_cold = d->arena->n_symbols >= CACHE_COLD_SYMBOLS;
    /* Unless every strand can keep a segment beside those that rest in caches. */
    const uint32_t strands = d->arena->n_strands, segments = d->arena->n_segments;
    d->shed = strands > segments / 2 || strands + d->n_participants * 2 * SD_FREE_RUN >= segments;
    sd_dispatcher_settle(d);
    code = make_private(d);
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
  sd_outputs_destroy(d);
  for (uint32_t i = 0; d->scratch && i < d->n_participants; i++) free(d->scratch[i]);
  for (uint32_t i = 0; d->watches && i < d->n_participants; i++) free(d->watches[i]);
  for (uint32_t i = 0; d->scratch_positions && i < d->n_participants; i++) free(d->scratch_positions[i]);
  free(d->scratch);
  free(d->scratch_positions);
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
  d->all_native = d->may_run_inline = 1;
  for (uint32_t i = 0; i < d->arena->n_strands; i++) {
    uint16_t h = d->strands[i].handler;
    if (h >= n) return SD_E_ARGUMENT;
    if (!handlers[h].fn) d->all_native = 0;
    if (!handlers[h].fn || !handlers[h].never_publishes || h != d->strands[0].handler) d->may_run_inline = 0;
  }
  int code = sd_timers_connect(d);
  return code ? code : sd_outputs_connect(d);
}

void *sd_dispatcher_rows(sd_dispatcher *d, uint64_t *stride) {
  *stride = d->arena->row_stride;
  return d->rows;
}

/* ---- strands held back */

int sd_dispatcher_hold(sd_dispatcher *d, uint32_t strand, uint32_t why) {
  if (strand >= d->arena->n_strands || !why || (why & ~(uint32_t)SD_HELD)) return SD_E_ARGUMENT;
  sd_strand_hold(&d->strands[strand], why);
  return SD_OK;
}

int sd_dispatcher_resume(sd_dispatcher *d, uint32_t strand, uint32_t why) {
  if (strand >= d->arena->n_strands || !why || (why & ~(uint32_t)SD_HELD)) return SD_E_ARGUMENT;
  sd_strand *s = &d->strands[strand];
  if (sd_strand_resume(s, why)) {
    sd_make_ready(d, s->last, &strand, 1);
    sd_idle_wake_one(&d->arena->idle);
  }
  return SD_OK;
}

/* ---- at rest? */

/* Nothing left but on strands whose token is set aside. *seen: what the strands had accepted when each was looked at. */
static int only_held(sd_dispatcher *d, uint64_t *seen) {
  *seen = 0;
  for (uint32_t i = 0; i < d->arena->n_strands; i++) {
    sd_strand *s = &d->strands[i];
    /* A1: acquire; pairs with S1, P2 and W4: what was done before is seen by who is told that all is drained. */
    if (sd_load(&s->pending, acquire, A1) == 0) *seen += sd_peek(&s->accepted);
    else if (sd_load(&s->control, acquire, A1) & SD_SET_ASIDE) *seen += (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    else return 0;
  }
  return 1;
}

/* One look at each strand in turn is not enough where handlers, or tasks, publish: one may have put records on a strand
 * looked at before, and be done by the time its own is looked at. Two looks in a row that find nothing, and nothing
 * accepted between them, show that there was nothing at the end of the first. */
static int drained(sd_dispatcher *d) {
  uint64_t first, second;
  if (!only_held(d, &first)) return 0;
  return (d->may_run_inline && !sd_tasks_used(&d->tasks)) || (only_held(d, &second) && first == second);
}

int sd_dispatcher_drain(sd_dispatcher *d, uint32_t participant, uint64_t slice_ns) {
  uint64_t start = sd_now(), slice = sd_clock_counts(slice_ns);
  int may_help = d->all_native && d->config.publisher_drains && participant != SD_NONE;
  for (uint32_t turn = 0;; turn++) {
    if (sd_dispatcher_stopping(d)) return SD_E_STOPPED;
    const int helped = may_help && sd_help(d, participant);
    /* The scan is what shows the handlers' writes; the counters only say when it is worth while. What the feed's time has passed
     * is due, and may ask for more. */
    if (!helped && (turn % 64 == 0 || sd_in_flight(d) == 0) && drained(d) && (!sd_timed(d) || !sd_overdue_sweep(d)))
      return SD_OK;
    if (sd_now() - start > slice) return SD_AGAIN;
    if (helped) continue;
    if (turn < 200) {
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
