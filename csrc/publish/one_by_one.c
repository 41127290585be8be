/* Puts records in strand by strand: those that the passes over a chunk (publish/chunk.c) leave over, those that wait for space, and all
 * that go to lossy strands. Here bounds are kept: records beyond a bound are dropped or conflated. */
#include "publish/one_by_one.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "publish/admission.h"
#include "publish/listing.h"
#include "publish/numbers.h"

static void drop(sd_dispatcher *d, uint32_t participant, sd_strand *s, int why, uint64_t n) {
  sd_counters *c = &d->participants[participant].counters;
  if (!n) return;
  sd_bump(&s->dropped[why], n);
  sd_bump(&c->dropped[why], n);
  if (d->policy->level) sd_bump(&c->dropped_at[sd_level_now(d, (uint32_t)(s - d->strands))], n);
}

int sd_conflation_create(sd_conflation *c, const sd_dispatcher *d) {
  const size_t maximum = (size_t)d->config.capacity + d->config.batch_records;
  c->records = malloc(maximum * d->pool.record_size);
  c->positions = malloc(maximum * sizeof *c->positions);
  c->origin = malloc(maximum * sizeof *c->origin);
  c->seen = calloc(d->arena->n_symbols, sizeof *c->seen);
  return c->records && c->positions && c->origin && c->seen;
}

void sd_conflation_destroy(sd_conflation *c) {
  free(c->records);
  free(c->positions);
  free(c->origin);
  free(c->seen);
}

/* Begins a round, in which no symbol has been seen yet. */
static uint32_t next_round(sd_conflation *c, uint32_t symbols) {
  if (SD_UNLIKELY(++c->round == 0)) {
    memset(c->seen, 0, symbols * sizeof *c->seen);
    c->round = 1;
  }
  return c->round;
}

/* Of the records that wait and those that come, keeps the last one per symbol, in order. Returns how many are left. *dealt: how many of
 * the n are finished; from the first one on that found no segment, they have to wait. The bound of a shared strand is at least twice its
 * symbols. So half of it is free afterwards, and the copies per record do not grow with the number of symbols. Under the lock. */
static uint32_t conflate(sd_dispatcher *d, sd_strand *s, sd_segment_cache *cache, sd_conflation *c,
                         const sd_batch *batch, const uint16_t *pick, uint32_t n, uint32_t *dealt) {
  const size_t size = d->pool.record_size;
  const uint32_t queued = s->queued, all = queued + n, round = next_round(c, d->arena->n_symbols);
  unsigned char *copy = c->records;
  sd_position *position = c->positions;
  uint32_t *origin = c->origin;
  sd_strand_gather(s, &d->pool, queued, copy);
  sd_strand_gather_positions(s, &d->pool, queued, position);
  for (uint32_t i = 0; i < n; i++) {
    unsigned char *to = copy + (queued + i) * size;
    memcpy(to, batch->records + pick[i] * size, size);
    memcpy(to + batch->key_offset, &batch->keys[pick[i]], sizeof *batch->keys);
    if (batch->positions) position[queued + i] = batch->positions[pick[i]];
  }
  /* Going backwards, keep the first record of each symbol: it is the latest. */
  uint32_t kept = all;
  for (uint32_t i = all; i-- > 0;) {
    const uint32_t key = sd_key_of(d, copy + i * size);
    if (c->seen[key] == round) continue;
    c->seen[key] = round;
    kept--;
    origin[kept] = i;
    if (kept == i) continue;
    memmove(copy + kept * size, copy + i * size, size);
    if (batch->positions) position[kept] = position[i];
  }
  /* The segments of the waiting records become free first, the last one too. So at least as many records find a place again, and a record
   * that finds none is one of the n. */
  sd_strand_advance(s, &d->pool, cache, queued);
  sd_strand_shed_locked(s, &d->pool, cache);
  const sd_batch rest = {copy + kept * size, NULL, 0, batch->positions ? position + kept : NULL};
  uint32_t left = all - kept, linked = sd_strand_link_batch(s, &d->pool, cache, &rest, NULL, left);
  *dealt = linked == left ? n : origin[kept + linked] - queued;
  sd_task_keep(d->tasks.tasks, s, origin + kept, linked);
  return linked;
}

static inline int drops_newest(const sd_strand *s) { return s->on_full == SD_DROP_NEWEST || s->on_full == SD_SHED; }

/* Links records of a strand that keeps what it has, as far as its bound allows; *linked says how many. Returns how many are finished
 * (linked or dropped); the others have to wait. Under the lock. */
static inline uint32_t link_records(sd_dispatcher *d, uint32_t participant, sd_strand *s, const sd_batch *batch,
                                    const uint16_t *pick, uint32_t n, uint32_t *linked) {
  sd_segment_cache *cache = &d->participants[participant].cache;
  uint32_t free_records = free_for(d, s, n), in = sd_strand_link_batch(s, &d->pool, cache, batch, pick, free_records);
  if (SD_UNLIKELY(in < free_records)) {
    sd_strand_reclaim(s, &d->pool, cache);
    in += sd_strand_link_batch(s, &d->pool, cache, batch, pick + in, free_records - in);
  }
  s->free_records = s->free_records - in;
  *linked = in;
  if (SD_LIKELY(in == n)) return n;
  /* P4: relaxed; if it sees a quarantine late, this publisher only waits a little longer. */
  int quarantined = (sd_load(&s->control, relaxed, P4) & SD_QUARANTINED) != 0;
  if (!quarantined && !(drops_newest(s) && in == free_records)) return in;
  drop(d, participant, s, quarantined ? SD_DROPPED_QUARANTINED : SD_DROPPED_NEWEST, n - in);
  return n;
}

/* The same for a lossy strand; *net: by how many records its queue grew. */
static uint32_t link_lossy(sd_dispatcher *d, uint32_t participant, sd_publisher *p, sd_strand *s, const sd_batch *batch,
                           const uint16_t *pick, uint32_t n, int64_t *net) {
  sd_segment_cache *cache = &d->participants[participant].cache;
  uint32_t linked, dealt;
  uint32_t before = s->queued;
  /* Return the used-up segment of an empty strand first: if the pool is empty, it is the only one to be had. */
  if (SD_UNLIKELY(before == 0 && d->shed)) sd_strand_shed_locked(s, &d->pool, cache);
  if (before + n <= s->capacity) {
    linked = sd_strand_link_batch(s, &d->pool, cache, batch, pick, n);
    dealt = linked;
    s->queued = before + linked;
  } else if (s->on_full == SD_DROP_OLDEST) {
    /* If there are more than fit at all, only the last of them count. */
    uint32_t skip = n > s->capacity ? n - s->capacity : 0, keep = n - skip;
    linked = sd_strand_link_batch(s, &d->pool, cache, batch, pick + skip, keep);
    /* Remove what is too much, and, if there was no segment, what is in the way. One record stays in any case: pending must never become
     * 0 here, because another thread has the token. */
    uint32_t old = 0, all = before + linked;
    if (SD_UNLIKELY(linked < keep && all > 1)) {
      old = before + keep - s->capacity < all ? before + keep - s->capacity : all - 1;
      sd_strand_advance(s, &d->pool, cache, old);
      linked += sd_strand_link_batch(s, &d->pool, cache, batch, pick + skip + linked, keep - linked);
      all = before - old + linked;
    }
    uint32_t over = all > s->capacity ? all - s->capacity : 0;
    sd_strand_advance(s, &d->pool, cache, over);
    sd_task_pass(d->tasks.tasks, s, old + over);
    drop(d, participant, s, SD_DROPPED_OLDEST, old + over + skip);
    s->queued = all - over;
    dealt = skip + linked;
  } else {
    uint32_t left = conflate(d, s, cache, &p->conflation, batch, pick, n, &dealt);
    drop(d, participant, s, SD_DROPPED_CONFLATED, before + dealt - left);
    s->queued = left;
  }
  *net = (int64_t)s->queued - before;
  return dealt;
}

/* The same where there are bounds over strands: links no more than were granted, and drops the others if there was no room for them, in
 * the strand or over it. */
static uint32_t link_granted(sd_dispatcher *d, uint32_t participant, sd_publisher *p, sd_strand *s,
                             const sd_batch *batch, const uint16_t *pick, uint32_t n, uint32_t *linked) {
  const uint32_t level = sd_settle_level(d, s, p->level);
  const uint32_t granted = p->granted[level] < p->asked ? (uint32_t)p->granted[level] : p->asked;
  const uint32_t dealt = link_records(d, participant, s, batch, pick, granted, linked);
  p->granted[level] -= *linked;
  if (dealt < granted || granted == n) return dealt;
  /* There may be room, but it was asked for at another level. */
  if (granted < p->asked && !p->denied[level]) return dealt;
  /* P4: as above. */
  const int quarantined = (sd_load(&s->control, relaxed, P4) & SD_QUARANTINED) != 0;
  if (!quarantined && !drops_newest(s)) return dealt;
  drop(d, participant, s, quarantined ? SD_DROPPED_QUARANTINED : SD_DROPPED_NEWEST, n - granted);
  return n;
}

/* Puts records of one strand in. Returns how many are finished. */
static uint32_t put(sd_dispatcher *d, uint32_t participant, sd_publisher *p, uint32_t strand,
                    const unsigned char *records, const uint16_t *pick, uint32_t n, uint64_t now) {
  sd_strand *s = &d->strands[strand];
  const sd_batch batch = {records, p->keys, d->arena->key_offset, p->positions};
  uint32_t dealt, linked;
  int64_t net;
  sd_lock_strand(d, s);
  /* Another publisher was faster: renumber, because numbers have to rise along a strand. */
  if (p->positions && d->last_number[strand] > p->positions[pick[0]].number) sd_number_again(d, p, pick, n);
  if (SD_UNLIKELY(d->admitted != NULL)) {
    dealt = link_granted(d, participant, p, s, &batch, pick, n, &linked);
    net = linked;
  } else if (SD_LIKELY(!s->lossy)) {
    dealt = link_records(d, participant, s, &batch, pick, n, &linked);
    net = linked;
  } else {
    dealt = link_lossy(d, participant, p, s, &batch, pick, n, &net);
  }
  if (p->positions && dealt) d->last_number[strand] = p->positions[pick[dealt - 1]].number;
  sd_bump(&s->accepted, dealt);
  add_and_unlock(d, participant, p, strand, net, now);
  return dealt;
}

void sd_enqueue_missing(sd_dispatcher *d, uint32_t participant, sd_publisher *p, const unsigned char *records,
                        uint64_t now) {
  uint32_t places = 0, left = 0;
  for (uint32_t i = 1; i <= p->n_groups; i++) {
    waiting_group *w = &p->waiting[i - 1];
    w->strand = p->groups[i].strand;
    w->from = places;
    w->to = places += p->groups[i].missing;
  }
  /* Go backwards, because a group's missing records are its last ones. */
  for (int64_t i = p->chunk - 1; i >= 0; i--) {
    group *g = &p->groups[p->in_group[i]];
    if (!g->missing) continue;
    g->missing--;
    p->order[p->waiting[p->in_group[i] - 1].from + g->missing] = (uint16_t)i;
  }
  p->n_waiting = p->n_groups;
  if (SD_UNLIKELY(d->admitted != NULL)) sd_admit(d, participant, p);
  for (uint32_t i = 0; i < p->n_groups; i++) {
    waiting_group w = p->waiting[i];
    if (w.from == w.to) continue;
    p->level = w.level;
    p->asked = w.asked;
    w.from += put(d, participant, p, w.strand, records, p->order + w.from, w.to - w.from, now);
    if (SD_UNLIKELY(w.from < w.to)) p->waiting[left++] = w;
  }
  p->n_waiting = left;
  if (SD_UNLIKELY(d->admitted != NULL)) sd_admit_end(d, participant, p);
}

uint64_t sd_enqueue_waiting(sd_dispatcher *d, uint32_t participant, sd_publisher *p) {
  const unsigned char *records = p->records + (size_t)p->at * d->pool.record_size;
  uint64_t now = sd_now(), dealt = 0;
  uint32_t left = 0;
  if (SD_UNLIKELY(d->admitted != NULL)) sd_admit(d, participant, p);
  for (uint32_t i = 0; i < p->n_waiting; i++) {
    waiting_group w = p->waiting[i];
    p->level = w.level;
    p->asked = w.asked;
    uint32_t n = put(d, participant, p, w.strand, records, p->order + w.from, w.to - w.from, now);
    w.from += n;
    dealt += n;
    if (w.from < w.to) p->waiting[left++] = w;
  }
  p->n_waiting = left;
  if (SD_UNLIKELY(d->admitted != NULL)) sd_admit_end(d, participant, p);
  sd_list_chains(d, participant, p, now);
  p->since_look += dealt;
  return dealt;
}
