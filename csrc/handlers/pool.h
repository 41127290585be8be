/* Memory for many arrays that grow: pieces of a few sizes, cut from regions that ask for huge pages.
 *
 * Books of thousands of symbols are tens of megabytes that every tick reads in a handful of places: with pages of 4 KB each of
 * those costs a walk of the page table beside the miss. A piece that is given back is kept for the next one of its size.
 * Any thread may call these.
 */
#ifndef SD_HANDLERS_POOL_H
#define SD_HANDLERS_POOL_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

enum { SD_POOL_CLASSES = 40 };

typedef struct sd_pool_region {
  struct sd_pool_region *next, *prev;
  size_t bytes;
} sd_pool_region;

typedef struct sd_pool {
  pthread_mutex_t lock;
  void *free[SD_POOL_CLASSES]; /* linked by their first words */
  unsigned char *at, *end;     /* what is left of the newest region */
  sd_pool_region *regions;
  uint64_t bytes; /* of pieces in use */
} sd_pool;

void sd_pool_init(sd_pool *pool);
/* Everything that was taken and not given back goes too. */
void sd_pool_destroy(sd_pool *pool);

/* A piece of at least `bytes`, at a cache line; NULL: no memory. Its content is anything. */
void *sd_pool_take(sd_pool *pool, size_t bytes);
/* The same, all zeros: of a large one no more is made than is touched. */
void *sd_pool_take_zeros(sd_pool *pool, size_t bytes);
/* The size to grow to from `bytes`, a third or a half more: one that a piece has anyhow. */
size_t sd_pool_larger(size_t bytes);
/* Gives back a piece that was taken with the same `bytes`; NULL is passed over. */
void sd_pool_give(sd_pool *pool, void *piece, size_t bytes);

#endif
