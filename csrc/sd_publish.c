/* Publishers: group a batch by strand, link each group, add it to pending once, list what became ready.
 *
 * Two ways, chosen by what they cost here and now (sd_publisher.claim_cost, queue_cost):
 *   queue   records are copied into their strands' blocks and workers drain them;
 *   claim   where running the handler costs less than handing the record to another core, the publisher takes the batch's
 *           idle strands by their publish locks and handles the records where they lie.
 * Order holds in both: a strand is claimed only when nothing of it is queued or in a worker's hands.
 */
#include "sd_clock.h"
#include "sd_error.h"
#include "sd_publisher.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(SD_MODEL_SCHEDULER)
enum {
  CLAIM_LEAST = 1,
  FIRST_CLAIMS = 1,
  FIRST_QUEUED = 1,
  PROBE_EVERY = 3,
  PROBE_RARE = 5,
  PROBE_CLAIMS = 1,
  PROBE_QUEUED = 1,
  SETTLE_NS = 20,
  NAP_NS = 50000
};
#else
enum {
  CLAIM_LEAST = 64,  /* records in a chunk before claiming is worth a thought */
  FIRST_CLAIMS = 4,  /* chunks claimed at the start, ... */
  FIRST_QUEUED = 8,  /* ... and queued after them, as trials */
  PROBE_EVERY = 128, /* chunks between two trials of the other way */
  PROBE_RARE = 4096, /* likewise where claiming is out of the question */
  PROBE_CLAIMS = 1,  /* chunks a trial lasts */
  PROBE_QUEUED = 6,
  SETTLE_NS = 100000,
  NAP_NS = 50000
};
#endif

/* One a slot for handlers that publish, then one a publisher's slot for its own calls: a publisher that runs a handler in the
 * middle of a call needs both. */
static uint32_t how_many(const sd_dispatcher *d) { return d->n_slots + d->arena->n_publishers; }

static sd_publisher *publisher_of(sd_dispatcher *d, uint32_t slot, int nested) {
  return d->publishers[nested ? slot : d->n_slots + slot - d->n_workers];
}

int sd_publishers_create(sd_dispatcher *d) {
  const uint32_t n = how_many(d), batch = d->config.batch_records;
  d->publishers = calloc(n, sizeof *d->publishers);
  if (!d->publishers) return SD_E_NO_MEMORY;
  for (uint32_t i = 0; i < n; i++) {
    sd_publisher *p = d->publishers[i] = calloc(1, sizeof *p);
    if (!p) return SD_E_NO_MEMORY;
    p->nested = i < d->n_slots;
    p->count = calloc(d->arena->n_strands, sizeof *p->count);
    p->strand = calloc(batch, sizeof *p->strand);
    p->order = calloc(batch, sizeof *p->order);
    p->groups = calloc(batch, sizeof *p->groups);
    p->late = calloc(batch, sizeof *p->late);
    p->chains = calloc(d->n_slots, sizeof *p->chains);
    if (!p->count || !p->strand || !p->order || !p->groups || !p->late || !p->chains) return SD_E_NO_MEMORY;
  }
  return SD_OK;
}

void sd_publishers_destroy(sd_dispatcher *d) {
  if (!d->publishers) return;
  for (uint32_t i = 0; i < how_many(d); i++) {
    sd_publisher *p = d->publishers[i];
    if (!p) continue;
    free(p->count);
    free(p->strand);
    free(p->order);
    free(p->groups);
    free(p->late);
    free(p->chains);
    free(p);
  }
  free(d->publishers);
}

int64_t sd_publisher_enter(sd_dispatcher *d) {
  for (uint32_t slot = d->n_workers; slot < d->n_slots; slot++)
    if (sd_try_lock(&d->slots[slot].taken)) return slot;
  return SD_AGAIN;
}

/* ---- a chunk */

/* Counts the chunk's records by strand and lists the strands in groups[]. Returns the position of the first key that is out
 * of range, else the chunk's length. Nothing is published yet. */
static int64_t count_strands(sd_dispatcher *d, sd_publisher *p, const unsigned char *records, int64_t n) {
  const uint32_t *map = d->map, symbols = d->arena->n_symbols;
  const size_t size = d->pool.record_size, key_offset = d->arena->key_offset;
  uint32_t *count = p->count, *strand = p->strand, groups = 0;
  const unsigned char *at = records + key_offset;
  int64_t i;
  for (i = 0; i < n; i++, at += size) {
    uint32_t key;
    memcpy(&key, at, sizeof key);
    if (SD_UNLIKELY(key >= symbols)) break;
    uint32_t s = map[key];
    strand[i] = s;
    if (count[s]++ == 0) p->groups[groups++].strand = s;
  }
  p->n_groups = groups;
  return i;
}

static void forget_counts(sd_publisher *p) {
  for (uint32_t i = 0; i < p->n_groups; i++) p->count[p->groups[i].strand] = 0;
  p->n_groups = 0;
}

static void unclaim(sd_dispatcher *d, sd_publisher *p, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++) sd_strand_unclaim(&d->strands[p->groups[i].strand]);
}

/* Handles the chunk where it lies, if every strand in it is idle. Returns how many records are dealt with: all, none, or
 * those up to and with the one the handler failed on. */
static int64_t claim_chunk(sd_dispatcher *d, uint32_t slot, sd_publisher *p) {
  const uint32_t n_groups = p->n_groups;
  for (uint32_t i = 0; i < n_groups; i++) {
    prefetch_publisher_line(d, p->groups, i + 8, n_groups);
    prefetch_token_line(d, p->groups, i + 8, n_groups);
    if (!sd_strand_claim(&d->strands[p->groups[i].strand], slot)) {
      unclaim(d, p, 0, i);
      return 0;
    }
  }
  const unsigned char *records = p->records + (size_t)p->at * d->pool.record_size;
  const sd_handler *handler = &d->handlers[d->strands[p->groups[0].strand].handler];
  sd_counters *c = &d->slots[slot].counters;
  sd_context ctx;
  sd_context_of(d, slot, handler, &ctx);
  uint64_t start = sd_now();
  int64_t done = sd_run_handler(d, handler, records, p->chunk, &ctx), failed = done < p->chunk;
  uint64_t took = sd_now() - start;
  if (SD_UNLIKELY(failed)) {
    /* Count anew what was dealt with; the rest of the chunk is queued by the caller. */
    uint32_t bad = p->strand[done];
    for (uint32_t i = 0; i < n_groups; i++) p->count[p->groups[i].strand] = 0;
    for (int64_t i = 0; i < done; i++) p->count[p->strand[i]]++;
    sd_strand *s = &d->strands[bad];
    sd_fail(d, slot, bad, records + (size_t)done * d->pool.record_size, p->count[bad], ctx.error_code, ctx.message);
    sd_bump(&s->accepted, 1);
    sd_store(&s->failed, sd_load(&s->failed, relaxed, C1) + 1, relaxed, C1);
    sd_bump(&c->failed, 1);
  }
  for (uint32_t i = 0; i < n_groups; i++) {
    sd_strand *s = &d->strands[p->groups[i].strand];
    uint32_t n = p->count[p->groups[i].strand];
    p->count[p->groups[i].strand] = 0;
    sd_bump(&s->accepted, n);
    sd_bump(&s->handled, n);
    sd_strand_unclaim(s);
  }
  p->n_groups = 0;
  sd_bump(&c->accepted, (uint64_t)(done + failed));
  sd_bump(&c->handled, (uint64_t)done);
  sd_bump(&c->claimed, (uint64_t)done);
  sd_bump(&c->visits, n_groups);
  sd_bump(&c->busy, took);
  sd_record(&c->wait, 0, (uint64_t)done);
  sd_record(&c->handler, took / (uint64_t)(done + failed), (uint64_t)done);
  sd_record(&c->end_to_end, took, (uint64_t)done);
  return done + failed;
}

/* ---- which way */

/* Above any cost. */
#define UNKNOWN 1e18

/* A cost is the mean of late, but no more than a third above a new sample: what was learnt while everything missed its cache
 * must not stand. */
static void learn(double *cost, uint64_t counts, int64_t n) {
  double now = (double)counts / (double)n;
  *cost = *cost == 0 || *cost > 1.33 * now ? now : *cost + (now - *cost) / 8;
}

/* Queueing looks dearer than it is just after claiming, while the lines that go back and forth find their places: so a trial
 * of it is longer, and claiming has to be clearly cheaper. */
static int claiming_pays(const sd_publisher *p) {
  return p->claim_cost > 0 && (p->queue_cost == 0 || p->claim_cost < 0.75 * p->queue_cost);
}

/* Whether to try claiming this chunk. Both ways are tried at the start (the very first chunk, all misses, teaches nothing),
 * then the better one is taken, and the other one for a moment now and then: rarely where a trial would cost much. */
static int choose(sd_dispatcher *d, sd_publisher *p) {
  if (!d->one_pure || !d->config.publisher_drains || p->nested || p->chunk < CLAIM_LEAST) return 0;
  uint32_t chunk = p->chunks++;
  if (chunk < FIRST_CLAIMS + FIRST_QUEUED) return chunk < FIRST_CLAIMS;
  if (claiming_pays(p)) return chunk % PROBE_EVERY >= PROBE_QUEUED;
  return chunk % (p->claim_cost > 3 * p->queue_cost ? PROBE_RARE : PROBE_EVERY) < PROBE_CLAIMS;
}

/* Waits, and helps, until strands that workers still have are idle again, so that they can be claimed: what handlers that
 * cost less than queueing leave to do is done in a moment. */
static void settle(sd_dispatcher *d, uint32_t slot) {
  uint64_t start = sd_now(), most = sd_clock_counts(SETTLE_NS);
  while (sd_help(d, slot) || sd_in_flight(d)) {
    if (sd_now() - start > most) break;
    sd_pause();
  }
  sd_bump(&d->slots[slot].counters.waited, sd_now() - start);
}

/* ---- the call */

/* The publisher is ahead of the workers: it drains with them until it is not, or until nothing is ready. */
static void help_while_ahead(sd_dispatcher *d, uint32_t slot, sd_publisher *p) {
  if (!d->all_native || !d->config.publisher_drains || p->nested || p->since_look < d->config.batch_records) return;
  p->since_look = 0;
  if (sd_in_flight(d) <= d->config.ahead_records) return;
  uint64_t start = sd_now();
  for (int visits = 1; sd_help(d, slot); visits++)
    if (visits % 4 == 0 && sd_in_flight(d) <= d->config.ahead_records) break;
  sd_bump(&d->slots[slot].counters.waited, sd_now() - start);
}

/* Waits for room: helps to drain, or naps. SD_AGAIN: the slice is over. */
static int wait_for_room(sd_dispatcher *d, uint32_t slot, sd_publisher *p, uint64_t slice_ns) {
  uint64_t start = sd_now(), slice = sd_clock_counts(slice_ns);
  int code = SD_OK;
  for (uint32_t turn = 0; p->n_left; turn++) {
    if (sd_dispatcher_stopping(d)) {
      code = SD_E_STOPPED;
      break;
    }
    if (sd_queue_left(d, slot, p)) continue;
    if (d->all_native && d->config.publisher_drains && sd_help(d, slot)) continue;
    if (sd_now() - start > slice) {
      code = SD_AGAIN;
      break;
    }
    if (turn < 1000) {
      sd_pause();
    } else {
#if defined(SD_MODEL_SCHEDULER)
      sd_pause();
#else
      nanosleep(&(struct timespec){0, NAP_NS}, NULL);
#endif
    }
  }
  sd_bump(&d->slots[slot].counters.waited, sd_now() - start);
  return code;
}

static int publish_chunk(sd_dispatcher *d, uint32_t slot, sd_publisher *p) {
  const unsigned char *records = p->records + (size_t)p->at * d->pool.record_size;
  int64_t left = p->n - p->at;
  p->chunk = left < d->config.batch_records ? left : d->config.batch_records;
  int claiming = choose(d, p);
  uint64_t start = sd_now();
  int64_t good = count_strands(d, p, records, p->chunk);
  if (SD_UNLIKELY(good < p->chunk)) {
    forget_counts(p);
    if (good == 0) {
      p->chunk = 0;
      return SD_E_KEY;
    }
    /* What comes before the bad key goes in; the next turn meets it at the front. */
    p->chunk = good;
    count_strands(d, p, records, good);
  }
  if (claiming) {
    int64_t done = claim_chunk(d, slot, p);
    if (done == 0) {
      settle(d, slot);
      start = sd_now();
      done = claim_chunk(d, slot, p);
    }
    if (done == p->chunk && p->chunks > 1) learn(&p->claim_cost, sd_now() - start, done);
    /* Not to be had, by a pause perhaps: as dear as it gets, until the next trial. */
    if (done == 0) p->claim_cost = UNKNOWN;
    if (done) {
      p->at += done;
      p->chunk = 0;
      return SD_OK;
    }
    start = sd_now();
  }
  /* Before any of them can be handled: pending, the difference, is never seen below 0. */
  sd_bump(&d->slots[slot].counters.accepted, (uint64_t)p->chunk);
  sd_queue_chunk(d, slot, p, start);
  p->since_look += (uint64_t)p->chunk;
  if (p->chunk >= CLAIM_LEAST) learn(&p->queue_cost, sd_now() - start, p->chunk);
  return SD_OK;
}

static int finish_chunk(sd_dispatcher *d, uint32_t slot, sd_publisher *p, uint64_t slice_ns) {
  if (SD_LIKELY(p->n_left == 0)) {
    p->at += p->chunk;
    p->chunk = 0;
    return SD_OK;
  }
  if (d->config.on_full == SD_RAISE) return SD_E_FULL;
  if (p->nested) return SD_E_WOULD_DEADLOCK;
  return wait_for_room(d, slot, p, slice_ns);
}

/* What the call ends without having put in was counted as accepted when its chunk was begun. */
static void refuse(sd_dispatcher *d, uint32_t slot, sd_publisher *p) {
  uint64_t waiting = 0;
  for (uint32_t i = 0; i < p->n_left; i++) waiting += p->groups[i].to - p->groups[i].from;
  sd_bump(&d->slots[slot].counters.accepted, 0 - waiting);
}

/* Ends the call, whether all is in or not. */
static void end_call(sd_dispatcher *d, uint32_t slot, sd_publisher *p) {
  if (SD_UNLIKELY(p->n_left)) refuse(d, slot, p);
  p->open = 0;
  /* M1: release; pairs with M2: who no longer sees this publisher at work sees its records counted. What a handler publishes
   * in the middle of its slot's own call stays covered by that call's number. */
  if (!p->within) sd_store(&d->slots[slot].publishing, UINT64_MAX, release, M1);
}

void sd_publisher_leave(sd_dispatcher *d, uint32_t slot) {
  sd_publisher *p = publisher_of(d, slot, 0);
  /* Given up while it waited for room. */
  if (SD_UNLIKELY(p->open)) end_call(d, slot, p);
  sd_unlock(&d->slots[slot].taken);
}

static int go_on(sd_dispatcher *d, uint32_t slot, sd_publisher *p, uint64_t slice_ns) {
  int code = SD_OK;
  while (p->n_left || p->at < p->n) {
    if (p->n_left == 0) {
      if (sd_dispatcher_stopping(d)) {
        code = SD_E_STOPPED;
        break;
      }
      help_while_ahead(d, slot, p);
      code = publish_chunk(d, slot, p);
      if (code) break;
      if (p->chunk == 0) continue;
    }
    code = finish_chunk(d, slot, p, slice_ns);
    if (code) break;
    if (p->n_left == 0 && p->chunk) {
      p->at += p->chunk;
      p->chunk = 0;
    }
  }
  if (code != SD_AGAIN) end_call(d, slot, p);
  return code;
}

static int begin(sd_dispatcher *d, uint32_t slot, sd_publisher *p, const void *records, int64_t n, uint64_t slice_ns) {
  sd_a64 *publishing = &d->slots[slot].publishing;
  p->records = records;
  p->n = n;
  p->at = p->chunk = 0;
  p->n_left = 0;
  if (n == 0) return SD_OK;
  p->open = 1;
  p->within = p->nested && sd_load(publishing, relaxed, M1) != UINT64_MAX;
  if (!p->within) {
    /* M3: acquire; a lower bound of what this call will publish. M4: acq_rel; sequenced after M1's store, so who reads a
     * number beyond this call's (M2) also sees it at work. UINT64_MAX means at rest: one lower is as good a bound. */
    uint64_t low = sd_load(&d->arena->next_sequence, acquire, M3);
    sd_store(publishing, low == UINT64_MAX ? low - 1 : low, relaxed, M1);
  }
  sd_fetch_add(&d->arena->next_sequence, (uint64_t)n, acq_rel, M4);
  return go_on(d, slot, p, slice_ns);
}

int sd_publish(sd_dispatcher *d, uint32_t slot, const void *records, int64_t n, uint64_t slice_ns) {
  if (n < 0 || slot < d->n_workers || slot >= d->n_slots) return SD_E_ARGUMENT;
  return begin(d, slot, publisher_of(d, slot, 0), records, n, slice_ns);
}

int sd_publish_more(sd_dispatcher *d, uint32_t slot, uint64_t slice_ns) {
  return go_on(d, slot, publisher_of(d, slot, 0), slice_ns);
}

int64_t sd_publish_rejected(sd_dispatcher *d, uint32_t slot, int nested, int64_t *positions, int64_t room) {
  sd_publisher *p = publisher_of(d, slot, nested);
  int64_t n = 0;
  for (uint32_t i = 0; i < p->n_left; i++)
    for (uint32_t j = p->groups[i].from; j < p->groups[i].to; j++, n++)
      if (positions && n < room) positions[n] = p->at + p->order[j];
  for (int64_t i = p->at + p->chunk; i < p->n; i++, n++)
    if (positions && n < room) positions[n] = i;
  return n;
}

int sd_publish_nested(sd_dispatcher *d, uint32_t slot, const void *records, int64_t n) {
  if (n < 0 || slot >= d->n_slots) return SD_E_ARGUMENT;
  return begin(d, slot, publisher_of(d, slot, 1), records, n, 0);
}

int sd_publish_from_handler(sd_context *ctx, const void *records, int64_t n, int64_t *accepted) {
  sd_dispatcher *d = ctx->engine;
  int code = sd_publish_nested(d, ctx->slot, records, n);
  *accepted = code == SD_E_ARGUMENT ? 0 : code ? n - sd_publish_rejected(d, ctx->slot, 1, NULL, 0) : n;
  return code;
}
