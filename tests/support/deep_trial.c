/* The tree of far levels (csrc/books/deep.h) against a sorted array, over changes drawn at random. Its value of a key is three
 * times the key. Phases that grow and phases that shrink take turns, so chunks split, empty, join and go. */
#include <string.h>

#include "books/deep.h"

enum { MAX_KEYS = 1 << 16 };

static uint64_t state, keys[MAX_KEYS];
static uint64_t n;

static uint64_t draw(uint64_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state % below;
}

static uint64_t place_of(uint64_t key) {
  uint64_t at = 0;
  while (at < n && keys[at] < key) at++;
  return at;
}

static int same(const sd_deep *d) {
  sd_deep_cursor cursor = {0};
  uint64_t key, left = n;
  int64_t value;
  while (sd_deep_next(d, &cursor, &key, &value))
    if (!left-- || key != keys[left] || value != 3 * (int64_t)key) return 0;
  return !left && d->levels == n && (n ? sd_deep_worst(d) == keys[0] : !d->height);
}

static void push(sd_deep *d, uint64_t worst) {
  const uint64_t more = 1 + draw(SD_CHUNK);
  sd_deep_chunk *chunk = sd_deep_push(d, worst, (uint32_t)more);
  for (uint64_t i = 0; i < more; i++) {
    keys[n++] = chunk->keys[i] = worst + i;
    chunk->values[i] = 3 * (int64_t)(worst + i);
  }
}

/* One change; zero: the tree did not say what the array says. */
static int change(sd_deep *d, uint64_t key, uint64_t what, int grows) {
  sd_deep_place place;
  if (what < (grows ? 70u : 25u)) {
    if (!n) {
      push(d, key);
      return 1;
    }
    const uint64_t at = place_of(key);
    const int there = at < n && keys[at] == key;
    if (sd_deep_find(d, key, &place) != there) return 0;
    if (there) return *sd_deep_value(&place) == 3 * (int64_t)key;
    sd_deep_insert(d, &place, key, 3 * (int64_t)key);
    memmove(&keys[at + 1], &keys[at], (n++ - at) * sizeof *keys);
    keys[at] = key;
  } else if (what < 72) {
    if (n < MAX_KEYS / 2) push(d, n ? keys[n - 1] + 1 : key);
  } else if (n && what < 97) {
    const uint64_t at = place_of(key);
    const int there = at < n && keys[at] == key;
    if (sd_deep_find(d, key, &place) != there) return 0;
    if (!there) return 1;
    sd_deep_remove(d, &place);
    memmove(&keys[at], &keys[at + 1], (--n - at) * sizeof *keys);
  } else if (n && what == 97) {
    n -= sd_deep_best(d)->n;
    sd_deep_pop(d);
  } else if (n && what == 98 && !draw(3)) {
    sd_deep_cut(d, key);
    while (n && keys[n - 1] > key) n--;
  } else if (what == 99 && !draw(100)) {
    sd_deep_clear(d);
    n = 0;
  }
  return 1;
}

/* The greatest height of the tree; 0: it was wrong. */
uint32_t deep_trial(uint64_t seed, uint64_t changes) {
  sd_space *space;
  uint32_t height = 1;
  if (sd_space_create(0, 0, &space)) return 0;
  sd_pools *pools = sd_space_get(space, sizeof *pools, _Alignof(sd_pools));
  sd_pool pool = sd_pools_of(pools, space, 0);
  sd_deep *d = sd_pool_take_zeros(&pool, sizeof *d);
  state = seed * UINT64_C(0x9E3779B97F4A7C15) | 1;
  n = 0;
  const uint64_t range = 50 + draw(2000);
  for (uint64_t i = 0; height && i < changes; i++) {
    const uint64_t end = n ? draw(8) : 2, key = end > 1 ? 1 + draw(range) : end ? keys[n - 1] : keys[0];
    const int good = sd_deep_reserve(d, &pool) && change(d, key, draw(100), i / (500 + range) % 2 == 0);
    if (d->height > height) height = d->height;
    if (!good || (i % 32 == 0 && !same(d))) height = 0;
  }
  sd_space_destroy(space);
  return height;
}
