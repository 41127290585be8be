/* Memory for many arrays that grow: pieces of a few sizes, cut from regions that ask for huge pages.
 *
 * Books of thousands of symbols are tens of megabytes that every tick reads in a handful of places: with pages of 4 KB each of
 * those costs a walk of the page table beside the miss. A piece that is given back is kept for the next one of its size.
 * Any thread may call these. There are several pools, so that threads that all begin to grow books do not wait for each other:
 * a first touch of a huge page takes a quarter of a millisecond, on a virtual machine that has yet to get it some eight, and
 * threads that touch the same one each clear a page of their own, of which all but one are thrown away.
 */
#ifndef SD_HANDLERS_POOL_H
#define SD_HANDLERS_POOL_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum { SD_POOL_CLASSES = 40, SD_POOLS = 16 };

typedef struct sd_pool_region {
  struct sd_pool *pool;
  struct sd_pool_region *next, *prev;
  size_t bytes;
} sd_pool_region;

typedef struct sd_pool {
  _Alignas(64) pthread_mutex_t lock;
  void *free[SD_POOL_CLASSES]; /* linked by their first words */
  unsigned char *at, *end;     /* what is left of the newest region */
  sd_pool_region *regions;
  uint64_t cut; /* bytes of the regions that pieces are cut from */
} sd_pool;

typedef struct sd_pools {
  sd_pool pool[SD_POOLS];
} sd_pools;

void sd_pools_init(sd_pools *pools);
/* Everything that was taken and not given back goes too. */
void sd_pools_destroy(sd_pools *pools);

/* The one for a worker or publisher (sd_context's slot). */
static inline sd_pool *sd_pools_of(sd_pools *pools, uint32_t slot) { return &pools->pool[slot % SD_POOLS]; }

/* A piece of at least `bytes`, at a cache line; NULL: no memory. Its content is anything. */
void *sd_pool_take(sd_pool *pool, size_t bytes);
/* The same, all zeros: of a large one no more is made than is touched. */
void *sd_pool_take_zeros(sd_pool *pool, size_t bytes);
/* The size to grow to from `bytes`, a third or a half more: one that a piece has anyhow. */
size_t sd_pool_larger(size_t bytes);
/* Gives back a piece that was taken with the same `bytes`, from this pool or another of the same sd_pools; NULL is passed over. */
void sd_pool_give(sd_pool *pool, void *piece, size_t bytes);

#endif
