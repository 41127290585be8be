#include "sd_dispatcher.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sd_clock.h"
#include "sd_error.h"
#include "sd_timer.h"

static int good_config(const sd_config *c) {
  const sd_sizes *z = &c->sizes;
  if (c->idle < SD_IDLE_SPIN || c->idle > SD_IDLE_PARK) return 0;
  if (c->on_full < SD_BLOCK || c->on_full > SD_RAISE) return 0;
  if (c->on_error != SD_ON_ERROR_STOP && c->on_error != SD_ON_ERROR_QUARANTINE) return 0;
  if (!c->capacity || !c->quantum_records || !c->quantum_ns || !c->batch_records) return 0;
  if (c->batch_records > 1u << 16) return 0;
  /* Blocks may rest in every slot's cache; a strand at its bound must still find its own. */
  uint64_t in_caches = (uint64_t)(z->n_workers + z->n_publishers) * 2 * SD_FREE_RUN;
  return z->n_blocks > in_caches;
}

static void settle_strands(sd_dispatcher *d) {
  d->lossy = d->config.on_full == SD_DROP_OLDEST || d->config.on_full == SD_CONFLATE;
  for (uint32_t i = 0; i < d->arena->n_strands; i++) {
    d->strands[i].capacity = d->config.capacity;
    d->strands[i].on_full = (uint8_t)d->config.on_full;
    d->strands[i].lossy = (uint8_t)d->lossy;
  }
}

int sd_dispatcher_create(const sd_config *config, sd_dispatcher **out) {
  *out = NULL;
  if (!good_config(config)) return SD_E_ARGUMENT;
  sd_clock_init();
  sd_dispatcher *d = calloc(1, sizeof *d);
  if (!d) return SD_E_NO_MEMORY;
  d->fd = -1;
  int code = sd_arena_create(&config->sizes, config->shared, &d->arena, &d->fd);
  if (code) {
    free(d);
    return code;
  }
  sd_arena *a = d->arena;
  d->config = *config;
  d->strands = sd_arena_at(a, a->strands);
  d->lists = sd_arena_at(a, a->lists);
  d->slots = sd_arena_at(a, a->slots);
  d->map = sd_arena_at(a, a->map);
  d->rows = sd_arena_at(a, a->rows);
  d->pool = (sd_pool){&a->free_list,  sd_arena_at(a, a->stack), sd_arena_at(a, a->blocks),
                      a->block_bytes, a->record_size,           a->block_records,
                      a->marks_at};
  d->tasks = (sd_task_pool){&a->task_list, sd_arena_at(a, a->tasks)};
  d->policy = &sd_policy_fifo;
  d->n_workers = a->n_workers;
  d->n_slots = a->n_workers + a->n_publishers;
  d->quantum_counts = sd_clock_counts(config->quantum_ns);
  /* Unless every strand can keep a block beside those that rest in caches. */
  d->shed = a->n_strands > a->n_blocks / 2 || a->n_strands + d->n_slots * 2 * SD_FREE_RUN >= a->n_blocks;
  settle_strands(d);
  d->scratch = calloc(d->n_slots, sizeof *d->scratch);
  d->watches = calloc(d->n_slots, sizeof *d->watches);
  d->claimed = calloc(d->n_slots, sizeof *d->claimed);
  d->scratch_marks = calloc(d->n_slots, sizeof *d->scratch_marks);
  d->last_number = calloc(a->n_strands, sizeof *d->last_number);
  d->watermark_target = calloc(a->n_strands, sizeof *d->watermark_target);
  d->watermark_strand = calloc(a->n_strands, sizeof *d->watermark_strand);
  d->watermark = d->watermark_next = config->sizes.counters_start;
  code = d->scratch && d->watches && d->claimed && d->scratch_marks && d->last_number && d->watermark_target &&
                 d->watermark_strand
             ? sd_publishers_create(d)
             : SD_E_NO_MEMORY;
  for (uint32_t i = 0; !code && i < d->n_slots; i++) {
    d->scratch[i] = malloc((size_t)config->quantum_records * a->record_size);
    d->watches[i] = calloc(d->n_slots, sizeof **d->watches);
    if (!d->scratch[i] || !d->watches[i]) code = SD_E_NO_MEMORY;
    if (!config->sizes.marked) continue;
    d->scratch_marks[i] = malloc((size_t)config->quantum_records * sizeof **d->scratch_marks);
    if (!d->scratch_marks[i]) code = SD_E_NO_MEMORY;
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
  sd_timers_destroy(d);
  for (uint32_t i = 0; d->scratch && i < d->n_slots; i++) free(d->scratch[i]);
  for (uint32_t i = 0; d->watches && i < d->n_slots; i++) free(d->watches[i]);
  for (uint32_t i = 0; d->scratch_marks && i < d->n_slots; i++) free(d->scratch_marks[i]);
  free(d->scratch);
  free(d->scratch_marks);
  free(d->claimed);
  free(d->last_number);
  free(d->watches);
  free(d->watermark_target);
  free(d->watermark_strand);
  free(d->strand_time);
  free(d->handlers);
  sd_arena_destroy(d->arena, d->fd);
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
  d->all_native = d->one_pure = 1;
  for (uint32_t i = 0; i < d->arena->n_strands; i++) {
    uint16_t h = d->strands[i].handler;
    if (h >= n) return SD_E_ARGUMENT;
    if (!handlers[h].fn) d->all_native = 0;
    if (!handlers[h].fn || !handlers[h].pure || h != d->strands[0].handler) d->one_pure = 0;
  }
  int code = sd_timers_connect(d);
  return code ? code : sd_outputs_connect(d);
}

uint64_t sd_dispatcher_bytes(const sd_dispatcher *d) { return d->arena->bytes; }

void *sd_dispatcher_rows(sd_dispatcher *d, uint64_t *stride) {
  *stride = d->arena->row_stride;
  return d->rows;
}

void sd_dispatcher_stop(sd_dispatcher *d) {
  /* T1: release; pairs with T2. The wake-up that follows (I7) reaches workers that looked before. */
  sd_store(&d->arena->stopping, 1u, release, T1);
  sd_idle_wake_all(&d->arena->idle);
}

int sd_dispatcher_stopping(sd_dispatcher *d) {
  /* T2: acquire; pairs with T1: what was reported before the stop is seen. */
  return sd_load(&d->arena->stopping, acquire, T2) != 0;
}

static uint64_t finished(sd_strand *s) {
  /* M6: acquire; pairs with M7: what the handlers of the records counted emitted may be read. */
  return sd_load(&s->handled, acquire, M6) + sd_load(&s->failed, acquire, M6) + sd_load(&s->lost, acquire, M6);
}

static void fail(sd_dispatcher *d, uint32_t slot, uint32_t strand, uint32_t key, uint64_t sequence, int32_t code,
                 const char *message) {
  sd_arena *a = d->arena;
  sd_lock(&a->failures_lock);
  /* C1 */
  uint32_t n = sd_load(&a->failures, relaxed, C1);
  if (n < SD_ERRORS) {
    sd_failure *f = &a->failure[n];
    memset(f, 0, sizeof *f);
    f->strand = strand;
    f->handler = d->strands[strand].handler;
    f->slot = slot;
    f->code = code;
    f->key = key;
    f->sequence = sequence;
    snprintf(f->message, sizeof f->message, "%s", message ? message : "");
  }
  /* F1: release; pairs with F2: a failure that is counted is filled in. */
  sd_store(&a->failures, n + 1, release, F1);
  sd_unlock(&a->failures_lock);
  sd_strand_hold(&d->strands[strand], SD_QUARANTINED);
  if (d->config.on_error == SD_ON_ERROR_STOP) sd_dispatcher_stop(d);
}

void sd_fail(sd_dispatcher *d, uint32_t slot, uint32_t strand, const unsigned char *record, int64_t before,
             int32_t code, const char *message) {
  const sd_arena *a = d->arena;
  uint32_t key = SD_NONE;
  uint64_t sequence = 0;
  if (record) {
    memcpy(&key, record + a->key_offset, sizeof key);
    if (a->sequence_offset != SD_NONE) memcpy(&sequence, record + a->sequence_offset, sizeof sequence);
    else sequence = finished(&d->strands[strand]) - d->config.sizes.counters_start + (uint64_t)before;
  }
  fail(d, slot, strand, key, sequence, code, message);
}

void sd_fail_symbol(sd_dispatcher *d, uint32_t slot, uint32_t strand, uint32_t key, uint64_t time, int at_end,
                    int32_t code, const char *message) {
  char text[SD_MESSAGE_BYTES];
  snprintf(text, sizeof text, "its %s at %llu ns%s%s", at_end ? "end" : "timer", (unsigned long long)time,
           message && *message ? ": " : "", message ? message : "");
  fail(d, slot, strand, key, finished(&d->strands[strand]) - d->config.sizes.counters_start, code, text);
}

int sd_failure_get(sd_dispatcher *d, uint32_t index, sd_failure *out) {
  /* F2: acquire; pairs with F1. */
  uint32_t n = sd_load(&d->arena->failures, acquire, F2);
  if (index >= n || index >= SD_ERRORS) return SD_AGAIN;
  *out = d->arena->failure[index];
  return SD_OK;
}

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

uint64_t sd_in_flight(sd_dispatcher *d) {
  uint64_t accepted = 0, gone = 0;
  for (uint32_t i = 0; i < d->n_slots; i++) {
    sd_counters *c = &d->slots[i].counters;
    gone += sd_peek(&c->handled) + sd_peek(&c->failed) + sd_peek(&c->lost);
    for (int why = 0; why < SD_PUBLISH_REASONS; why++) gone += sd_peek(&c->dropped[why]);
  }
  for (uint32_t i = 0; i < d->n_slots; i++) accepted += sd_peek(&d->slots[i].counters.accepted);
  /* Every counter starts at the same number. Read one after another, they may tell of different moments. */
  return (int64_t)(accepted - gone) < 0 ? 0 : accepted - gone;
}

/* Nothing left but on strands whose token is set aside. *seen: what the strands had accepted when each was looked at. */
static int only_held(sd_dispatcher *d, uint64_t *seen) {
  *seen = 0;
  for (uint32_t i = 0; i < d->arena->n_strands; i++) {
    sd_strand *s = &d->strands[i];
    /* A1: acquire; pairs with S1, P2 and W4: what was done before is seen by who is told that all is drained. */
    if (sd_load(&s->pending, acquire, A1) == 0) *seen += sd_peek(&s->accepted);
    else if (sd_load(&s->control, acquire, A1) & SD_ASIDE) *seen += (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    else return 0;
  }
  return 1;
}

/* One look at each strand in turn is not enough where handlers, or tasks, publish: one may have put records on a strand looked at before,
 * and be done by the time its own is looked at. Two looks in a row that find nothing, and nothing accepted between them, show
 * that there was nothing at the end of the first. */
static int drained(sd_dispatcher *d) {
  uint64_t first, second;
  if (!only_held(d, &first)) return 0;
  return (d->one_pure && !sd_tasks_used(&d->tasks)) || (only_held(d, &second) && first == second);
}

int sd_dispatcher_drain(sd_dispatcher *d, uint32_t slot, uint64_t slice_ns) {
  uint64_t start = sd_now(), slice = sd_clock_counts(slice_ns);
  int may_help = d->all_native && d->config.publisher_drains && slot != SD_NONE;
  for (uint32_t turn = 0;; turn++) {
    if (sd_dispatcher_stopping(d)) return SD_E_STOPPED;
    if (may_help && sd_help(d, slot)) continue;
    /* The scan is what shows the handlers' writes; the counters only say when it is worth while. */
    if ((turn % 64 == 0 || sd_in_flight(d) == 0) && drained(d)) {
      /* What the feed's time has passed is due, and may ask for more. */
      if (!sd_timed(d) || !sd_clock_sweep(d)) return SD_OK;
      continue;
    }
    if (sd_now() - start > slice) return SD_AGAIN;
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

/* ---- watermark
 *
 * Kept off the hot path: a round takes T, the lowest sequence that may still be unpublished, then notes for every strand
 * that has something pending how far its count of finished records has to go, and ends when all are there. Then everything
 * below T has been handled. Pending is read before the count, so a goal can be too far but never too near; a strand that is
 * seen empty has reached it in any case. */

int64_t sd_records_left(sd_dispatcher *d, sd_strand *s) {
  if (SD_LIKELY(!sd_strand_tasks(s))) return sd_load(&s->pending, acquire, A1);
  sd_lock(&s->publish_lock);
  int64_t left = sd_load(&s->pending, acquire, A1) - sd_task_count(&d->tasks, s);
  sd_unlock(&s->publish_lock);
  return left;
}

uint64_t sd_lowest_unpublished(sd_dispatcher *d, uint64_t *time) {
  sd_arena *a = d->arena;
  if (d->config.sizes.marked) sd_lock(&a->number_lock);
  /* M5: acquire; pairs with M4: who took a number below this is seen publishing (M1) or done. */
  uint64_t low = sd_load(&a->next_sequence, acquire, M5);
  *time = sd_load(&a->feed_time, relaxed, N1);
  if (d->config.sizes.marked) sd_unlock(&a->number_lock);
  for (uint32_t i = 0; i < d->n_slots; i++) {
    /* M2: acquire; pairs with M1. */
    uint64_t at = sd_load(&d->slots[i].publishing, acquire, M2), its;
    do {
      /* N2: acquire; a time of a later moment than the number's would bring the later number with it. */
      its = sd_load(&d->slots[i].published_time, acquire, N2);
      uint64_t again = sd_load(&d->slots[i].publishing, acquire, M2);
      if (again == at) break;
      at = again;
    } while (1);
    if (at == UINT64_MAX || (int64_t)(at - low) >= 0) continue;
    low = at;
    *time = its;
  }
  return low;
}

uint64_t sd_feed_time(sd_dispatcher *d) { return sd_load(&d->arena->feed_time, relaxed, N1); }

static void watermark_round(sd_dispatcher *d) {
  uint64_t time, low = sd_lowest_unpublished(d, &time);
  /* Who took its lower bound long ago may name one that has been passed. */
  if ((int64_t)(low - d->watermark) < 0) low = d->watermark, time = d->watermark_time;
  d->watermark_next = low;
  d->watermark_next_time = time;
  uint32_t n = 0;
  for (uint32_t i = 0; i < d->arena->n_strands; i++) {
    sd_strand *s = &d->strands[i];
    int64_t pending = sd_records_left(d, s);
    if (pending <= 0) continue;
    d->watermark_strand[n] = i;
    d->watermark_target[n++] = finished(s) + (uint64_t)pending;
  }
  d->watermark_left = n;
}

/* Crosses off the strands that have reached the round's goal; ends the round when that is all of them. */
static int watermark_reached(sd_dispatcher *d) {
  for (uint32_t i = 0; i < d->watermark_left;) {
    sd_strand *s = &d->strands[d->watermark_strand[i]];
    if (sd_records_left(d, s) <= 0 || (int64_t)(finished(s) - d->watermark_target[i]) >= 0) {
      uint32_t last = --d->watermark_left;
      d->watermark_strand[i] = d->watermark_strand[last];
      d->watermark_target[i] = d->watermark_target[last];
    } else {
      i++;
    }
  }
  if (d->watermark_left) return 0;
  d->watermark = d->watermark_next;
  d->watermark_time = d->watermark_next_time;
  return 1;
}

uint64_t sd_watermark(sd_dispatcher *d) {
  uint64_t time;
  return sd_watermark_time(d, &time);
}

uint64_t sd_watermark_time(sd_dispatcher *d, uint64_t *time) {
  sd_lock(&d->watermark_lock);
  /* An old round that ends now tells of an old moment: look afresh. */
  if (watermark_reached(d)) {
    watermark_round(d);
    watermark_reached(d);
  }
  uint64_t mark = d->watermark;
  *time = d->watermark_time;
  sd_unlock(&d->watermark_lock);
  return mark;
}

/* ---- looking on */

void sd_slot_counters(sd_dispatcher *d, uint32_t slot, uint64_t *out) {
  sd_counters *c = &d->slots[slot].counters;
  sd_a64 *fields[SD_COUNTER_FIELDS] = {&c->accepted,   &c->handled,    &c->failed,     &c->dropped[0],
                                       &c->dropped[1], &c->dropped[2], &c->dropped[3], &c->lost,
                                       &c->visits,     &c->claimed,    &c->stolen,     &c->cut,
                                       &c->busy,       &c->parks,      &c->wakes,      &c->waited};
  for (int i = 0; i < SD_COUNTER_FIELDS; i++) out[i] = sd_peek(fields[i]);
  out[12] = sd_clock_ns(out[12]);
  out[15] = sd_clock_ns(out[15]);
}

void sd_dispatcher_totals(sd_dispatcher *d, sd_totals *t) {
  memset(t, 0, sizeof *t);
  const uint64_t base = d->config.sizes.counters_start;
  /* What is finished is read before what was accepted. */
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < d->n_slots; i++) {
      sd_counters *c = &d->slots[i].counters;
      if (pass) {
        t->accepted += sd_peek(&c->accepted) - base;
        continue;
      }
      t->handled += sd_peek(&c->handled) - base;
      t->failed += sd_peek(&c->failed);
      t->lost += sd_peek(&c->lost);
      for (int why = 0; why < SD_PUBLISH_REASONS; why++) t->dropped[why] += sd_peek(&c->dropped[why]);
      t->visits += sd_peek(&c->visits);
      t->claimed += sd_peek(&c->claimed);
      t->stolen += sd_peek(&c->stolen);
      t->cut += sd_peek(&c->cut);
      t->parks += sd_peek(&c->parks);
      t->wakes += sd_peek(&c->wakes);
    }
  }
  t->pending = t->accepted - t->handled - t->failed - t->lost;
  for (int why = 0; why < SD_PUBLISH_REASONS; why++) t->pending -= t->dropped[why];
  /* A reader without locks may see a count of finished records before the count that accepted them: what is finished has
   * been accepted. */
  if ((int64_t)t->pending < 0) {
    t->accepted -= t->pending;
    t->pending = 0;
  }
  t->failures = sd_load(&d->arena->failures, acquire, F2);
  sd_free_list *list = &d->arena->free_list;
  sd_lock(&list->lock);
  t->blocks_used = list->unused - list->runs * SD_FREE_RUN;
  sd_unlock(&list->lock);
  t->watermark_sequence = sd_load(&d->arena->next_sequence, acquire, M5);
}

void sd_histogram_sum(sd_dispatcher *d, int which, uint64_t *counts) {
  memset(counts, 0, SD_BUCKETS * sizeof *counts);
  for (uint32_t i = 0; i < d->n_slots; i++) {
    sd_counters *c = &d->slots[i].counters;
    sd_histogram *h = which == SD_WAIT ? &c->wait : which == SD_HANDLER_TIME ? &c->handler : &c->end_to_end;
    for (int b = 0; b < SD_BUCKETS; b++) counts[b] += sd_peek(&h->bucket[b]);
  }
}

void sd_bucket_floors(double *ns) {
  sd_clock_init();
  for (unsigned b = 0; b < SD_BUCKETS; b++) ns[b] = (double)sd_bucket_floor(b) * sd_the_clock.ns_per_count;
}

int sd_strand_look(sd_dispatcher *d, uint32_t strand, sd_look *out) {
  if (strand >= d->arena->n_strands) return SD_E_ARGUMENT;
  sd_strand *s = &d->strands[strand];
  out->pending = sd_load(&s->pending, acquire, A1);
  out->owner = sd_load(&s->owner, relaxed, C2);
  out->handled = sd_peek(&s->handled) - d->config.sizes.counters_start;
  out->failed = sd_load(&s->failed, relaxed, C2);
  out->lost = sd_load(&s->lost, relaxed, C2);
  for (int why = 0; why < SD_PUBLISH_REASONS; why++) out->dropped[why] = sd_peek(&s->dropped[why]);
  out->accepted = sd_peek(&s->accepted) - d->config.sizes.counters_start;
  out->control = sd_load(&s->control, relaxed, C2);
  out->capacity = s->capacity;
  out->tasks = 0;
  if (sd_strand_tasks(s)) {
    sd_lock(&s->publish_lock);
    out->tasks = sd_task_count(&d->tasks, s);
    /* A1 */
    out->pending = sd_load(&s->pending, acquire, A1) - out->tasks;
    sd_unlock(&s->publish_lock);
  }
  return SD_OK;
}

int sd_dispatcher_time_strands(sd_dispatcher *d) {
  if (!d->strand_time) d->strand_time = calloc(d->arena->n_strands, sizeof *d->strand_time);
  return d->strand_time ? SD_OK : SD_E_NO_MEMORY;
}

void sd_strand_times(sd_dispatcher *d, uint64_t *ns, uint64_t *records) {
  for (uint32_t i = 0; i < d->arena->n_strands; i++) {
    ns[i] = d->strand_time ? sd_clock_ns(sd_peek(&d->strand_time[i].counts)) : 0;
    records[i] = d->strand_time ? sd_peek(&d->strand_time[i].records) : 0;
  }
}

static int listed_times(sd_dispatcher *d, uint32_t *times) {
  for (uint32_t l = 0; l < d->n_slots; l++) {
    sd_list *list = &d->lists[l];
    sd_lock(&list->lock);
    for (uint32_t i = 0; i < sd_list_length(list); i++) {
      uint32_t strand = sd_list_peek(list, sd_ring(d, l), i);
      if (strand >= d->arena->n_strands) {
        sd_unlock(&list->lock);
        return SD_E_CORRUPT;
      }
      times[strand]++;
    }
    sd_unlock(&list->lock);
  }
  return SD_OK;
}

static const char *wrong_with(const sd_look *k, uint32_t listed) {
  uint64_t dropped = k->dropped[0] + k->dropped[1] + k->dropped[2] + k->dropped[3];
  if (k->owner) return "owned although nothing runs";
  if (k->pending < 0) return "pending is negative";
  if (k->accepted != k->handled + k->failed + k->lost + dropped + (uint64_t)k->pending)
    return "accepted is not handled + dropped + pending";
  uint32_t places = listed + ((k->control & SD_ASIDE) != 0);
  if (k->pending + k->tasks && places != 1) return places ? "its token is in more than one place" : "its token is lost";
  if (!(k->pending + k->tasks) && places) return "listed although nothing is pending";
  return NULL;
}

int sd_dispatcher_check(sd_dispatcher *d, uint32_t *strand, char *what) {
  uint32_t *listed = calloc(d->arena->n_strands, sizeof *listed);
  if (!listed) return SD_E_NO_MEMORY;
  *strand = SD_NONE;
  int code = listed_times(d, listed);
  if (code) snprintf(what, 128, "a list names a strand that does not exist");
  for (uint32_t i = 0; !code && i < d->arena->n_strands; i++) {
    sd_look look;
    sd_strand_look(d, i, &look);
    const char *wrong = wrong_with(&look, listed[i]);
    if (!wrong) continue;
    snprintf(what, 128, "%s", wrong);
    *strand = i;
    code = SD_E_CORRUPT;
  }
  free(listed);
  return code;
}
