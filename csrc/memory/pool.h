/* Memory for many arrays that grow: pieces of a few sizes, cut from regions of a space.
 *
 * The books of thousands of symbols take tens of megabytes, and each tick reads a handful of places in them. With pages of 4 KB, each of
 * these reads would cost a walk of the page table in addition to the cache miss; so regions are large enough for huge pages. A piece that
 * is given back is kept for the next caller that wants its size.
 *
 * Any thread may call these functions. There are several pools, so that threads do not wait for each other when all of them begin to grow
 * books. The first touch of a huge page takes a quarter of a millisecond, or some eight milliseconds on a virtual machine that has to get
 * the page from its host first. If several threads touch one page first, each of them clears a page, and all of these but one are thrown
 * away.
 *
 * Under AddressSanitizer, memory that is not handed out is poisoned. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "memory/space.h"

enum { SD_POOL_CLASSES = 64, SD_POOLS = 16 };

/* Protected by the lock. Positions are offsets in the space. */
typedef struct sd_pool_state {
  SD_ALIGNED(2 * SD_LINE) sd_a32 lock;
  uint64_t free[SD_POOL_CLASSES]; /* pieces given back, linked by their first words; 0: none */
  uint64_t at, end;               /* the unused part of the newest region */
  uint64_t cut;                   /* total bytes of the regions */
} sd_pool_state;

/* Lies in the space that the pieces come from. All zeros is a valid state: nothing has been taken. */
typedef struct sd_pools {
  sd_pool_state state[SD_POOLS];
} sd_pools;

/* One of the pools, as a caller uses it. */
typedef struct sd_pool {
  sd_pool_state *state;
  sd_space *space;
} sd_pool;

/* The pool that a participant takes from. */
static inline sd_pool sd_pools_of(sd_pools *pools, sd_space *space, uint32_t participant) {
  return (sd_pool){&pools->state[participant % SD_POOLS], space};
}

/* Returns a piece of at least `bytes`, aligned to a cache line; NULL: out of memory. The content is undefined. */
void *sd_pool_take(sd_pool *pool, size_t bytes);
/* Returns the same, all zeros. A large piece is not cleared here: its pages are zeros already, and in a private space they use no memory
 * until they are touched. */
void *sd_pool_take_zeros(sd_pool *pool, size_t bytes);
/* Returns the size to which an array of `bytes` should grow: a third or a half more, and exactly the size of a piece. */
size_t sd_pool_larger(size_t bytes);
/* Gives a piece back. `bytes` is what it was taken with; the pool may be another one of the same sd_pools. NULL is ignored. */
void sd_pool_give(sd_pool *pool, void *piece, size_t bytes);
