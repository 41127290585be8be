#include "handlers/deep.h"

#include <string.h>

#include "sd_atomic.h"

enum { FIRST_CHUNKS = 16 };

static int grow_directory(sd_deep *d, sd_pool *pool) {
  const uint32_t room = d->room ? 2 * d->room : FIRST_CHUNKS;
  sd_chunk_at *at = sd_pool_take(pool, room * sizeof *at);
  if (!at) return 0;
  if (d->chunks) memcpy(at, d->at, d->chunks * sizeof *at);
  sd_pool_give(pool, d->at, d->room * sizeof *at);
  d->at = at;
  d->room = room;
  return 1;
}

int sd_deep_reserve(sd_deep *d, sd_pool *pool) {
  if (d->chunks == d->room && !grow_directory(d, pool)) return 0;
  if (d->spare) return 1;
  sd_chunk *chunk = sd_pool_take(pool, sizeof *chunk);
  if (!chunk) return 0;
  chunk->next = NULL;
  d->spare = chunk;
  d->taken++;
  return 1;
}

/* ---- chunks */

static sd_chunk *open_chunk(sd_deep *d, uint32_t place, int64_t from) {
  sd_chunk *chunk = d->spare;
  d->spare = chunk->next;
  memmove(&d->at[place + 1], &d->at[place], (d->chunks - place) * sizeof *d->at);
  d->at[place] = (sd_chunk_at){from, chunk};
  d->chunks++;
  return chunk;
}

static void close_chunk(sd_deep *d, uint32_t place) {
  sd_chunk *chunk = d->at[place].chunk;
  d->levels -= (uint32_t)chunk->n;
  chunk->next = d->spare;
  d->spare = chunk;
  d->chunks--;
  memmove(&d->at[place], &d->at[place + 1], (d->chunks - place) * sizeof *d->at);
  if (place == 0 && d->chunks) d->at[0].from = INT64_MIN;
}

/* The only chunk that a key may lie in. */
static uint32_t chunk_of(const sd_deep *d, int64_t key) {
  uint32_t low = 0;
  for (uint32_t left = d->chunks - 1; left;) {
    const uint32_t half = (left + 1) / 2;
    low += half & -(uint32_t)(d->at[low + half].from <= key);
    left -= half;
  }
  return low;
}

/* The first key that is not worse. */
static uint32_t place_in(const sd_chunk *chunk, int64_t key) {
  uint32_t low = 0;
  for (uint32_t left = (uint32_t)chunk->n; left;) {
    const uint32_t half = (left + 1) / 2;
    low += half & -(uint32_t)(chunk->keys[low + half - 1] < key);
    left -= half;
  }
  return low;
}

static int is_at(const sd_chunk *chunk, uint32_t place, int64_t key) {
  return place < chunk->n && chunk->keys[place] == key;
}

/* ---- levels */

int sd_deep_find(const sd_deep *d, int64_t key, sd_deep_place *place) {
  const uint32_t at = chunk_of(d, key);
  const sd_chunk *chunk = d->at[at].chunk;
  /* A search by halves would wait for each of these lines. */
  for (uint32_t i = 0; i < SD_CHUNK; i += SD_LINE / sizeof *chunk->keys) sd_prefetch((const char *)&chunk->keys[i]);
  *place = (sd_deep_place){at, place_in(chunk, key)};
  return is_at(chunk, place->at, key);
}

/* Gives the better half of a full chunk to a new one. */
static void split(sd_deep *d, uint32_t at) {
  sd_chunk *full = d->at[at].chunk;
  const uint32_t kept = SD_CHUNK / 2;
  sd_chunk *better = open_chunk(d, at + 1, full->keys[kept]);
  better->n = SD_CHUNK - kept;
  memcpy(better->keys, &full->keys[kept], better->n * sizeof *better->keys);
  memcpy(better->values, &full->values[kept], better->n * sizeof *better->values);
  full->n = kept;
}

void sd_deep_insert(sd_deep *d, sd_deep_place place, int64_t key, int64_t value) {
  if (d->at[place.chunk].chunk->n == SD_CHUNK) {
    split(d, place.chunk);
    if (place.at > SD_CHUNK / 2) place = (sd_deep_place){place.chunk + 1, place.at - SD_CHUNK / 2};
  }
  sd_chunk *chunk = d->at[place.chunk].chunk;
  const uint64_t after = chunk->n++ - place.at;
  memmove(&chunk->keys[place.at + 1], &chunk->keys[place.at], after * sizeof *chunk->keys);
  memmove(&chunk->values[place.at + 1], &chunk->values[place.at], after * sizeof *chunk->values);
  chunk->keys[place.at] = key;
  chunk->values[place.at] = value;
  d->levels++;
}

/* Takes the next chunk into this one where both together have half of one, so that levels that went give their memory back. */
static int joined(sd_deep *d, uint32_t at) {
  if (at + 1 >= d->chunks) return 0;
  sd_chunk *worse = d->at[at].chunk, *better = d->at[at + 1].chunk;
  if (worse->n + better->n > SD_CHUNK / 2) return 0;
  memcpy(&worse->keys[worse->n], better->keys, better->n * sizeof *better->keys);
  memcpy(&worse->values[worse->n], better->values, better->n * sizeof *better->values);
  worse->n += better->n;
  d->levels += (uint32_t)better->n;
  close_chunk(d, at + 1);
  return 1;
}

void sd_deep_remove(sd_deep *d, sd_deep_place place) {
  sd_chunk *chunk = d->at[place.chunk].chunk;
  const uint64_t after = --chunk->n - place.at;
  memmove(&chunk->keys[place.at], &chunk->keys[place.at + 1], after * sizeof *chunk->keys);
  memmove(&chunk->values[place.at], &chunk->values[place.at + 1], after * sizeof *chunk->values);
  d->levels--;
  if (!chunk->n) close_chunk(d, place.chunk);
  else if (!joined(d, place.chunk) && place.chunk) joined(d, place.chunk - 1);
}

void sd_deep_cut(sd_deep *d, int64_t key) {
  while (d->chunks && sd_deep_best(d)->keys[0] > key) sd_deep_pop(d);
  if (!d->chunks) return;
  sd_chunk *chunk = d->at[d->chunks - 1].chunk;
  const uint32_t place = place_in(chunk, key), kept = place + (uint32_t)is_at(chunk, place, key);
  d->levels -= (uint32_t)chunk->n - kept;
  chunk->n = kept;
}

void sd_deep_clear(sd_deep *d) {
  while (d->chunks) sd_deep_pop(d);
}

sd_chunk *sd_deep_push(sd_deep *d, int64_t worst, uint32_t n) {
  sd_chunk *chunk = open_chunk(d, d->chunks, d->chunks ? worst : INT64_MIN);
  chunk->n = n;
  d->levels += n;
  return chunk;
}

void sd_deep_pop(sd_deep *d) { close_chunk(d, d->chunks - 1); }

int sd_deep_next(const sd_deep *d, sd_deep_cursor *cursor, int64_t *key, int64_t *value) {
  if (!cursor->left) {
    if (!cursor->chunk) return 0;
    cursor->left = d->at[--cursor->chunk].chunk->n;
  }
  const sd_chunk *chunk = d->at[cursor->chunk].chunk;
  cursor->left--;
  *key = chunk->keys[cursor->left];
  *value = chunk->values[cursor->left];
  return 1;
}
