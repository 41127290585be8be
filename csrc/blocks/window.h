/* A window of blocks: the protocol by which threads make blocks, adopt them in their order, and handle them home by home.
 *
 * A source is cut into blocks, numbered from 0. Each thread takes the next number and makes that block in a slot of the window: it sorts
 * the block's records into a list per home. A home is a group of strands. Blocks are adopted in their order, because only then is it known
 * where a block begins, and which numbers its records have. An adopted block is handled once by each home, and each home handles blocks in
 * their order, so records of a strand keep their order.
 *
 *   inside     who takes part, and whether one still may
 *   taken      the next block to be made, and whether there may be one
 *   made       per slot: one more than the block in it, once that is made
 *   adopting   a lock: one thread at a time adopts
 *   adopted    blocks before it are adopted
 *   token      per home, a lock: its holder handles the home's lists, and owns the rows of its strands
 *   next       per home: the next block that it handles; changed only by the token's holder
 *
 * A slot is used again when every home has passed the block in it. A thread that loses its core while it holds anything holds the others
 * up by the length of the window. Nothing is ever waited for under a lock, and a thread that finds nothing to do looks again: so no
 * wake-up has to be sent, and none can be lost. */
#pragma once

#include "base/atomic.h"

#define SD_WINDOW_OPEN (UINT64_C(1) << 32)
#define SD_WINDOW_CLOSED (UINT64_C(1) << 63)
#define SD_NO_BLOCK UINT64_MAX

typedef struct sd_home {
  SD_ALIGNED(2 * SD_LINE) sd_a32 token;
  sd_a64 next;
} sd_home;

typedef struct sd_window {
  SD_ALIGNED(2 * SD_LINE) sd_a64 inside;
  SD_ALIGNED(2 * SD_LINE) sd_a64 taken;
  SD_ALIGNED(2 * SD_LINE) sd_a32 adopting;
  sd_a64 adopted;
  sd_a64 end; /* no block from this one on is adopted */
  /* written before the window opens */
  SD_ALIGNED(2 * SD_LINE) SD_PLAIN(uint64_t) n_blocks;
  SD_PLAIN(uint32_t) n_homes;
  SD_PLAIN(uint32_t) n_slots;
  sd_home *home;
  sd_a64 *made;
} sd_window;

/* ---- taking part */

/* By the thread that runs the window, after it has set up everything else. */
static inline void sd_window_open(sd_window *w) {
  for (uint32_t i = 0; i < w->n_slots; i++) sd_init(&w->made[i], 0u);
  for (uint32_t h = 0; h < w->n_homes; h++) sd_init(&w->home[h].next, 0u);
  sd_init(&w->taken, 0u);
  sd_init(&w->adopted, 0u);
  sd_init(&w->end, SD_NO_BLOCK);
  /* H1: acq_rel; release pairs with the acquire of those who enter: they see the window as it was set up. A read-modify-write, because
   * somebody who came too late may be counted for a moment. */
  sd_fetch_or(&w->inside, SD_WINDOW_OPEN, acq_rel, H1);
}

/* Zero: the window is not open. */
static inline int sd_window_enter(sd_window *w) {
  /* H1: acq_rel; see above. Release passes on what others left behind, so that nothing relies on release sequences. */
  if (SD_LIKELY(sd_fetch_add(&w->inside, UINT64_C(1), acq_rel, H1) & SD_WINDOW_OPEN)) return 1;
  sd_fetch_sub(&w->inside, UINT64_C(1), acq_rel, H1);
  return 0;
}

static inline void sd_window_leave(sd_window *w) {
  /* H1: acq_rel; release pairs with the acquire of sd_window_empty. */
  sd_fetch_sub(&w->inside, UINT64_C(1), acq_rel, H1);
}

/* Whether a thread may enter. H2: relaxed; a hint. */
static inline int sd_window_is_open(sd_window *w) { return (sd_load(&w->inside, relaxed, H2) & SD_WINDOW_OPEN) != 0; }

/* By the thread that opened the window: nobody enters any more. */
static inline void sd_window_shut(sd_window *w) { sd_fetch_and(&w->inside, ~SD_WINDOW_OPEN, acq_rel, H1); }

/* Whether all have left. If so, the caller sees all that they did. */
static inline int sd_window_empty(sd_window *w) {
  /* H3: acquire; pairs with H1 of those who left. */
  return sd_load(&w->inside, acquire, H3) == 0;
}

/* ---- blocks */

/* The block that the slowest home handles next. */
static inline uint64_t sd_window_slowest(sd_window *w) {
  uint64_t least = UINT64_MAX;
  for (uint32_t h = 0; h < w->n_homes; h++) {
    /* H4: acquire; pairs with H4 of the home's holders: whoever uses a slot again comes after those who read it. */
    const uint64_t next = sd_load(&w->home[h].next, acquire, H4);
    if (next < least) least = next;
  }
  return least;
}

/* Takes a block to be made. SD_NO_BLOCK: there is no free slot, or no block any more. */
static inline uint64_t sd_window_take(sd_window *w) {
  /* H5: relaxed; the compare-and-swap decides, and what a slot holds is ordered by H4. */
  uint64_t block = sd_load(&w->taken, relaxed, H5);
  do {
    if (block >= w->n_blocks || block - sd_window_slowest(w) >= w->n_slots) return SD_NO_BLOCK;
  } while (!sd_cas(&w->taken, &block, block + 1, relaxed, H5));
  return block;
}

/* No further block is taken. From any thread inside. */
static inline void sd_window_close(sd_window *w) { sd_fetch_or(&w->taken, SD_WINDOW_CLOSED, relaxed, H5); }

/* How many blocks were taken. */
static inline uint64_t sd_window_taken(sd_window *w) { return sd_load(&w->taken, relaxed, H5) & ~SD_WINDOW_CLOSED; }

static inline void sd_window_made(sd_window *w, uint64_t block) {
  /* H6: release; pairs with H6 of the thread that adopts: it sees the block. */
  sd_store(&w->made[block % w->n_slots], block + 1, release, H6);
}

/* The block to be adopted next, under the lock of adoption, which the caller then holds. SD_NO_BLOCK: it is not made yet, or another
 * thread is adopting. */
static inline uint64_t sd_window_begin_adopting(sd_window *w) {
  /* H7: relaxed; a hint, and under the lock the holder's own. */
  const uint64_t hint = sd_load(&w->adopted, relaxed, H7);
  if (sd_load(&w->made[hint % w->n_slots], relaxed, H7) != hint + 1 || !sd_try_lock(&w->adopting)) return SD_NO_BLOCK;
  const uint64_t block = sd_load(&w->adopted, relaxed, H7);
  /* H6: acquire; see sd_window_made. */
  if (block < sd_load(&w->end, relaxed, H7) && sd_load(&w->made[block % w->n_slots], acquire, H6) == block + 1)
    return block;
  sd_unlock(&w->adopting);
  return SD_NO_BLOCK;
}

/* Ends what sd_window_begin_adopting began. `is_part`: the block is adopted; else none is from it on. */
static inline void sd_window_end_adopting(sd_window *w, uint64_t block, int is_part) {
  if (is_part) {
    /* H8: release; pairs with H8 of a home's holder: it sees the block as it was adopted. */
    sd_store(&w->adopted, block + 1, release, H8);
  } else {
    sd_window_close(w);
    sd_store(&w->end, block, relaxed, H7);
  }
  sd_unlock(&w->adopting);
}

/* ---- homes */

/* How many adopted blocks a home has not handled. A hint. */
static inline uint64_t sd_home_behind(sd_window *w, uint32_t h) {
  const uint64_t next = sd_load(&w->home[h].next, relaxed, H7);
  return sd_load(&w->adopted, relaxed, H7) - next;
}

/* Takes the home's token if there is something to handle. The caller then handles blocks *from up to the result. 0: there is nothing, or
 * another thread has the token. */
static inline uint64_t sd_home_begin(sd_window *w, uint32_t h, uint64_t *from) {
  sd_home *home = &w->home[h];
  if (!sd_home_behind(w, h) || !sd_try_lock(&home->token)) return 0;
  *from = sd_load(&home->next, relaxed, H7);
  /* H8: acquire; see sd_window_end_adopting. */
  const uint64_t to = sd_load(&w->adopted, acquire, H8);
  if (to != *from) return to;
  sd_unlock(&home->token);
  return 0;
}

/* By the token's holder: the home has handled the block. */
static inline void sd_home_passed(sd_window *w, uint32_t h, uint64_t block) {
  /* H4: release; pairs with H4 of sd_window_slowest. */
  sd_store(&w->home[h].next, block + 1, release, H4);
}

static inline void sd_home_end(sd_window *w, uint32_t h) { sd_unlock(&w->home[h].token); }

/* Whether everything that was taken has been adopted and handled, as far as it is part, and nothing more will be taken. If so, the caller
 * sees what all homes' holders did. */
static inline int sd_window_over(sd_window *w) {
  const uint64_t word = sd_load(&w->taken, relaxed, H5), end = sd_load(&w->end, relaxed, H7);
  uint64_t taken = word & ~SD_WINDOW_CLOSED;
  if (taken == word && taken < w->n_blocks) return 0;
  if (end < taken) taken = end;
  return sd_load(&w->adopted, relaxed, H7) == taken && sd_window_slowest(w) == taken;
}
