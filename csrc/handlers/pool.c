#define _GNU_SOURCE
#include "handlers/pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
  LINE = 64,
  HUGE_PAGE = 2 << 20,
  REGION_LEAST = HUGE_PAGE,
  REGION_MOST = 64 << 20,
  PIECE_MOST = 1 << 20 /* larger ones are regions of their own, and go back to the system */
};

/* Under a sanitizer every piece is an allocation, so that what is outside of it is noticed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLAIN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PLAIN 1
#endif
#endif
#ifndef PLAIN
#define PLAIN 0
#endif

/* ---- regions */

/* Whole huge pages at a place that one can start at. */
static sd_pool_region *map_region(size_t bytes) {
  size_t asked = bytes + HUGE_PAGE;
  unsigned char *at = mmap(NULL, asked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return NULL;
  size_t before = (HUGE_PAGE - (uintptr_t)at % HUGE_PAGE) % HUGE_PAGE;
  if (before) munmap(at, before);
  if (HUGE_PAGE - before) munmap(at + before + bytes, HUGE_PAGE - before);
  sd_pool_region *region = (sd_pool_region *)(at + before);
  madvise(region, bytes, MADV_HUGEPAGE);
  return region;
}

static size_t whole_pages(size_t bytes) { return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE; }

static sd_pool_region *new_region(sd_pool *pool, size_t bytes) {
  sd_pool_region *region = PLAIN ? aligned_alloc(LINE, (bytes + LINE - 1) / LINE * LINE) : map_region(bytes);
  if (!region) return NULL;
  region->pool = pool;
  region->bytes = bytes;
  region->prev = NULL;
  region->next = pool->regions;
  if (region->next) region->next->prev = region;
  pool->regions = region;
  return region;
}

static void drop_region(sd_pool *pool, sd_pool_region *region) {
  if (region->next) region->next->prev = region->prev;
  if (region->prev) region->prev->next = region->next;
  else pool->regions = region->next;
  if (PLAIN) free(region);
  else munmap(region, region->bytes);
}

/* ---- sizes */

/* 64, 128, 192, 256, 384, 512, 768 and so on: the next one at least half as large again, and all of them whole lines. */
static size_t size_of(uint32_t class) {
  if (class < 2) return (size_t)LINE << class;
  return (size_t)(class % 2 ? 4 : 3) * LINE << (class / 2 - 1);
}

static uint32_t class_of(size_t bytes) {
  uint32_t class = 0;
  while (size_of(class) < bytes) class++;
  return class;
}

size_t sd_pool_larger(size_t bytes) { return size_of(class_of(bytes) + 1); }

/* ---- pieces */

void sd_pools_init(sd_pools *pools) {
  memset(pools, 0, sizeof *pools);
  for (int i = 0; i < SD_POOLS; i++) pthread_mutex_init(&pools->pool[i].lock, NULL);
}

void sd_pools_destroy(sd_pools *pools) {
  for (int i = 0; i < SD_POOLS; i++) {
    sd_pool *pool = &pools->pool[i];
    while (pool->regions) drop_region(pool, pool->regions);
    pthread_mutex_destroy(&pool->lock);
  }
}

/* A region of its own, one line in. */
static void *take_large(sd_pool *pool, size_t bytes) {
  if (bytes > SIZE_MAX / 2) return NULL;
  sd_pool_region *region = new_region(pool, PLAIN ? bytes + LINE : whole_pages(bytes + LINE));
  return region ? (unsigned char *)region + LINE : NULL;
}

static void *cut(sd_pool *pool, size_t size) {
  if ((size_t)(pool->end - pool->at) < size) {
    size_t bytes = pool->cut;
    bytes = bytes < REGION_LEAST ? REGION_LEAST : bytes > REGION_MOST ? REGION_MOST : bytes;
    sd_pool_region *region = new_region(pool, bytes);
    if (!region) return NULL;
    pool->at = (unsigned char *)region + LINE;
    pool->end = (unsigned char *)region + bytes;
    pool->cut += bytes;
  }
  void *piece = pool->at;
  pool->at += size;
  return piece;
}

void *sd_pool_take(sd_pool *pool, size_t bytes) {
  void *piece;
  pthread_mutex_lock(&pool->lock);
  if (PLAIN || bytes > PIECE_MOST) {
    piece = take_large(pool, bytes);
  } else {
    uint32_t class = class_of(bytes);
    piece = pool->free[class];
    if (piece) pool->free[class] = *(void **)piece;
    else piece = cut(pool, size_of(class));
  }
  pthread_mutex_unlock(&pool->lock);
  return piece;
}

void *sd_pool_take_zeros(sd_pool *pool, size_t bytes) {
  void *piece = sd_pool_take(pool, bytes);
  /* A large one is fresh from the system. */
  if (piece && (PLAIN || bytes <= PIECE_MOST)) memset(piece, 0, bytes);
  return piece;
}

void sd_pool_give(sd_pool *pool, void *piece, size_t bytes) {
  if (!piece) return;
  if (PLAIN || bytes > PIECE_MOST) {
    sd_pool_region *region = (sd_pool_region *)((unsigned char *)piece - LINE);
    pool = region->pool;
    pthread_mutex_lock(&pool->lock);
    drop_region(pool, region);
  } else {
    uint32_t class = class_of(bytes);
    pthread_mutex_lock(&pool->lock);
    *(void **)piece = pool->free[class];
    pool->free[class] = piece;
  }
  pthread_mutex_unlock(&pool->lock);
}
