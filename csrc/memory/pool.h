/* Memory for many arrays that grow: pieces of a few sizes, cut from regions of a space.
 *
 * Books of thousands of symbols are tens of megabytes that every tick reads in a handful of places: with pages of 4 KB each of
 * those costs a walk of the page table beside the miss. A piece that is given back is kept for the next one of its size.
 * Any thread may call these. There are several pools, so that threads that all begin to grow books do not wait for each other:
 * a first touch of a huge page takes a quarter of a millisecond, on a virtual machine that has yet to get it some eight, and
 * threads that touch the same one each clear a page of their own, of which all but one are thrown away.
 *
 * Under AddressSanitizer what is not handed out is poisoned.
 */
#ifndef SD_MEMORY_POOL_H
#define SD_MEMORY_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "memory/space.h"

enum { SD_POOL_CLASSES = 64, SD_POOLS = 16 };

/* Under the lock. Offsets. */
typedef struct sd_pool_state {
  SD_ALIGNED(2 * SD_LINE) sd_a32 lock;
  uint64_t free[SD_POOL_CLASSES]; /* pieces given back, linked by their first words; 0: none */
  uint64_t at, end;               /* what is left of the newest region */
  uint64_t cut;                   /* bytes of the regions that pieces are cut from */
} sd_pool_state;

/* In the space whose pieces they have. All zero: nothing was taken yet. */
typedef struct sd_pools {
  sd_pool_state state[SD_POOLS];
} sd_pools;

/* One of them, to who takes from it. */
typedef struct sd_pool {
  sd_pool_state *state;
  sd_space *space;
} sd_pool;

/* The pool that a participant takes from. */
static inline sd_pool sd_pools_of(sd_pools *pools, sd_space *space, uint32_t participant) {
  return (sd_pool){&pools->state[participant % SD_POOLS], space};
}

/* A piece of at least `bytes`, at a cache line; NULL: no memory. Its content is anything. */
void *sd_pool_take(sd_pool *pool, size_t bytes);
/* The same, all zeros: of a large one no more is made than is touched. */
void *sd_pool_take_zeros(sd_pool *pool, size_t bytes);
/* The size to grow to from `bytes`, a third or a half more: one that a piece has anyhow. */
size_t sd_pool_larger(size_t bytes);
/* Gives back a piece that was taken with the same `bytes`, from this pool or another of the same sd_pools; NULL is passed over. */
void sd_pool_give(sd_pool *pool, void *piece, size_t bytes);

#endif
