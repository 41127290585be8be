/* What the programs of the model share: a small world of strands, lists and segments built from the core's own headers, the
 * moves of publishers and workers, and an oracle beside it.
 *
 * The oracle is made of ordinary variables. The checker does not see them, so they order nothing; between two operations
 * of the model no other thread runs, so what stands beside an operation happens with it.
 */
#pragma once

#define SD_MODEL_RELACY 1
#define SD_MODEL_STRANDS 1 /* segments of records that the checker sees */
#include "base/atomic.h"
/* base/atomic.h first: the rest needs its types. */
#include "memory/segment.h"
#include "schedule/idle.h"
#include "schedule/list.h"
#include "strand/strand.h"

enum { MODEL_STRANDS = 2, MODEL_LISTS = 2, MODEL_CACHES = 6, MODEL_PLACES = 2, MODEL_SOURCES = 2 };

/* What really is, whatever the threads can see. */
struct oracle {
  int holders[MODEL_STRANDS]; /* threads that hold the strand's token in their hands */
  int listed[MODEL_STRANDS];  /* lists it stands on */
  int aside[MODEL_STRANDS];   /* set aside in the strand */
  int running[MODEL_STRANDS]; /* handlers running */
  uint64_t accepted, handled, dropped;
  int published; /* publishers that are done */
  int wakes_under_way;
};

static inline uint64_t record_of(unsigned source, unsigned sequence) { return ((uint64_t)source << 32) | sequence; }

struct world {
  sd_free_list free_list;
  SD_PLAIN(uint32_t) stack[SD_MODEL_SEGMENTS];
  sd_segment segments[SD_MODEL_SEGMENTS];
  sd_segment_cache cache[MODEL_CACHES];
  sd_segment_pool pool;
  sd_strand strand[MODEL_STRANDS];
  SD_PLAIN(uint64_t) row[MODEL_STRANDS][MODEL_SOURCES]; /* last sequence seen of each publisher */
  SD_PLAIN(uint64_t) count[MODEL_STRANDS];              /* records handled */
  sd_list list[MODEL_LISTS];
  sd_a32 ring[MODEL_LISTS][MODEL_PLACES];
  sd_idle idle;
  oracle o;

  void begin(bool lossy = false, uint32_t capacity = 1000, uint32_t n_segments = SD_MODEL_SEGMENTS) {
    memset(&o, 0, sizeof o);
    sd_init(&free_list.lock, 0u);
    free_list.runs = 0u;
    free_list.unused = 0u;
    free_list.n_segments = free_list.filled = n_segments;
    pool.list = &free_list;
    pool.stack = stack;
    pool.segments = segments;
    pool.segment_bytes = 1;
    pool.record_size = 1;
    pool.records = SD_MODEL_RECORDS;
    for (auto &c : cache) {
      c.count = 0u;
    }
    for (uint32_t i = 0; i < MODEL_STRANDS; i++) {
      sd_strand *s = &strand[i];
      sd_init(&s->pending, 0);
      sd_init(&s->owner, 0u);
      sd_init(&s->control, 0u);
      sd_init(&s->head, SD_NONE);
      sd_init(&s->at, 0u);
      s->last = i % MODEL_LISTS;
      s->oldest = 0u;
      sd_init(&s->handled, 0u);
      s->lossy = lossy;
      s->capacity = capacity;
      sd_init(&s->publish_lock, 0u);
      s->tail = SD_NONE;
      s->fill = 0u;
      s->queued = 0u;
      sd_init(&s->accepted, 0u);
      count[i] = 0u;
      for (auto &r : row[i]) r = 0u;
    }
    for (uint32_t i = 0; i < MODEL_LISTS; i++) {
      sd_init(&list[i].lock, 0u);
      /* Just below wrap-around. */
      sd_init(&list[i].head, UINT32_MAX);
      sd_init(&list[i].tail, UINT32_MAX);
      list[i].mask = MODEL_PLACES - 1;
      list[i].first = list[i].last = 0u;
      for (auto &r : ring[i]) sd_init(&r, 0u);
    }
    sd_init(&idle.state, 0u);
    sd_init(&idle.epoch, UINT32_MAX);
  }

  /* ---- the token's way, watched by the oracle (contract, rule 3) ---- */
  void got(uint32_t s) {
    RL_ASSERT(o.holders[s] == 0 && o.listed[s] == 0 && o.aside[s] == 0);
    o.holders[s] = 1;
  }
  void let_go(uint32_t s) {
    RL_ASSERT(o.holders[s] == 1);
    o.holders[s] = 0;
  }
  void put_on_list(uint32_t s) {
    let_go(s);
    RL_ASSERT(o.listed[s] == 0);
    o.listed[s] = 1;
    sd_list *l = &list[strand[s].last];
    sd_list_push(l, ring[l - list], NULL, &s, 1);
  }
  bool take_off_list(uint32_t me, uint32_t *s) {
    for (uint32_t i = 0; i < MODEL_LISTS; i++) {
      uint32_t from = (me + i) % MODEL_LISTS;
      if (sd_list_pop(&list[from], ring[from], NULL, s, 1, 4)) {
        RL_ASSERT(*s < MODEL_STRANDS && o.listed[*s] == 1);
        if (*s >= MODEL_STRANDS) return false;
        o.listed[*s] = 0;
        got(*s);
        return true;
      }
    }
    return false;
  }

  /* ---- moves ---- */
  void handle(uint32_t s, uint64_t record, bool gaps = false) {
    uint32_t source = (uint32_t)(record >> 32), sequence = (uint32_t)record;
    RL_ASSERT(source < MODEL_SOURCES);
    if (source >= MODEL_SOURCES) return;
    uint64_t before = row[s][source];
    RL_ASSERT(gaps ? sequence > before : sequence == before + 1);
    row[s][source] = sequence;
    count[s] = count[s] + 1;
    o.handled++;
  }

  /* Publishes n records of a source; true when the caller has to wake somebody. */
  bool publish(uint32_t s, uint32_t participant, uint32_t source, uint32_t first, uint32_t n) {
    sd_strand *q = &strand[s];
    sd_byte batch[4];
    for (uint32_t i = 0; i < n; i++) batch[i] = record_of(source, first + i);
    sd_lock(&q->publish_lock);
    uint32_t done = sd_strand_link(q, &pool, &cache[participant], batch, NULL, n);
    RL_ASSERT(done == n);
    int mine = sd_strand_add(q, done);
    if (mine) got(s);
    o.accepted += done;
    sd_unlock(&q->publish_lock);
    if (!mine) return false;
    q->oldest = first;
    put_on_list(s);
    return true;
  }

  bool handle_inline(uint32_t s, uint32_t participant, uint32_t source, uint32_t first, uint32_t n) {
    sd_strand *q = &strand[s];
    if (!sd_strand_own_idle(q, participant)) return false;
    RL_ASSERT(o.holders[s] == 0 && o.listed[s] == 0 && o.aside[s] == 0 && o.running[s] == 0);
    o.running[s] = 1;
    for (uint32_t i = 0; i < n; i++) handle(s, record_of(source, first + i));
    o.accepted += n;
    q->last = participant % MODEL_LISTS;
    o.running[s] = 0;
    sd_strand_disown(q);
    return true;
  }

  /* A visit to a strand whose token the caller holds. */
  void drain(uint32_t s, uint32_t participant, uint32_t me, bool shed, int64_t budget = 2) {
    sd_strand *q = &strand[s];
    RL_ASSERT(sd_strand_take(q, participant));
    int64_t counted = sd_strand_pending(q), n = counted < budget ? counted : budget;
    RL_ASSERT(counted > 0 && o.running[s] == 0);
    o.running[s] = 1;
    (void)(uint64_t)q->oldest;
    for (int64_t left = n; left > 0;) {
      sd_byte *record;
      uint32_t run = sd_strand_front(q, &pool, &cache[participant], (uint32_t)left, &record);
      RL_ASSERT(run > 0);
      for (uint32_t i = 0; i < run; i++) handle(s, record[i]);
      sd_strand_advance(q, &pool, &cache[participant], run);
      left -= run;
    }
    o.running[s] = 0;
    q->last = me % MODEL_LISTS;
    q->oldest = 0u;
    if (shed && n == counted) sd_strand_shed(q, &pool, &cache[participant]);
    if (!sd_strand_release(q, n)) let_go(s);
    else put_on_list(s);
  }

  /* One duty: false when there was nothing to do. */
  bool work(uint32_t me, uint32_t participant, bool shed = false) {
    uint32_t s;
    if (!take_off_list(me, &s)) return false;
    if (sd_strand_set_aside(&strand[s])) return true;
    drain(s, participant, me, shed);
    return true;
  }

  /* ---- at the end ---- */
  void end() {
    uint32_t found = 0;
    for (auto &c : cache) {
      found += c.count;
    }
    found += free_list.runs * SD_FREE_RUN + (free_list.n_segments - free_list.unused);
    uint64_t counted = 0;
    for (uint32_t i = 0; i < MODEL_STRANDS; i++) {
      sd_strand *s = &strand[i];
      RL_ASSERT(sd_load(&s->pending, acquire, W2) == 0);
      RL_ASSERT(sd_owner_in(sd_load(&s->owner, relaxed, C2)) == 0);
      RL_ASSERT(o.holders[i] == 0 && o.listed[i] == 0 && o.aside[i] == 0);
      for (uint32_t b = sd_load(&s->head, relaxed, Q1); b != SD_NONE; b = sd_load(&segments[b].next, relaxed, Q3))
        found++;
      counted += count[i];
    }
    RL_ASSERT(found == free_list.n_segments); /* no segment lost, none twice */
    RL_ASSERT(o.accepted == o.handled + o.dropped && counted == o.handled);
    for (uint32_t i = 0; i < MODEL_LISTS; i++) RL_ASSERT(sd_list_length(&list[i]) == 0);
  }
};

/* ---- a futex that orders nothing and wakes whom it likes: all that its manual promises ---- */
struct futex_waiters {
  unsigned thread[8];
  sd_a32 *word[8];
  unsigned n;
};
extern futex_waiters model_waiters;

#include "model_run.hpp"
