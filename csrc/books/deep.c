#include "books/deep.h"

#include <string.h>

#include "base/atomic.h"

enum { KEPT = SD_CHUNK / 2 };

static sd_deep_chunk *root_of(const sd_deep *d) { return sd_relative_get(&d->root); }

/* The number that stands for a chunk in the chunk above it, and back. */
static int64_t distance_to(const sd_deep_chunk *below, const sd_deep_chunk *chunk) {
  return (int64_t)((uintptr_t)below - (uintptr_t)chunk);
}

static sd_deep_chunk *below_at(const sd_deep_chunk *chunk, uint64_t at) {
  return (sd_deep_chunk *)((uintptr_t)chunk + (uintptr_t)chunk->below[at]);
}

void sd_deep_move(sd_deep *to, const sd_deep *from) {
  *to = *from;
  sd_relative_set(&to->root, sd_relative_or_null(&from->root));
  sd_relative_set(&to->spare, sd_relative_or_null(&from->spare));
}

/* ---- chunks */

static sd_deep_chunk *open_chunk(sd_deep *d, uint64_t n) {
  sd_deep_chunk *chunk = sd_relative_get(&d->spare);
  sd_relative_set(&d->spare, sd_relative_or_null(&chunk->next));
  d->spares--;
  chunk->n = n;
  return chunk;
}

static void close_chunk(sd_deep *d, sd_deep_chunk *chunk) {
  sd_relative_set(&chunk->next, sd_relative_or_null(&d->spare));
  sd_relative_set(&d->spare, chunk);
  d->spares++;
}

int sd_deep_reserve(sd_deep *d, sd_pool *pool) {
  if (d->height + 1 == SD_DEEP_HEIGHT) return 0;
  /* Every chunk on the way may need a second one, and a new root and a new best chunk may be needed. */
  while (d->spares < d->height + 2) {
    sd_deep_chunk *chunk = sd_pool_take(pool, sizeof *chunk);
    if (!chunk) return 0;
    close_chunk(d, chunk);
    d->taken++;
  }
  return 1;
}

static void add_key(sd_deep_chunk *chunk, uint64_t at, uint64_t key, int64_t value) {
  const uint64_t after = chunk->n++ - at;
  memmove(&chunk->keys[at + 1], &chunk->keys[at], after * sizeof *chunk->keys);
  memmove(&chunk->values[at + 1], &chunk->values[at], after * sizeof *chunk->values);
  chunk->keys[at] = key;
  chunk->values[at] = value;
}

static void remove_key(sd_deep_chunk *chunk, uint64_t at) {
  const uint64_t after = --chunk->n - at;
  memmove(&chunk->keys[at], &chunk->keys[at + 1], after * sizeof *chunk->keys);
  memmove(&chunk->values[at], &chunk->values[at + 1], after * sizeof *chunk->values);
}

/* Copies what a chunk has, from a place on, to the end of another chunk; both are h steps above the lowest ones. */
static void append(sd_deep_chunk *to, const sd_deep_chunk *from, uint64_t at, uint32_t h) {
  const uint64_t n = from->n - at;
  memcpy(&to->keys[to->n], &from->keys[at], n * sizeof *to->keys);
  memcpy(&to->values[to->n], &from->values[at], n * sizeof *to->values);
  for (uint64_t i = 0; h && i < n; i++) to->below[to->n + i] += distance_to(from, to);
  to->n += n;
}

/* How many keys are worse. */
static uint64_t worse_in(const sd_deep_chunk *chunk, uint64_t key) {
  uint64_t low = 0;
  for (uint64_t left = chunk->n; left;) {
    const uint64_t half = (left + 1) / 2;
    low += half & -(uint64_t)(chunk->keys[low + half - 1] < key);
    left -= half;
  }
  return low;
}

/* The only chunk below in which a key may lie. */
static uint64_t below_in(const sd_deep_chunk *chunk, uint64_t key) {
  uint64_t low = 0;
  for (uint64_t left = chunk->n - 1; left;) {
    const uint64_t half = (left + 1) / 2;
    low += half & -(uint64_t)(chunk->keys[low + half] <= key);
    left -= half;
  }
  return low;
}

/* ---- ways from the root down */

int sd_deep_find(const sd_deep *d, uint64_t key, sd_deep_place *place) {
  sd_deep_chunk *chunk = root_of(d);
  for (uint32_t h = d->height - 1; h; h--) {
    const uint64_t at = below_in(chunk, key);
    place->step[h].chunk = chunk;
    place->step[h].at = at;
    chunk = below_at(chunk, at);
    /* A binary search would wait for each of these lines. */
    for (uint32_t i = 0; i < SD_CHUNK; i += SD_LINE / sizeof *chunk->keys) sd_prefetch((const char *)&chunk->keys[i]);
  }
  const uint64_t at = worse_in(chunk, key);
  place->step[0].chunk = chunk;
  place->step[0].at = at;
  return at < chunk->n && chunk->keys[at] == key;
}

/* Goes from a chunk, so many steps above the lowest ones, down to its best key. */
static void go_to_best(sd_deep_place *place, sd_deep_chunk *chunk, uint32_t h) {
  for (;; h--) {
    place->step[h].chunk = chunk;
    place->step[h].at = chunk->n - 1;
    if (!h) return;
    chunk = below_at(chunk, chunk->n - 1);
  }
}

const sd_deep_chunk *sd_deep_best(const sd_deep *d) {
  sd_deep_place place;
  go_to_best(&place, root_of(d), d->height - 1);
  return place.step[0].chunk;
}

uint64_t sd_deep_worst(const sd_deep *d) {
  const sd_deep_chunk *chunk = root_of(d);
  for (uint32_t h = d->height - 1; h; h--) chunk = below_at(chunk, 0);
  return chunk->keys[0];
}

int sd_deep_next(const sd_deep *d, sd_deep_cursor *cursor, uint64_t *key, int64_t *value) {
  sd_deep_place *place = &cursor->place;
  uint32_t h = 0;
  if (!place->step[0].chunk) {
    if (!d->height) return 0;
    go_to_best(place, root_of(d), d->height - 1);
  } else {
    while (h < d->height && !place->step[h].at) h++;
    if (h == d->height) return 0;
    place->step[h].at--;
    if (h) go_to_best(place, below_at(place->step[h].chunk, place->step[h].at), h - 1);
  }
  const sd_deep_chunk *chunk = place->step[0].chunk;
  *key = chunk->keys[place->step[0].at];
  *value = chunk->values[place->step[0].at];
  return 1;
}

/* ---- changes */

static void new_root(sd_deep *d, sd_deep_place *place) {
  sd_deep_chunk *root = open_chunk(d, 1);
  root->keys[0] = 0;
  root->below[0] = distance_to(root_of(d), root);
  sd_relative_set(&d->root, root);
  place->step[d->height].chunk = root;
  place->step[d->height++].at = 0;
}

/* Adds a key and its value to a chunk h steps above the lowest ones. The value is the address of the chunk behind the one through which
 * the place leads. */
static void insert_above(sd_deep *d, sd_deep_place *place, uint32_t h, uint64_t key, int64_t value) {
  if (h == d->height) new_root(d, place);
  sd_deep_chunk *chunk = place->step[h].chunk;
  uint64_t at = place->step[h].at + (h != 0);
  if (chunk->n == SD_CHUNK) {
    sd_deep_chunk *better = open_chunk(d, 0);
    append(better, chunk, KEPT, h);
    chunk->n = KEPT;
    insert_above(d, place, h + 1, better->keys[0], (int64_t)(intptr_t)better);
    if (at > KEPT) {
      chunk = better;
      at -= KEPT;
    }
  }
  add_key(chunk, at, key, h ? value - (int64_t)(intptr_t)chunk : value);
}

void sd_deep_insert(sd_deep *d, sd_deep_place *place, uint64_t key, int64_t value) {
  insert_above(d, place, 0, key, value);
  d->levels++;
}

/* Takes a chunk's better neighbour into it, if both together fill at most half of one. So levels that went give their memory back. */
static int joined(sd_deep *d, sd_deep_chunk *above, uint64_t at, uint32_t h) {
  if (at + 1 >= above->n) return 0;
  sd_deep_chunk *worse = below_at(above, at), *better = below_at(above, at + 1);
  if (worse->n + better->n > SD_CHUNK / 2) return 0;
  if (h) better->keys[0] = above->keys[at + 1]; /* nobody used a first chunk's key, and it may be too high */
  append(worse, better, 0, h);
  close_chunk(d, better);
  remove_key(above, at + 1);
  return 1;
}

/* Shrinks the chunks on the way that have become small or empty. */
static void shrink(sd_deep *d, sd_deep_place *place) {
  for (uint32_t h = 0; h + 1 < d->height; h++) {
    sd_deep_chunk *chunk = place->step[h].chunk, *above = place->step[h + 1].chunk;
    const uint64_t at = place->step[h + 1].at;
    if (!chunk->n) {
      remove_key(above, at);
      close_chunk(d, chunk);
    } else if (!joined(d, above, at, h) && (!at || !joined(d, above, at - 1, h))) {
      return;
    }
  }
  while (d->height) {
    sd_deep_chunk *root = root_of(d), *left = d->height > 1 && root->n ? below_at(root, 0) : NULL;
    if (root->n > (d->height > 1)) return;
    sd_relative_set(&d->root, left);
    d->height = left ? d->height - 1 : 0;
    close_chunk(d, root);
  }
}

void sd_deep_remove(sd_deep *d, sd_deep_place *place) {
  remove_key(place->step[0].chunk, place->step[0].at);
  d->levels--;
  shrink(d, place);
}

sd_deep_chunk *sd_deep_push(sd_deep *d, uint64_t worst, uint32_t n) {
  sd_deep_chunk *chunk = open_chunk(d, n);
  d->levels += n;
  if (d->height) {
    sd_deep_place place;
    go_to_best(&place, root_of(d), d->height - 1);
    insert_above(d, &place, 1, worst, (int64_t)(intptr_t)chunk);
  } else {
    sd_relative_set(&d->root, chunk);
    d->height = 1;
  }
  return chunk;
}

void sd_deep_pop(sd_deep *d) {
  sd_deep_place place;
  go_to_best(&place, root_of(d), d->height - 1);
  d->levels -= (uint32_t)place.step[0].chunk->n;
  place.step[0].chunk->n = 0;
  shrink(d, &place);
}

void sd_deep_cut(sd_deep *d, uint64_t key) {
  while (d->height && sd_deep_best(d)->keys[0] > key) sd_deep_pop(d);
  if (!d->height) return;
  sd_deep_place place;
  go_to_best(&place, root_of(d), d->height - 1);
  sd_deep_chunk *chunk = place.step[0].chunk;
  const uint64_t worse = worse_in(chunk, key), kept = worse + (worse < chunk->n && chunk->keys[worse] == key);
  d->levels -= (uint32_t)(chunk->n - kept);
  chunk->n = kept;
}

void sd_deep_clear(sd_deep *d) {
  while (d->height) sd_deep_pop(d);
}
