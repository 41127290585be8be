/* Publishers: a call's records go out chunk by chunk, and what finds no space waits, is dropped or refused.
 *
 * There are two ways. The publisher chooses by what each costs here and now (publish/cost_model.c):
 *   enqueue  copy the records into their strands' segments, and let workers drain them (publish/chunk.c, publish/one_by_one.c);
 *   inline   own the records' idle strands and run the handler over them (publish/inline.c). */
#include "publish/publish.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "emit/writer.h"
#include "memory/lines.h"
#include "numbering/failure.h"
#include "numbering/positions.h"
#include "numbering/watermark.h"
#include "publish/chunk.h"
#include "publish/cost_model.h"
#include "publish/in_blocks.h"
#include "publish/inline.h"
#include "publish/one_by_one.h"
#include "sd_error.h"
#include "worker/overdue.h"
#include "worker/worker.h"

#if defined(SD_MODEL_SCHEDULER)
enum { PAUSES = 1, PATIENCE_NS = 50, LONG_PATIENCE_NS = 50 };
#else
enum {
  NAP_NS = 50000,
  PAUSES = 16,
  PATIENCE_NS = 50000,       /* how long to wait for workers that look for something to do */
  LONG_PATIENCE_NS = 2000000 /* and for one that is in a visit, which is counted only when it ends */
};
#endif

/* One per participant for handlers that publish, then one per publisher's participant for its own calls: a publisher that runs a handler
 * in the middle of a call needs both. */
static uint32_t how_many(const sd_dispatcher *d) { return 2 * d->n_participants - d->n_workers; }

static sd_publisher *publisher_of(sd_dispatcher *d, uint32_t participant, int nested) {
  return d->publishers[nested ? participant : d->n_participants + participant - d->n_workers];
}

int sd_publishers_create(sd_dispatcher *d) {
  const uint32_t n = how_many(d), batch = d->config.batch_records, strands = d->arena->n_strands;
  d->publishers = calloc(n, sizeof *d->publishers);
  if (!d->publishers) return SD_E_NO_MEMORY;
  for (uint32_t i = 0; i < n; i++) {
    sd_publisher *p = d->publishers[i] = sd_lines(1, sizeof *p);
    if (!p) return SD_E_NO_MEMORY;
    p->nested = i < d->n_participants;
    p->one_core = d->config.one_core;
    /* An inline run covers more records than a chunk has. */
    p->max_groups = p->nested || strands < batch ? batch : strands;
    if (p->max_groups > SD_MAX_GROUPS) p->max_groups = SD_MAX_GROUPS;
    p->group_of = calloc(strands, sizeof *p->group_of);
    /* These are written before they are read, so most of their pages never get memory. */
    p->in_group = malloc(batch * sizeof *p->in_group);
    p->keys = malloc(batch * sizeof *p->keys);
    p->repeat_groups = malloc((batch / SD_REPEAT_RECORDS + 1) * sizeof *p->repeat_groups);
    p->order = malloc(batch * sizeof *p->order);
    p->waiting = malloc(p->max_groups * sizeof *p->waiting);
    p->groups = calloc((size_t)p->max_groups + 1, sizeof *p->groups);
    if (d->config.sizes.has_positions) {
      p->positions = calloc(batch < SD_SLICE ? SD_SLICE : batch, sizeof *p->positions);
      if (!p->positions) return SD_E_NO_MEMORY;
    }
    if (d->config.on_full == SD_CONFLATE && !sd_conflation_create(&p->conflation, d)) return SD_E_NO_MEMORY;
    p->chains = sd_lines(d->n_workers, sizeof *p->chains);
    if (!p->nested) p->copy = aligned_alloc(SD_LINE, SD_SLICE * (size_t)d->pool.record_size);
    if (!p->nested) p->of_key = calloc(d->arena->n_symbols, sizeof *p->of_key);
    if (!p->nested && (!p->copy || !p->of_key)) return SD_E_NO_MEMORY;
    if (!p->group_of || !p->in_group || !p->keys || !p->repeat_groups || !p->order || !p->groups || !p->waiting ||
        !p->chains)
      return SD_E_NO_MEMORY;
  }
  return SD_OK;
}

void sd_publishers_destroy(sd_dispatcher *d) {
  if (!d->publishers) return;
  for (uint32_t i = 0; i < how_many(d); i++) {
    sd_publisher *p = d->publishers[i];
    if (!p) continue;
    free(p->group_of);
    free(p->in_group);
    free(p->keys);
    free(p->copy);
    free(p->of_key);
    free(p->repeat_groups);
    free(p->order);
    free(p->groups);
    free(p->waiting);
    free(p->positions);
    sd_conflation_destroy(&p->conflation);
    free(p->chains);
    free(p);
  }
  free(d->publishers);
}

int64_t sd_publisher_enter(sd_dispatcher *d) {
  for (uint32_t participant = d->n_workers; participant < d->n_participants; participant++)
    if (sd_try_lock(&d->participants[participant].taken)) {
      sd_meter_forget(&d->participants[participant].meter);
      return participant;
    }
  return SD_AGAIN;
}

void sd_publisher_bound(sd_dispatcher *d, uint32_t participant, uint64_t low, uint64_t time) {
  sd_participant *s = &d->participants[participant];
  /* M1: release; pairs with M2: a reader of this bound sees that all records below it are counted. */
  sd_store(&s->publishing, low, release, M1);
  /* N2: release; pairs with N2 of the reader, and stays behind M1. A reader of this time then finds that the bound has moved, and reads
   * both again. The other way round it would combine an old bound with this time, and timers would fire before earlier records. */
  sd_store(&s->published_time, time, release, N2);
}

/* Everything numbered before has been enqueued: the watermark may pass it in the middle of a call. */
static void progress(sd_dispatcher *d, uint32_t participant, sd_publisher *p, uint64_t n) {
  if (p->within) return;
  sd_publisher_bound(d, participant, p->number + n + d->config.sizes.counters_start, p->end_time);
  sd_overdue_scan_where_due(d, p->end_time, 0);
}

/* ---- the call */

static void nap(void) {
#if defined(SD_MODEL_SCHEDULER)
  sd_pause();
#else
  nanosleep(&(struct timespec){0, NAP_NS}, NULL);
#endif
}

/* C2: relaxed; a hint. */
static int anyone_in_a_visit(sd_dispatcher *d) {
  for (uint32_t participant = 0; participant < d->n_workers; participant++)
    if (!sd_load(&d->participants[participant].looking, relaxed, C2)) return 1;
  return 0;
}

/* Called when the publisher is ahead of the workers: it drains with them until it is not. If nothing is ready it waits, as long as they
 * make progress: what it enqueued meanwhile would go to strands that have enough, up to their bound, and would cost more there. Slow
 * handlers, and strands that are paused or quarantined, make no progress: then it publishes. */
static void help_while_ahead(sd_dispatcher *d, uint32_t participant, sd_publisher *p) {
  if (!d->all_native || !d->config.publisher_drains || p->nested || p->since_look < d->config.batch_records) return;
  p->since_look = 0;
  if (sd_in_flight(d) <= d->config.ahead_records) return;
  uint64_t start = sd_now(), since = start, minimum = UINT64_MAX, handled = 0;
  for (int turn = 1; !sd_dispatcher_stopping(d); turn++) {
    int helped = sd_help(d, participant);
    if (helped && turn % 4 != 0) continue;
    if (!helped && sd_held_back(d)) break;
    uint64_t left = sd_in_flight(d);
    if (left <= d->config.ahead_records) break;
    /* C1. A visit that fires timers may handle no record. */
    const uint64_t now_handled = sd_load(&d->participants[participant].counters.handled, relaxed, C1);
    if (helped && now_handled != handled) {
      handled = now_handled;
      continue;
    }
    if (left < minimum) {
      minimum = left;
      since = sd_now();
    } else if (sd_now() - since > sd_clock_counts(anyone_in_a_visit(d) ? LONG_PATIENCE_NS : PATIENCE_NS)) {
      break;
    }
    for (int i = 0; i < PAUSES && !helped; i++) sd_pause();
  }
  sd_bump(&d->participants[participant].counters.waited, sd_now() - start);
}

/* Waits for space: helps to drain, or naps. SD_AGAIN: the slice is over. */
static int wait_for_space(sd_dispatcher *d, uint32_t participant, sd_publisher *p, uint64_t slice_ns) {
  uint64_t start = sd_now(), slice = sd_clock_counts(slice_ns);
  int code = SD_OK;
  for (uint32_t turn = 0; p->n_waiting; turn++) {
    if (sd_dispatcher_stopping(d)) {
      code = SD_E_STOPPED;
      break;
    }
    if (sd_enqueue_waiting(d, participant, p)) continue;
    const int helped = d->all_native && d->config.publisher_drains && sd_help(d, participant);
    if (sd_now() - start > slice) {
      code = SD_AGAIN;
      break;
    }
    if (helped) continue;
    if (turn < 1000 && !sd_held_back(d)) sd_pause();
    else nap();
  }
  sd_bump(&d->participants[participant].counters.waited, sd_now() - start);
  return code;
}

/* Enqueues the next chunk. SD_E_KEY: its first record's key is out of range. */
static int enqueue_chunk(sd_dispatcher *d, uint32_t participant, sd_publisher *p) {
  uint64_t start = sd_now();
  help_while_ahead(d, participant, p);
  int64_t left = p->n - p->at, maximum = d->config.batch_records;
  if (maximum > p->max_groups) maximum = p->max_groups;
  sd_enqueue_chunk(d, participant, p, left < maximum ? left : maximum);
  /* After a bad key: what comes before it goes in. The next turn finds it at the front. */
  if (SD_UNLIKELY(p->chunk == 0)) return SD_E_KEY;
  p->since_look += (uint64_t)p->chunk;
  sd_learn_enqueueing(p, sd_now() - start, p->chunk);
  return SD_OK;
}

static int finish_chunk(sd_dispatcher *d, uint32_t participant, sd_publisher *p, uint64_t slice_ns) {
  if (SD_UNLIKELY(p->n_waiting)) {
    if (d->config.on_full == SD_RAISE) return SD_E_FULL;
    if (p->nested) return SD_E_WOULD_DEADLOCK;
    int code = wait_for_space(d, participant, p, slice_ns);
    if (code) return code;
  }
  if (p->positions && !p->given) progress(d, participant, p, (uint64_t)p->chunk);
  p->at += p->chunk;
  p->chunk = 0;
  return SD_OK;
}

/* Records that the call did not put in were counted as accepted when their chunk began: takes them out again. */
static void refuse(sd_dispatcher *d, uint32_t participant, sd_publisher *p) {
  uint64_t waiting = 0;
  for (uint32_t i = 0; i < p->n_waiting; i++) waiting += p->waiting[i].to - p->waiting[i].from;
  sd_bump(&d->participants[participant].counters.accepted, 0 - waiting);
}

/* Ends the call, whether or not everything went in. */
static void end_call(sd_dispatcher *d, uint32_t participant, sd_publisher *p) {
  if (SD_UNLIKELY(p->n_waiting)) refuse(d, participant, p);
  p->open = 0;
  /* M1: release; pairs with M2: a thread that no longer sees this publisher at work sees its records counted. If a handler publishes in
   * the middle of its participant's own call, that call's number still covers what it publishes. */
  if (p->within) return;
  sd_store(&d->participants[participant].publishing, sd_not_publishing(d), release, M1);
  /* The feed's time may have moved on meanwhile, and whoever moved it left timers to this publisher's bound. A merger looks again. */
  if (p->positions && !d->outputs) sd_overdue_scan_after(d);
}

void sd_publisher_leave(sd_dispatcher *d, uint32_t participant) {
  sd_publisher *p = publisher_of(d, participant, 0);
  /* The caller gave the call up while it waited for space. */
  if (SD_UNLIKELY(p->open)) end_call(d, participant, p);
  sd_unlock(&d->participants[participant].taken);
}

void sd_publisher_take(sd_dispatcher *d, int64_t *participant) {
  if (*participant < 0) *participant = sd_publisher_enter(d);
}

void sd_publisher_give(sd_dispatcher *d, int64_t *participant) {
  if (*participant < 0) return;
  sd_publisher_leave(d, (uint32_t)*participant);
  *participant = SD_AGAIN;
}

/* A lower bound of what this publisher will number from here on, and the feed's time at the same moment. */
static void bound_with_positions(sd_dispatcher *d, uint32_t participant, sd_publisher *p) {
  sd_arena *a = d->arena;
  if (p->within) return;
  sd_lock(&a->number_lock);
  sd_publisher_bound(d, participant, sd_load(&a->next_sequence, acquire, M3), sd_load(&a->feed_time, relaxed, N1));
  sd_unlock(&a->number_lock);
}

/* The same after records that were numbered elsewhere: the watermark may pass them. */
static void pass_all(sd_dispatcher *d, uint32_t participant, sd_publisher *p) {
  bound_with_positions(d, participant, p);
  sd_overdue_scan_where_due(d, sd_feed_time(d), 0);
}

void sd_publish_time(sd_dispatcher *d, uint64_t time) {
  if (!d->config.sizes.has_positions) return;
  const sd_position now = sd_numbers_begin(d);
  /* N1: relaxed; for publishers that give numbers back. */
  if (sd_load(&d->arena->moved_to, relaxed, N1) < time) sd_store(&d->arena->moved_to, time, relaxed, N1);
  sd_numbers_end(d, 0, (uint64_t)now.time > time ? (uint64_t)now.time : time);
  sd_overdue_scan_after(d);
}

/* Waits until the merger has space for what handlers emit. Helps to drain, because the merger waits for what is pending. */
static int wait_for_merger(sd_dispatcher *d, uint32_t participant, sd_publisher *p, uint64_t slice_ns) {
  uint64_t start = sd_now(), slice = sd_clock_counts(slice_ns);
  int code = SD_OK;
  while (code == SD_OK && sd_outputs_full(d)) {
    /* Everything that this publisher numbered has been enqueued. With its old bound, the watermark would stop before what others numbered
     * since. */
    bound_with_positions(d, participant, p);
    if (sd_dispatcher_stopping(d)) code = SD_E_STOPPED;
    else if (sd_now() - start > slice) code = SD_AGAIN;
    else if (!d->all_native || !d->config.publisher_drains || !sd_help(d, participant)) nap();
  }
  sd_bump(&d->participants[participant].counters.waited, sd_now() - start);
  return code;
}

/* Takes up what is left of the call, after what blocks kept back. */
static void take_up(sd_dispatcher *d, uint32_t participant, sd_publisher *p) {
  if (p->given) pass_all(d, participant, p);
  p->given = NULL;
  p->records = p->after;
  p->n = p->n_after;
  p->at = p->at_after;
  p->after = NULL;
}

static int go_on(sd_dispatcher *d, uint32_t participant, sd_publisher *p, uint64_t slice_ns) {
  int code = SD_OK;
  uint64_t start = sd_now(); /* the end of the last chunk: waiting for its space is a cost of publishing too */
  while (p->n_waiting || p->at < p->n || p->after) {
    if (SD_UNLIKELY(p->after) && !p->n_waiting && p->at == p->n) {
      take_up(d, participant, p);
      continue;
    }
    if (p->n_waiting == 0) {
      if (sd_dispatcher_stopping(d)) {
        code = SD_E_STOPPED;
        break;
      }
      if (SD_UNLIKELY(sd_outputs_full(d)) && !p->nested && !p->given) {
        code = wait_for_merger(d, participant, p, slice_ns);
        if (code) break;
      }
      if (SD_UNLIKELY(sd_publish_in_blocks(d, participant, p))) {
        if (p->positions && !p->given) pass_all(d, participant, p);
        start = sd_now();
        continue;
      }
      int64_t maximum = p->given ? 0 : sd_records_inline(d, p),
              handled = maximum ? sd_publish_inline(d, participant, p, maximum) : 0;
      p->at += handled;
      if (handled && p->positions) progress(d, participant, p, p->numbered);
      if (!handled) {
        code = enqueue_chunk(d, participant, p);
        if (code) break;
      }
      /* What is too short for blocks says nothing of their cost. */
      if (d->blocks && !p->in_blocks.blocks) {
        const uint64_t now = sd_now();
        sd_choice_learn(&p->in_blocks, d, now - start, (uint64_t)(handled ? handled : p->chunk), 1);
        start = now;
      }
      if (handled) continue;
    }
    code = finish_chunk(d, participant, p, slice_ns);
    if (code) break;
  }
  if (code == SD_OK && p->given) pass_all(d, participant, p);
  if (code != SD_AGAIN) end_call(d, participant, p);
  return code;
}

/* Announces that the call is at work, before it takes any of its numbers. */
static void announce(sd_dispatcher *d, uint32_t participant, sd_publisher *p) {
  sd_a64 *publishing = &d->participants[participant].publishing;
  p->within = p->nested && sd_load(publishing, relaxed, M1) != sd_not_publishing(d);
  if (p->positions) {
    bound_with_positions(d, participant, p);
    return;
  }
  /* M3: acquire; a lower bound of what this call will publish. M4: acq_rel; sequenced after M1's store, so a thread that reads a number
   * beyond this call's (M2) also sees it at work. */
  uint64_t low = sd_load(&d->arena->next_sequence, acquire, M3);
  if (!p->within) sd_store(publishing, low, relaxed, M1);
  sd_fetch_add(&d->arena->next_sequence, (uint64_t)p->n, acq_rel, M4);
}

static int begin(sd_dispatcher *d, uint32_t participant, sd_publisher *p, const void *records, int64_t n,
                 uint64_t slice_ns) {
  p->records = records;
  p->n = n;
  sd_learn_length(p, n);
  p->at = p->chunk = 0;
  p->n_waiting = 0;
  p->after = NULL;
  if (n == 0) return SD_OK;
  p->open = 1;
  announce(d, participant, p);
  return go_on(d, participant, p, slice_ns);
}

static int publish(sd_dispatcher *d, uint32_t participant, const void *records, int64_t n, uint64_t slice_ns, int own) {
  if (n < 0 || participant < d->n_workers || participant >= d->n_participants) return SD_E_ARGUMENT;
  sd_publisher *p = publisher_of(d, participant, 0);
  p->own = own;
  p->given = NULL;
  return begin(d, participant, p, records, n, slice_ns);
}

int sd_publish(sd_dispatcher *d, uint32_t participant, const void *records, int64_t n, uint64_t slice_ns) {
  return publish(d, participant, records, n, slice_ns, SD_ANYBODYS);
}

int sd_publish_constant(sd_dispatcher *d, uint32_t participant, const void *records, int64_t n, uint64_t slice_ns) {
  return publish(d, participant, records, n, slice_ns, SD_CONSTANT);
}

int sd_publish_own(sd_dispatcher *d, uint32_t participant, const void *records, int64_t n, uint64_t slice_ns) {
  return publish(d, participant, records, n, slice_ns, SD_FEEDERS);
}

int sd_publish_blocks(sd_dispatcher *d, uint32_t participant, const sd_block_source *source, void *self,
                      uint64_t slice_ns, sd_blocks_done *done) {
  sd_publisher *p = publisher_of(d, participant, 0);
  *done = (sd_blocks_done){0};
  p->n = p->at = p->chunk = 0;
  p->n_waiting = 0;
  p->given = NULL;
  p->after = NULL;
  p->own = SD_FEEDERS;
  p->open = 1;
  /* Without positions the numbers are taken at the end, and until then the watermark stays before them. */
  announce(d, participant, p);
  int code = p->positions && sd_outputs_full(d) ? wait_for_merger(d, participant, p, slice_ns) : SD_OK;
  if (!code) code = sd_run_in_blocks(d, participant, source, self, slice_ns, done);
  if (!p->positions) sd_fetch_add(&d->arena->next_sequence, done->records + done->n_held, acq_rel, M4);
  if (done->n_held) {
    p->records = done->held;
    p->n = (int64_t)done->n_held;
    p->given = done->positions;
    return go_on(d, participant, p, slice_ns);
  }
  if (p->positions && done->records) pass_all(d, participant, p);
  end_call(d, participant, p);
  return code;
}

int sd_publish_more(sd_dispatcher *d, uint32_t participant, uint64_t slice_ns) {
  return go_on(d, participant, publisher_of(d, participant, 0), slice_ns);
}

/* Where record i lies in the call's records. */
static int64_t place_of(const uint64_t *places, int64_t i) { return places ? (int64_t)places[i] : i; }

int64_t sd_publish_rejected(sd_dispatcher *d, uint32_t participant, int nested, int64_t *positions, int64_t capacity) {
  sd_publisher *p = publisher_of(d, participant, nested);
  const uint64_t *places = p->after ? p->held_places : NULL;
  int64_t n = 0;
  for (uint32_t i = 0; i < p->n_waiting; i++)
    for (uint32_t j = p->waiting[i].from; j < p->waiting[i].to; j++, n++)
      if (positions && n < capacity) positions[n] = place_of(places, p->at + p->order[j]);
  for (int64_t i = p->at + p->chunk; i < p->n; i++, n++)
    if (positions && n < capacity) positions[n] = place_of(places, i);
  for (int64_t i = p->at_after; p->after && i < p->n_after; i++, n++)
    if (positions && n < capacity) positions[n] = i;
  return n;
}

int sd_publish_nested(sd_dispatcher *d, uint32_t participant, const void *records, int64_t n) {
  if (n < 0 || participant >= d->n_participants) return SD_E_ARGUMENT;
  return begin(d, participant, publisher_of(d, participant, 1), records, n, 0);
}

int sd_publish_from_handler(sd_context *ctx, const void *records, int64_t n, int64_t *accepted) {
  sd_dispatcher *d = ctx->engine;
  int code = sd_publish_nested(d, ctx->participant, records, n);
  *accepted = code == SD_E_ARGUMENT ? 0 : code ? n - sd_publish_rejected(d, ctx->participant, 1, NULL, 0) : n;
  return code;
}
