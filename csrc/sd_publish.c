/* Publishers: group a batch by strand, link each group, add it to pending once, list what became ready.
 *
 * Two ways, chosen by what they cost here and now (sd_publisher.claim_cost, queue_cost):
 *   queue   records are copied into their strands' blocks and workers drain them;
 *   claim   where running the handler costs less than handing the record to another core, the publisher takes the batch's
 *           idle strands by their publish locks and handles the records where they lie.
 * Order holds in both: a strand is claimed only when nothing of it is queued or in a worker's hands.
 */
#include "sd_clock.h"
#include "sd_dispatcher.h"
#include "sd_error.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(SD_MODEL_SCHEDULER)
enum {
  SPLICE = 2,
  CLAIM_LEAST = 1,
  FIRST_TRIALS = 2,
  PROBE_EVERY = 3,
  PROBE_CHUNKS = 2,
  SETTLE_NS = 20,
  NAP_NS = 50000
};
#else
enum {
  SPLICE = 64,       /* strands listed at one go */
  CLAIM_LEAST = 64,  /* records in a chunk before claiming is worth a thought */
  FIRST_TRIALS = 8,  /* chunks of trials at the start: half claimed, half queued */
  PROBE_EVERY = 128, /* chunks between two trials of the other way */
  PROBE_CHUNKS = 2,  /* chunks a trial lasts */
  SETTLE_NS = 100000,
  NAP_NS = 50000
};
#endif

/* A strand's part of the chunk: records order[from .. to). */
typedef struct group {
  uint32_t strand;
  uint32_t from, to;
  uint32_t linked;
} group;

typedef struct ready_chain {
  uint32_t n;
  uint32_t strand[SPLICE];
} ready_chain;

struct sd_publisher {
  uint32_t *count;  /* a strand: records in this chunk; zero between chunks */
  uint32_t *strand; /* a record of the chunk: its strand */
  uint16_t *order;  /* the chunk's records, grouped by strand */
  group *late;      /* groups whose strand another publisher was at */
  group *groups;    /* the chunk's groups; those not yet all in lie at the front, n_left of them */
  uint32_t n_groups, n_left;
  ready_chain *chains; /* a slot: strands to list with it */
  /* the call under way */
  const unsigned char *records;
  int64_t n, at; /* records in all; where the chunk starts */
  int64_t chunk; /* records in the chunk */
  int nested;    /* published from inside a handler: never waits, never runs handlers */
  int open;      /* a call is under way, perhaps between two slices */
  int within;    /* a nested call in the middle of the slot's own */
  uint64_t since_look;
  /* which way */
  double queue_cost, claim_cost; /* clock counts a record; 0: not known yet */
  uint32_t chunks;
};

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

/* ---- listing */

static void splice(sd_dispatcher *d, uint32_t slot, uint32_t list, ready_chain *chain) {
  sd_make_ready(d, list, chain->strand, chain->n);
  chain->n = 0;
  if (sd_idle_wake_one(&d->arena->idle)) sd_bump(&d->slots[slot].counters.wakes, 1);
}

/* Lists a strand whose token this publisher holds, with the slot that drained it last. */
static inline void list_ready(sd_dispatcher *d, uint32_t slot, sd_publisher *p, uint32_t strand, uint32_t list) {
  ready_chain *chain = &p->chains[list];
  chain->strand[chain->n++] = strand;
  if (chain->n == SPLICE) splice(d, slot, list, chain);
}

static void list_rest(sd_dispatcher *d, uint32_t slot, sd_publisher *p) {
  for (uint32_t list = 0; list < d->n_slots; list++)
    if (p->chains[list].n) splice(d, slot, list, &p->chains[list]);
}

/* ---- one group */

static void drop(sd_dispatcher *d, uint32_t slot, sd_strand *s, int why, uint64_t n) {
  sd_bump(&s->dropped[why], n);
  sd_bump(&d->slots[slot].counters.dropped[why], n);
}

/* How many of n records a strand that keeps what it has lets in; the rest waits, is dropped or refused. `room` spares most
 * looks at pending, whose line is a worker's: it can only be too small, because pending grows by publishers alone. */
static inline uint32_t room_for(sd_strand *s, uint32_t n) {
  if (SD_UNLIKELY(s->room < n)) {
    /* P7: relaxed; only the bound hangs on it, and pending can only shrink while we hold the lock. */
    int64_t pending = sd_load(&s->pending, relaxed, P7), room = (int64_t)s->capacity - pending;
    s->room = room <= 0 ? 0 : (uint32_t)room;
  }
  return s->room < n ? s->room : n;
}

static inline uint32_t key_of(const sd_dispatcher *d, const unsigned char *record) {
  uint32_t key;
  memcpy(&key, record + d->arena->key_offset, sizeof key);
  return key;
}

/* Keeps the last record a symbol of what waits and what comes, in order; returns how many are left, and in *dealt how many
 * of the n are dealt with: those from the first one on that found no block have to wait. Under the lock. */
static uint32_t conflate(sd_dispatcher *d, sd_strand *s, sd_block_cache *cache, const unsigned char *records,
                         const uint16_t *pick, uint32_t n, uint32_t *dealt) {
  const size_t size = d->pool.record_size;
  const uint32_t queued = s->queued, all = queued + n;
  unsigned char *copy = malloc((size_t)all * (size + sizeof(uint32_t)));
  *dealt = 0;
  if (!copy) return queued;
  uint32_t *origin = (uint32_t *)(copy + (size_t)all * size);
  sd_strand_gather(s, &d->pool, queued, copy);
  for (uint32_t i = 0; i < n; i++) memcpy(copy + (queued + i) * size, records + pick[i] * size, size);
  /* From the back, the first record seen of a symbol is the one to keep. At most `capacity` symbols share the strand, so
   * the keys kept so far lie at the end of the copy and a scan of them is short. */
  uint32_t kept = all;
  for (uint32_t i = all; i-- > 0;) {
    uint32_t key = key_of(d, copy + i * size), j = kept;
    while (j < all && key_of(d, copy + j * size) != key) j++;
    if (j < all) continue;
    kept--;
    origin[kept] = i;
    if (kept != i) memmove(copy + kept * size, copy + i * size, size);
  }
  /* The blocks of what waited come free first, the last one too, so at least as many records find a place again: a record
   * that finds none is one of the n. */
  sd_strand_advance(s, &d->pool, cache, queued);
  sd_strand_shed_locked(s, &d->pool, cache);
  uint32_t left = all - kept, linked = sd_strand_link(s, &d->pool, cache, copy + kept * size, NULL, left);
  *dealt = linked == left ? n : origin[kept + linked] - queued;
  free(copy);
  return linked;
}

/* Links records of a strand that keeps what it has, as its bound allows; *linked says how many. Returns how many are dealt
 * with (linked or dropped); the others have to wait. Under the lock. */
static inline uint32_t link_records(sd_dispatcher *d, uint32_t slot, sd_strand *s, const unsigned char *records,
                                    const uint16_t *pick, uint32_t n, uint32_t *linked) {
  sd_block_cache *cache = &d->slots[slot].cache;
  uint32_t room = room_for(s, n), in = sd_strand_link(s, &d->pool, cache, records, pick, room);
  if (SD_UNLIKELY(in < room)) {
    sd_strand_reclaim(s, &d->pool, cache);
    in += sd_strand_link(s, &d->pool, cache, records, pick + in, room - in);
  }
  s->room = s->room - in;
  *linked = in;
  if (SD_LIKELY(in == n)) return n;
  /* P4: relaxed; a quarantine that is seen late only makes this publisher wait a little. */
  int quarantined = (sd_load(&s->control, relaxed, P4) & SD_QUARANTINED) != 0;
  if (!quarantined && !(s->on_full == SD_DROP_NEWEST && in == room)) return in;
  drop(d, slot, s, quarantined ? SD_DROPPED_QUARANTINED : SD_DROPPED_NEWEST, n - in);
  return n;
}

/* The same for a lossy strand; *net says by how many records its queue grew. */
static uint32_t link_lossy(sd_dispatcher *d, uint32_t slot, sd_strand *s, const unsigned char *records,
                           const uint16_t *pick, uint32_t n, int64_t *net) {
  sd_block_cache *cache = &d->slots[slot].cache;
  uint32_t linked, dealt;
  uint32_t before = s->queued;
  /* An empty strand's used up block first: if the pool is dry, it is the only one to be had. */
  if (SD_UNLIKELY(before == 0 && d->shed)) sd_strand_shed_locked(s, &d->pool, cache);
  if (before + n <= s->capacity) {
    linked = sd_strand_link(s, &d->pool, cache, records, pick, n);
    dealt = linked;
    s->queued = before + linked;
  } else if (s->on_full == SD_DROP_OLDEST) {
    /* More than fit at all: only the last of them count. */
    uint32_t skip = n > s->capacity ? n - s->capacity : 0, keep = n - skip;
    linked = sd_strand_link(s, &d->pool, cache, records, pick + skip, keep);
    /* What is too much goes; and when there was no block, so does what is in the way. One record stays in any case:
     * pending must never be brought to 0 here, for somebody else has the token. */
    uint32_t old = 0, all = before + linked;
    if (SD_UNLIKELY(linked < keep && all > 1)) {
      old = before + keep - s->capacity < all ? before + keep - s->capacity : all - 1;
      sd_strand_advance(s, &d->pool, cache, old);
      linked += sd_strand_link(s, &d->pool, cache, records, pick + skip + linked, keep - linked);
      all = before - old + linked;
    }
    uint32_t over = all > s->capacity ? all - s->capacity : 0;
    sd_strand_advance(s, &d->pool, cache, over);
    drop(d, slot, s, SD_DROPPED_OLDEST, old + over + skip);
    s->queued = all - over;
    dealt = skip + linked;
  } else {
    uint32_t left = conflate(d, s, cache, records, pick, n, &dealt);
    drop(d, slot, s, SD_DROPPED_CONFLATED, before + dealt - left);
    s->queued = left;
  }
  *net = (int64_t)s->queued - before;
  return dealt;
}

/* Adds what was linked, gives the lock back, and lists the strand if that made it ready. */
static inline void add_and_unlock(sd_dispatcher *d, uint32_t slot, sd_publisher *p, uint32_t strand, int64_t net,
                                  uint64_t now) {
  sd_strand *s = &d->strands[strand];
  /* An add of 0 would find 0 on an idle strand, and make a token out of nothing. */
  int ready = net && sd_strand_add(s, net);
  /* The token is ours: so are `last` and `oldest`. */
  uint32_t list = ready ? s->last : 0;
  if (ready) s->oldest = now;
  sd_unlock(&s->publish_lock);
  if (ready) list_ready(d, slot, p, strand, list);
}

/* Puts records of one strand in. Returns how many are dealt with. */
static uint32_t put(sd_dispatcher *d, uint32_t slot, sd_publisher *p, uint32_t strand, const unsigned char *records,
                    const uint16_t *pick, uint32_t n, uint64_t now) {
  sd_strand *s = &d->strands[strand];
  uint32_t dealt, linked;
  int64_t net;
  sd_lock(&s->publish_lock);
  if (SD_LIKELY(!s->lossy)) {
    dealt = link_records(d, slot, s, records, pick, n, &linked);
    net = linked;
  } else {
    dealt = link_lossy(d, slot, s, records, pick, n, &net);
  }
  sd_bump(&s->accepted, dealt);
  add_and_unlock(d, slot, p, strand, net, now);
  return dealt;
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

static void order_by_strand(sd_publisher *p, int64_t n) {
  uint32_t *count = p->count, from = 0;
  for (uint32_t i = 0; i < p->n_groups; i++) {
    group *g = &p->groups[i];
    uint32_t length = count[g->strand];
    g->from = from;
    g->to = from + length;
    count[g->strand] = from;
    from += length;
  }
  for (int64_t i = 0; i < n; i++) p->order[count[p->strand[i]]++] = (uint16_t)i;
}

static inline void prefetch_publisher_line(sd_dispatcher *d, const group *groups, uint32_t i, uint32_t n) {
  if (i < n) sd_prefetch_write(&d->strands[groups[i].strand].publish_lock);
}

static inline void prefetch_token_line(sd_dispatcher *d, const group *groups, uint32_t i, uint32_t n) {
  if (i < n) sd_prefetch_write(&d->strands[groups[i].strand].pending);
}

/* Takes the publish locks of the chunk's strands, never waiting while it holds one: those in use go to late[]. Returns how
 * many are held, at the front of groups[]. */
static uint32_t lock_groups(sd_dispatcher *d, sd_publisher *p, uint32_t *n_late) {
  uint32_t held = 0, late = 0;
  for (uint32_t i = 0; i < p->n_groups; i++) {
    prefetch_publisher_line(d, p->groups, i + 8, p->n_groups);
    group g = p->groups[i];
    if (SD_LIKELY(sd_try_lock(&d->strands[g.strand].publish_lock))) p->groups[held++] = g;
    else p->late[late++] = g;
  }
  *n_late = late;
  return held;
}

/* Queues the chunk in three sweeps over its strands: lock, copy, add. Apart, the copies' stores wait for their lines side by
 * side; an atomic operation between two groups would wait for each in turn. */
static void queue_groups(sd_dispatcher *d, uint32_t slot, sd_publisher *p, const unsigned char *records, uint64_t now) {
  uint32_t n_late, held = lock_groups(d, p, &n_late), left = 0;
  for (uint32_t i = 0; i < held; i++) {
    group *g = &p->groups[i];
    if (i + 6 < held) {
      const group *far = &p->groups[i + 6];
      sd_strand_prefetch_tail(&d->strands[far->strand], &d->pool, far->to - far->from);
    }
    sd_strand *s = &d->strands[g->strand];
    uint32_t dealt = link_records(d, slot, s, records, p->order + g->from, g->to - g->from, &g->linked);
    sd_bump(&s->accepted, dealt);
    g->from += dealt;
  }
  for (uint32_t i = 0; i < held; i++) {
    prefetch_token_line(d, p->groups, i + 12, held);
    group g = p->groups[i];
    add_and_unlock(d, slot, p, g.strand, g.linked, now);
    if (SD_UNLIKELY(g.from < g.to)) p->groups[left++] = g;
  }
  for (uint32_t i = 0; i < n_late; i++) {
    group g = p->late[i];
    g.from += put(d, slot, p, g.strand, records, p->order + g.from, g.to - g.from, now);
    if (SD_UNLIKELY(g.from < g.to)) p->groups[left++] = g;
  }
  p->n_left = left;
}

static void queue_lossy_groups(sd_dispatcher *d, uint32_t slot, sd_publisher *p, const unsigned char *records,
                               uint64_t now) {
  uint32_t left = 0;
  for (uint32_t i = 0; i < p->n_groups; i++) {
    group g = p->groups[i];
    prefetch_publisher_line(d, p->groups, i + 8, p->n_groups);
    prefetch_token_line(d, p->groups, i + 8, p->n_groups);
    g.from += put(d, slot, p, g.strand, records, p->order + g.from, g.to - g.from, now);
    if (SD_UNLIKELY(g.from < g.to)) p->groups[left++] = g;
  }
  p->n_left = left;
}

static void queue_chunk(sd_dispatcher *d, uint32_t slot, sd_publisher *p, uint64_t now) {
  const unsigned char *records = p->records + (size_t)p->at * d->pool.record_size;
  order_by_strand(p, p->chunk);
  for (uint32_t i = 0; i < p->n_groups; i++) p->count[p->groups[i].strand] = 0;
  if (SD_LIKELY(!d->lossy)) queue_groups(d, slot, p, records, now);
  else queue_lossy_groups(d, slot, p, records, now);
  p->n_groups = 0;
  list_rest(d, slot, p);
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

static void learn(double *cost, uint64_t counts, int64_t n) {
  double now = (double)counts / (double)n;
  *cost = *cost == 0 || *cost == UNKNOWN ? now : *cost + (now - *cost) / 8;
}

/* Whether to try claiming this chunk. Both ways are tried at the start (the very first chunk, all misses, teaches nothing),
 * then the cheaper one is taken, and the other one for a moment every PROBE_EVERY chunks. */
static int choose(sd_dispatcher *d, sd_publisher *p) {
  if (!d->one_pure || !d->config.publisher_drains || p->nested || p->chunk < CLAIM_LEAST) return 0;
  uint32_t chunk = p->chunks++;
  if (chunk < FIRST_TRIALS) return chunk < FIRST_TRIALS / 2;
  int claiming = p->claim_cost > 0 && (p->queue_cost == 0 || p->claim_cost < p->queue_cost);
  return chunk % PROBE_EVERY < PROBE_CHUNKS ? !claiming : claiming;
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

/* Tries once more to put in what found no room. */
static uint64_t retry(sd_dispatcher *d, uint32_t slot, sd_publisher *p) {
  const unsigned char *records = p->records + (size_t)p->at * d->pool.record_size;
  uint64_t now = sd_now(), dealt = 0;
  uint32_t left = 0;
  for (uint32_t i = 0; i < p->n_left; i++) {
    group g = p->groups[i];
    uint32_t n = put(d, slot, p, g.strand, records, p->order + g.from, g.to - g.from, now);
    g.from += n;
    dealt += n;
    if (g.from < g.to) p->groups[left++] = g;
  }
  p->n_left = left;
  list_rest(d, slot, p);
  p->since_look += dealt;
  return dealt;
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
    if (retry(d, slot, p)) continue;
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
  queue_chunk(d, slot, p, start);
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
