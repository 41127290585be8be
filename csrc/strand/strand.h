/* A strand: an ordered queue that one thread at a time may drain, and the protocol that says which thread.
 *
 * The token is the right to drain. `pending` counts records that are published and not yet handled, and tasks (strand/tasks.h). Its
 * changes pass the token on:
 *   - the add that finds 0 makes its caller the owner, which has to list the strand or drain it;
 *   - a worker that takes the strand off a list becomes the owner;
 *   - the subtraction, after the handlers ran, that leaves 0 lets the token go; after any other, the owner lists the strand again.
 * A strand with pending > 0 is therefore in exactly one place (contract, rule 3). The owner word names the owner while handlers run. The
 * owner clears it before the subtraction, so the next owner always finds it clear. A failing CAS therefore means that the protocol is
 * broken; the engine reports it, and never waits for it to pass.
 *
 * The publish lock orders the publishers of one strand. They link and add records under it. So a publisher that holds it and sees pending
 * 0 has the strand to itself, because nobody else can make the token appear. It may then run the handlers over its records where they lie
 * (sd_strand_own_idle).
 *
 * A reader from outside, perhaps in another process, takes no lock. The upper half of the owner word counts the strand's owners. If two
 * loads of the word agree and name nobody, nobody wrote what was read between them (sd_strand_look). Rows are plain memory, so this assumes
 * two things. An aligned word of eight bytes is written at once, which holds on x86-64 and aarch64. And a handler writes no row before or
 * after its call, which holds because it is called through a pointer.
 *
 * Lossy strands (drop_oldest, conflate) let publishers discard what waits. There the publish lock also covers the queue's head, and a
 * worker copies its budget out before it runs handlers.
 *
 * Which calls may run beside which:
 *                      publish   drain   pause/resume   look (sd_strand_inspect)
 *   publish            L         yes     yes            yes
 *   drain (the owner)  yes       no      yes            yes
 *   own_idle           L         no      yes            yes
 * L: yes, one after the other, under the publish lock. no: the token prevents it.
 */
#pragma once

#include "base/atomic.h"
#include "memory/segment.h"

/* cffi: begin */
/* Bits of `control`. */
enum {
  SD_PAUSED = 1,
  SD_QUARANTINED = 2,
  SD_SET_ASIDE = 4, /* the token is set aside in the strand; whoever clears the bit holds the token */
  SD_HELD = SD_PAUSED | SD_QUARANTINED
};

/* What happens at the bound. SD_SHED: as SD_DROP_NEWEST, but first lower levels make room at the bound in all (publish/admission.h). */
enum { SD_BLOCK = 0, SD_DROP_NEWEST = 1, SD_DROP_OLDEST = 2, SD_CONFLATE = 3, SD_RAISE = 4, SD_SHED = 5 };
/* cffi: end */

/* Why a record was dropped. */
enum { SD_DROPPED_NEWEST = 0, SD_DROPPED_OLDEST, SD_DROPPED_CONFLATED, SD_DROPPED_QUARANTINED, SD_PUBLISH_REASONS };
/* Why an owner dropped it: to make room for a higher level. */
enum { SD_DROPPED_SHED = SD_PUBLISH_REASONS, SD_DROP_REASONS };

typedef struct sd_strand {
  /* shared: the token */
  sd_ai64 pending;
  sd_a64 owner;   /* lower half: 0, or the owner's participant + 1; upper half: how many owners there have been */
  sd_a32 control; /* SD_PAUSED ... */
  /* the owner's; head and at are atomic only because the next worker reads them, without the token, to choose what to prefetch */
  sd_a32 head;               /* first segment, SD_NONE before the first record */
  sd_a32 at;                 /* next record in it */
  SD_PLAIN(uint32_t) last;   /* worker that last drained it: where it is listed next */
  SD_PLAIN(uint64_t) oldest; /* clock when the oldest record waiting was published, or a little before */
  sd_a64 handled;            /* records that owners have finished, handled or shed; one writer at a time, the owner */
  sd_a32 failed;             /* records whose handler failed; the owner's */
  sd_a32 lost;               /* records of a lossy strand in the owner's hands when it was quarantined; the owner's */
  /* immutable once workers run */
  uint16_t handler;
  uint8_t on_full : 4;
  uint8_t lossy : 4;
  SD_PLAIN(uint8_t)
  calls; /* the owner's: one more than the binary logarithm of how many records a call may take; 0: a segment's */
  sd_a32 tasks; /* the last task of its chain, see strand/tasks.h; under publish_lock */

  /* the publisher's, under publish_lock */
  SD_ALIGNED(SD_LINE) sd_a32 publish_lock;
  SD_PLAIN(uint32_t) tail;         /* last segment, SD_NONE before the first record */
  SD_PLAIN(uint32_t) fill;         /* records in it */
  SD_PLAIN(uint32_t) queued;       /* lossy strands: records waiting, without those a worker has copied out */
  uint32_t capacity;               /* the bound, in records */
  SD_PLAIN(uint32_t) free_records; /* records that a publisher may link before it has to read pending again */
  sd_a64 accepted;
  sd_a64 dropped[SD_PUBLISH_REASONS];
} sd_strand;

#if !defined(SD_MODEL_RELACY)
_Static_assert(sizeof(sd_strand) == 2 * SD_LINE, "a strand is two lines");
_Static_assert(offsetof(sd_strand, publish_lock) == SD_LINE, "the publisher's fields have a line of their own");
#endif

/* ---- the token ------------------------------------------------------------------------------------------------- */

/* By a publisher after it linked n records, with the publish lock still held. Nonzero: the caller now holds the token and must list the
 * strand. */
static inline int sd_strand_add(sd_strand *s, int64_t n) {
  /* P2: acq_rel. Release pairs with W2: a thread that counts these records sees them, and the segments that hold them. Acquire pairs with
   * W4: the thread that finds 0 becomes the owner, and the last owner's writes to head, at, last and the rows come before it. */
  return sd_fetch_add(&s->pending, n, acq_rel, P2) == 0;
}

static inline uint32_t sd_owner_in(uint64_t word) { return (uint32_t)word; }

/* By the owner, before it touches the queue. Zero: the protocol is broken. */
static inline int sd_strand_take(sd_strand *s, uint32_t participant) {
  /* P5: relaxed; only the owner writes the word, and the token makes one thread the owner. */
  uint64_t word = sd_load(&s->owner, relaxed, P5);
  /* W1: acquire; pairs with W3 of the last owner. The token already orders owners (W4, P2, the list's lock), so this is redundant. It is
   * kept so that the owner word alone orders one owner after another. */
  if (sd_owner_in(word) || !sd_cas(&s->owner, &word, word + participant + 1, acquire, W1)) return 0;
  /* O1: release; pairs with O3: a reader that sees what the owner writes from here on also sees that the strand is owned. */
  sd_fence(release, O1);
  return 1;
}

/* Names the caller in the owner word of a strand that other means already give to the caller alone. */
static inline void sd_strand_begin(sd_strand *s, uint32_t participant) {
  sd_store(&s->owner, sd_load(&s->owner, relaxed, P5) + participant + 1, relaxed, P5);
  /* O1: as above. */
  sd_fence(release, O1);
}

/* Names nobody in the owner word, and counts one more owner. */
static inline void sd_strand_end(sd_strand *s) {
  const uint64_t word = sd_load(&s->owner, relaxed, P5);
  /* W3: release; pairs with W1, and with O2: the owner's writes come before. */
  sd_store(&s->owner, (word | UINT32_MAX) + 1, release, W3);
}

/* For a reader anywhere, perhaps in another process. It reads the word, then what the strand's owners write, and then asks
 * sd_strand_unchanged() whether that is consistent. If the word names an owner, the reader has to try again later. */
static inline uint64_t sd_strand_look(sd_strand *s) {
  /* O2: acquire; pairs with W3: the reader sees what the owners counted in the word wrote. */
  return sd_load(&s->owner, acquire, O2);
}

/* Nonzero: nobody wrote since sd_strand_look() returned `word`. */
static inline int sd_strand_unchanged(sd_strand *s, uint64_t word) {
  /* O3: acquire; pairs with O1: a reader that saw an owner's write sees that owner's word too. */
  sd_fence(acquire, O3);
  return sd_load(&s->owner, relaxed, O4) == word && !sd_owner_in(word);
}

/* How many records may be drained now: what was published before this call, perhaps more. */
static inline int64_t sd_strand_pending(sd_strand *s) {
  /* W2: acquire; pairs with P2 of every publisher counted in the value. */
  return sd_load(&s->pending, acquire, W2);
}

/* By the owner after its handlers ran over n records. Nonzero: records are left and the caller, still the owner, must
 * list the strand again. */
static inline int sd_strand_release(sd_strand *s, int64_t n) {
  sd_strand_end(s);
  /* W4: acq_rel. Release pairs with P2 (a publisher that finds 0) and P3: the owner's writes come before the next owner's. Acquire pairs
   * with P2: when records are left, whoever takes the strand from this thread sees them. */
  return sd_fetch_sub(&s->pending, n, acq_rel, W4) != n;
}

/* ---- owning an idle strand without enqueueing ------------------------------------------------------------------ */

/* Nonzero: the caller holds the publish lock of an idle strand, and so has the strand to itself until
 * sd_strand_disown(). Never waits. */
static inline int sd_strand_own_idle(sd_strand *s, uint32_t participant) {
  if (!sd_try_lock(&s->publish_lock)) return 0;
  /* P3: acquire; pairs with W4: 0 means that the last owner is done, and its writes to the rows come before ours. P4: relaxed; records of
   * a paused or quarantined strand must be enqueued. A pause that comes later takes effect after this. */
  if (sd_load(&s->pending, acquire, P3) != 0 || sd_load(&s->control, relaxed, P4) != 0) {
    sd_unlock(&s->publish_lock);
    return 0;
  }
  sd_strand_begin(s, participant);
  return 1;
}

static inline void sd_strand_disown(sd_strand *s) {
  sd_strand_end(s);
  sd_unlock(&s->publish_lock);
}

/* ---- pause and quarantine -------------------------------------------------------------------------------------- */

/* By a worker that has just taken the strand off a list. Nonzero: the strand is paused or quarantined and now keeps its token itself; the
 * caller has nothing more to do with it. */
static inline int sd_strand_set_aside(sd_strand *s) {
  /* S2: relaxed; the CAS decides. */
  uint32_t seen = sd_load(&s->control, relaxed, S2);
  while (seen & SD_HELD) {
    /* S1: release; pairs with S3: the thread that resumes the strand takes the token, and with it the owner's view of the queue. */
    if (sd_cas(&s->control, &seen, seen | SD_SET_ASIDE, release, S1)) return 1;
  }
  return 0;
}

static inline void sd_strand_hold(sd_strand *s, uint32_t why) {
  /* S4: acq_rel; this is a request, and the next worker that takes the strand off a list answers it. If the token is already set aside,
   * this passes on what S1 says to S3, so that nothing relies on release sequences. */
  sd_fetch_or(&s->control, why, acq_rel, S4);
}

/* Takes `why` back. Nonzero: nothing pauses or quarantines the strand any more, and its token was set aside: the caller now holds the
 * token and must list the strand. */
static inline int sd_strand_resume(sd_strand *s, uint32_t why) {
  uint32_t seen = sd_load(&s->control, relaxed, S2), next;
  do {
    next = seen & ~why;
    if (!(next & SD_HELD)) next &= ~(uint32_t)SD_SET_ASIDE;
    /* S3: acq_rel; acquire pairs with S1. Release passes it on when the strand is still paused or quarantined for another reason. */
  } while (!sd_cas(&s->control, &seen, next, acq_rel, S3));
  return (seen & SD_SET_ASIDE) && !(next & SD_SET_ASIDE);
}

/* ---- the queue ------------------------------------------------------------------------------------------------- */

/* Appends up to n records, under the publish lock; returns how many found a segment. `pick` names the records: index i of
 * the batch, or NULL for the first n in a row. Q1..Q3 are relaxed: their order comes from the token (P2, W2, W4). */
static inline uint32_t sd_strand_link(sd_strand *s, sd_segment_pool *pool, sd_segment_cache *cache,
                                      const sd_byte *records, const uint16_t *pick, uint32_t n);

/* Records, and what goes into the segments with them. */
typedef struct sd_batch {
  const sd_byte *records;
  const uint32_t *
      keys; /* the records' keys, as they were when they were checked: another thread may have changed the records since */
  uint32_t key_offset;
  const sd_position *positions; /* the records' positions; NULL: the segments' positions are not written */
} sd_batch;

/* The same with their keys and positions. */
static inline uint32_t sd_strand_link_batch(sd_strand *s, sd_segment_pool *pool, sd_segment_cache *cache,
                                            const sd_batch *batch, const uint16_t *pick, uint32_t n);

/* Asks for the lines that a publisher will write next. Another core drained them last, and a store that has to wait for its line holds up
 * every atomic operation behind it. */
static inline void sd_strand_prefetch_segment(const sd_segment_pool *pool, const sd_segment_cache *cache) {
#if !defined(SD_MODEL_STRANDS)
  if (cache->count < SD_SEGMENTS_AHEAD) return;
  uint32_t index = cache->index[cache->count - SD_SEGMENTS_AHEAD];
  sd_prefetch_write(sd_segment_at(pool, index));
  sd_prefetch_write(sd_segment_record(pool, index, 0));
  sd_prefetch_write(sd_segment_record(pool, index, 0) + SD_LINE);
  if (pool->positions_at) sd_prefetch_write(sd_segment_position(pool, index, 0));
#endif
}

/* Drops n records from the front, giving segments passed back to the pool. By the owner (or, on a lossy strand, under the
 * publish lock). */
static inline void sd_strand_advance(sd_strand *s, sd_segment_pool *pool, sd_segment_cache *cache, uint32_t n) {
  uint32_t head = sd_load(&s->head, relaxed, Q1), at = sd_load(&s->at, relaxed, Q2);
  while (n) {
    if (at == pool->records) {
      uint32_t next = sd_load(&sd_segment_at(pool, head)->next, relaxed, Q3);
      sd_segment_put(pool, cache, head);
      head = next;
      at = 0;
    }
    uint32_t run = pool->records - at;
    if (run > n) run = n;
    at += run;
    n -= run;
  }
  sd_store(&s->head, head, relaxed, Q1);
  sd_store(&s->at, at, relaxed, Q2);
}

/* Finds the records at the front that lie next to each other: returns how many, at most n, and sets *records to the first. Moves to the
 * next segment when the first one is used up. */
static inline uint32_t sd_strand_front(sd_strand *s, sd_segment_pool *pool, sd_segment_cache *cache, uint32_t n,
                                       sd_byte **records) {
  uint32_t head = sd_load(&s->head, relaxed, Q1), at = sd_load(&s->at, relaxed, Q2);
  if (at == pool->records) {
    uint32_t next = sd_load(&sd_segment_at(pool, head)->next, relaxed, Q3);
    sd_segment_put(pool, cache, head);
    head = next;
    at = 0;
    sd_store(&s->head, head, relaxed, Q1);
    sd_store(&s->at, 0u, relaxed, Q2);
  }
  *records = sd_segment_record(pool, head, at);
  uint32_t run = pool->records - at;
  return run < n ? run : n;
}

/* Copies up to n records from the front, leaving them queued. */
static inline uint32_t sd_strand_gather(sd_strand *s, sd_segment_pool *pool, uint32_t n, sd_byte *to) {
  uint32_t head = sd_load(&s->head, relaxed, Q1), at = sd_load(&s->at, relaxed, Q2), left = n;
  while (left) {
    if (at == pool->records) {
      head = sd_load(&sd_segment_at(pool, head)->next, relaxed, Q3);
      at = 0;
    }
    uint32_t run = pool->records - at;
    if (run > left) run = left;
    sd_copy(to, sd_segment_record(pool, head, at), (size_t)run * pool->record_size);
    to += (size_t)run * pool->record_size;
    at += run;
    left -= run;
  }
  return n;
}

#if !defined(SD_MODEL_STRANDS)
/* The same for their positions, where there are any. */
static inline void sd_strand_gather_positions(sd_strand *s, sd_segment_pool *pool, uint32_t n, sd_position *to) {
  uint32_t head = sd_load(&s->head, relaxed, Q1), at = sd_load(&s->at, relaxed, Q2), left = pool->positions_at ? n : 0;
  while (left) {
    if (at == pool->records) {
      head = sd_load(&sd_segment_at(pool, head)->next, relaxed, Q3);
      at = 0;
    }
    uint32_t run = pool->records - at;
    if (run > left) run = left;
    __builtin_memcpy(to, sd_segment_position(pool, head, at), run * sizeof *to);
    to += run;
    at += run;
    left -= run;
  }
}
#endif

/* An empty strand's last segment goes back to the pool. With the publish lock, by the owner or while nobody is. */
static inline void sd_strand_shed_locked(sd_strand *s, sd_segment_pool *pool, sd_segment_cache *cache) {
  uint32_t head = sd_load(&s->head, relaxed, Q1);
  if (head == SD_NONE || head != s->tail || sd_load(&s->at, relaxed, Q2) != s->fill) return;
  sd_store(&s->head, SD_NONE, relaxed, Q1);
  s->tail = SD_NONE;
  sd_segment_put(pool, cache, head);
}

/* Returns the last segment, so that a million quiet strands keep no memory. By the owner, when it has handled all it counted. Does
 * nothing while a publisher holds the lock: that publisher links more records, or it finds no segment and calls sd_strand_reclaim. */
static inline void sd_strand_shed(sd_strand *s, sd_segment_pool *pool, sd_segment_cache *cache) {
  if (!sd_try_lock(&s->publish_lock)) return;
  sd_strand_shed_locked(s, pool, cache);
  sd_unlock(&s->publish_lock);
}

/* By a publisher that holds the publish lock and found no segment. It takes back the used-up segment that an idle strand still has,
 * because nobody else would ever return it. */
static inline void sd_strand_reclaim(sd_strand *s, sd_segment_pool *pool, sd_segment_cache *cache) {
  /* P8: acquire; pairs with W4, as P3: 0 means that nobody drains, and that the last owner no longer uses head and at. */
  if (sd_load(&s->pending, acquire, P8) == 0) sd_strand_shed_locked(s, pool, cache);
}

/* A new segment at the end of the chain, under the publish lock. Zero: the pool has none. */
static inline int sd_strand_extend(sd_strand *s, sd_segment_pool *pool, sd_segment_cache *cache) {
  uint32_t segment = sd_segment_get(pool, cache), tail = s->tail;
  if (segment == SD_NONE) return 0;
  sd_strand_prefetch_segment(pool, cache);
  if (tail == SD_NONE) {
    /* Nobody holds the token of a strand without a segment, or the owner is done with head and at. */
    sd_store(&s->head, segment, relaxed, Q1);
    sd_store(&s->at, 0u, relaxed, Q2);
  } else {
    sd_store(&sd_segment_at(pool, tail)->next, segment, relaxed, Q3);
  }
  s->tail = segment;
  s->fill = 0;
  return 1;
}

static inline uint32_t sd_strand_link(sd_strand *s, sd_segment_pool *pool, sd_segment_cache *cache,
                                      const sd_byte *records, const uint16_t *pick, uint32_t n) {
  const sd_batch batch = {records, NULL, 0, NULL};
  return sd_strand_link_batch(s, pool, cache, &batch, pick, n);
}

static inline uint32_t sd_strand_link_batch(sd_strand *s, sd_segment_pool *pool, sd_segment_cache *cache,
                                            const sd_batch *batch, const uint16_t *pick, uint32_t n) {
  uint32_t done = 0;
  const size_t size = pool->record_size;
  while (done < n) {
    uint32_t fill = s->fill;
    if (s->tail == SD_NONE || fill == pool->records) {
      if (!sd_strand_extend(s, pool, cache)) break;
      fill = 0;
    }
    uint32_t run = pool->records - fill;
    if (run > n - done) run = n - done;
    sd_byte *to = sd_segment_record(pool, s->tail, fill);
    for (uint32_t i = 0; i < run; i++, to += size) {
      const uint32_t from = pick ? pick[done + i] : done + i;
      sd_copy(to, batch->records + from * size, size);
#if !defined(SD_MODEL_STRANDS)
      if (batch->keys) memcpy(to + batch->key_offset, &batch->keys[from], sizeof *batch->keys);
      if (batch->positions) sd_segment_position(pool, s->tail, fill)[i] = batch->positions[from];
#endif
    }
    s->fill = fill + run;
    done += run;
  }
  return done;
}
