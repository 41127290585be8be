#include "memory/pool.h"

#include <string.h>

enum {
  REGION_MIN = SD_HUGE_PAGE,
  REGION_MAX = 64 << 20,
  FILE_REGION_MAX = 4 << 20, /* all of a region is allocated at once */
  PIECE_MAX = 1 << 20,       /* a larger piece has its own pages, and the system gets them back with the piece */
  CLASSES = SD_POOL_CLASSES
};

#if defined(SD_ASAN)
#include <sanitizer/asan_interface.h>
enum { GAP = SD_LINE }; /* between two pieces */
#else
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at))
enum { GAP = 0 };
#endif

/* ---- sizes */

/* 64, 128, 192, 256, 384, 512, 768 and so on, all of them whole lines. From 192 on, each size is 3/2 or 4/3 of the one before. */
static size_t size_of(uint32_t class) {
  if (class < 2) return (size_t)SD_LINE << class;
  return (size_t)(class % 2 ? 4 : 3) * SD_LINE << (class / 2 - 1);
}

static uint32_t class_of(size_t bytes) {
  uint32_t class = 0;
  while (class < CLASSES && size_of(class) < bytes) class++;
  return class;
}

size_t sd_pool_larger(size_t bytes) { return size_of(class_of(bytes) + 1); }

/* ---- pieces */

/* Takes a region to cut pieces from. It is as large as all regions before it together, within bounds. 0: out of memory. */
static uint64_t new_region(const sd_pool *pool, uint64_t *bytes) {
  const uint64_t cut = pool->state->cut;
  const uint64_t maximum = sd_space_is_attachable(pool->space) ? FILE_REGION_MAX : REGION_MAX;
  *bytes = cut < REGION_MIN ? REGION_MIN : cut > maximum ? maximum : cut;
  const uint64_t at = sd_space_take(pool->space, *bytes, SD_HUGE_PAGE);
  if (!at || sd_space_fill(pool->space, at, *bytes)) return 0;
  sd_space_poison(pool->space, at, *bytes);
  return at;
}

static uint64_t cut(const sd_pool *pool, size_t size) {
  sd_pool_state *s = pool->state;
  if (s->end - s->at < size) {
    uint64_t bytes, at = new_region(pool, &bytes);
    if (!at) return 0;
    s->at = at;
    s->end = at + bytes;
    s->cut += bytes;
  }
  const uint64_t piece = s->at;
  s->at += size;
  return piece;
}

/* Takes the piece of a class that was given back last; 0: none is free. */
static uint64_t take_free(const sd_pool *pool, uint32_t class) {
  const uint64_t piece = pool->state->free[class];
  if (!piece) return 0;
  uint64_t *next = sd_space_at(pool->space, piece);
  ASAN_UNPOISON_MEMORY_REGION(next, sizeof *next);
  pool->state->free[class] = *next;
  *next = 0;
  return piece;
}

/* Puts a piece on the free list of its class, a LIFO. */
static void keep(const sd_pool *pool, uint32_t class, uint64_t piece) {
  *(uint64_t *)sd_space_at(pool->space, piece) = pool->state->free[class];
  pool->state->free[class] = piece;
}

static int has_pages(uint32_t class) { return size_of(class) > PIECE_MAX; }

/* Takes a piece that has its own pages. All of it is zeros. */
static uint64_t take_pages(const sd_pool *pool, uint32_t class, size_t bytes) {
  const uint64_t old = take_free(pool, class);
  const uint64_t piece = old ? old : sd_space_take(pool->space, size_of(class), SD_SPACE_PAGE);
  if (piece && !sd_space_fill(pool->space, piece, bytes)) return piece;
  if (old) keep(pool, class, old);
  return 0;
}

void *sd_pool_take(sd_pool *pool, size_t bytes) {
  const uint32_t class = class_of(bytes + GAP);
  if (class == CLASSES) return NULL;
  sd_lock(&pool->state->lock);
  uint64_t piece = has_pages(class) ? take_pages(pool, class, bytes) : take_free(pool, class);
  if (!piece && !has_pages(class)) piece = cut(pool, size_of(class));
  sd_unlock(&pool->state->lock);
  if (!piece) return NULL;
  ASAN_UNPOISON_MEMORY_REGION(sd_space_at(pool->space, piece), bytes);
  return sd_space_at(pool->space, piece);
}

void *sd_pool_take_zeros(sd_pool *pool, size_t bytes) {
  void *piece = sd_pool_take(pool, bytes);
  if (piece && !has_pages(class_of(bytes + GAP))) memset(piece, 0, bytes);
  return piece;
}

void sd_pool_give(sd_pool *pool, void *piece, size_t bytes) {
  if (!piece) return;
  const uint32_t class = class_of(bytes + GAP);
  const uint64_t at = sd_space_offset(pool->space, piece);
  /* The first page holds the link of the free list. If the system does not take the other pages back, they have to be cleared here. */
  if (has_pages(class)) {
    memset(piece, 0, SD_SPACE_PAGE);
    if (sd_space_empty(pool->space, at + SD_SPACE_PAGE, size_of(class) - SD_SPACE_PAGE)) memset(piece, 0, bytes);
  }
  sd_lock(&pool->state->lock);
  keep(pool, class, at);
  sd_unlock(&pool->state->lock);
  sd_space_poison(pool->space, at, bytes);
}
