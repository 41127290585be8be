#include "blocks/array.h"

#include <string.h>

#include "memory/lines.h"

enum { RECORDS_AHEAD = 16 };

static void make(void *self, uint64_t number, sd_block *block, int exactly, const uint8_t *home_of) {
  (void)exactly;
  const sd_block_array *a = (const sd_block_array *)self;
  block->begin = number * SD_ARRAY_BLOCK;
  block->end = block->begin + SD_ARRAY_BLOCK < a->n ? block->begin + SD_ARRAY_BLOCK : a->n;
  const unsigned char *key = a->records + block->begin * a->size + a->key_offset;
  const uint32_t n = (uint32_t)(block->end - block->begin);
  int64_t latest = 0;
  for (uint32_t i = 0; i < n; i++, key += a->size) {
    sd_prefetch(key + RECORDS_AHEAD * a->size);
    if (a->time_offset != SD_NONE) {
      int64_t its;
      memcpy(&its, key - a->key_offset + a->time_offset, sizeof its);
      block->odd = its < latest;
      latest = its;
    }
    if (SD_LIKELY(!block->odd && sd_block_add(block, home_of, a->keys, i, sd_key_at(key)))) continue;
    block->odd = 1;
    return;
  }
  block->latest = latest;
}

static int adopt(void *self, uint64_t number, sd_block *block, const uint8_t *home_of) {
  (void)number, (void)home_of;
  sd_block_array *a = (sd_block_array *)self;
  if (block->odd) return 0;
  a->adopted = block->end;
  return 1;
}

/* `size`: of a record, a constant where that pays. */
static inline void gather_of(const sd_block_array *a, const sd_block *block, const sd_block_entry *entry, uint32_t n,
                             uint32_t left, unsigned char *to, const size_t size) {
  const unsigned char *from = a->records + block->begin * size;
  for (uint32_t i = 0; i < n; i++, to += size) {
    if (i + RECORDS_AHEAD < left) sd_prefetch(from + entry[i + RECORDS_AHEAD].place * size);
    sd_copy(to, from + entry[i].place * size, size);
    memcpy(to + a->key_offset, &entry[i].key, sizeof entry[i].key);
  }
}

static void gather(const void *self, const sd_block *block, const sd_block_entry *entry, uint32_t n, uint32_t left,
                   unsigned char *to) {
  const sd_block_array *a = (const sd_block_array *)self;
  if (SD_LIKELY(a->size == 64)) gather_of(a, block, entry, n, left, to, 64);
  else gather_of(a, block, entry, n, left, to, a->size);
}

sd_block_source sd_block_array_source(const sd_dispatcher *d, sd_block_array *array) {
  array->keys = d->arena->n_symbols;
  array->time_offset = d->config.sizes.has_positions ? d->config.time_offset : SD_NONE;
  return (sd_block_source){.n_blocks = (array->n + SD_ARRAY_BLOCK - 1) / SD_ARRAY_BLOCK,
                           .keys = array->keys,
                           .most = SD_ARRAY_BLOCK,
                           .make = make,
                           .adopt = adopt,
                           .gather = gather};
}
