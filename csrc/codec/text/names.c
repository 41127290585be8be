/* See the header. Files have runs of one symbol, so the last name is tried before the table. */
#include "codec/text/names.h"

#include "codec/text/cells.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
  uint64_t word; /* the first eight bytes, as of word_of() */
  uint64_t hash;
  uint64_t at : 56; /* in `texts` */
  uint64_t length : 8;
} entry;

struct sd_names {
  entry *entries;
  uint8_t *texts;
  uint64_t text_bytes;
  uint64_t text_capacity;
  uint32_t *slots; /* an index + 1, 0: free */
  uint32_t count;
  uint32_t capacity; /* of entries; there are four times as many slots */
  uint32_t shift;    /* a hash's highest bits are its first slot: all bytes of a name count in them */
  uint32_t maximum;  /* the most entries allowed */
};

enum { FIRST_CAPACITY = 256 };

static inline uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
  return hash ^ hash >> 32;
}

/* `word`: the first eight bytes. The last eight come again where fewer are left. */
static inline uint64_t hash_of(const uint8_t *text, uint32_t length, uint64_t word) {
  uint64_t hash = mixed(length * UINT64_C(0x9e3779b97f4a7c15), word);
  for (uint32_t at = 8; at < length; at += 8) {
    memcpy(&word, text + (length - at < 8 ? length - 8 : at), 8);
    hash = mixed(hash, word);
  }
  return hash;
}

/* Of names whose first eight bytes are the same. Most have sixteen bytes at most: the last eight say the rest. */
static inline int is_same(const uint8_t *a, const uint8_t *b, uint32_t length) {
  if (length <= 8) return 1;
  if (length > 16) return memcmp(a + 8, b + 8, length - 8) == 0;
  uint64_t of_a, of_b;
  memcpy(&of_a, a + length - 8, 8);
  memcpy(&of_b, b + length - 8, 8);
  return of_a == of_b;
}

/* Doubles the capacity. 0: no memory, and nothing has changed. */
static int grow(sd_names *names) {
  uint32_t capacity = names->capacity ? names->capacity * 2 : FIRST_CAPACITY;
  uint32_t *slots = calloc((size_t)capacity * 4, sizeof *slots);
  entry *entries = slots ? realloc(names->entries, (size_t)capacity * sizeof *entries) : NULL;
  if (!entries) {
    free(slots);
    return 0;
  }
  names->shift = 62 - (uint32_t)__builtin_ctz(capacity);
  for (uint32_t i = 0; i < names->count; i++) {
    uint64_t slot = entries[i].hash >> names->shift;
    while (slots[slot]) slot = (slot + 1) & (capacity * 4 - 1);
    slots[slot] = i + 1;
  }
  free(names->slots);
  names->slots = slots;
  names->entries = entries;
  names->capacity = capacity;
  return 1;
}

sd_names *sd_names_new(uint32_t maximum) {
  sd_names *names = calloc(1, sizeof *names);
  if (!names) return NULL;
  names->maximum = maximum;
  if (!grow(names)) {
    free(names);
    return NULL;
  }
  return names;
}

void sd_names_free(sd_names *names) {
  if (!names) return;
  free(names->slots);
  free(names->entries);
  free(names->texts);
  free(names);
}

uint32_t sd_names_count(const sd_names *names) { return names->count; }

const uint8_t *sd_names_get(const sd_names *names, uint32_t index, uint32_t *length) {
  *length = names->entries[index].length;
  return names->texts + names->entries[index].at;
}

/* The index of a name, which is added if it is new and there is room for it; -1: it is not there. */
static int64_t index_of(sd_names *names, const uint8_t *text, uint32_t length, uint64_t word, int adds) {
  uint64_t hash = hash_of(text, length, word);
  uint64_t mask = (uint64_t)names->capacity * 4 - 1;
  uint64_t slot = hash >> names->shift;
  for (; names->slots[slot]; slot = (slot + 1) & mask) {
    const entry *e = &names->entries[names->slots[slot] - 1];
    if (e->word == word && e->hash == hash && e->length == length && is_same(names->texts + e->at, text, length))
      return names->slots[slot] - 1;
  }
  if (!adds || names->count == names->maximum) return -1;
  if (names->count == names->capacity) {
    if (!grow(names)) return -1;
    mask = (uint64_t)names->capacity * 4 - 1;
    for (slot = hash >> names->shift; names->slots[slot];) slot = (slot + 1) & mask;
  }
  if (names->text_capacity - names->text_bytes < length) {
    uint8_t *texts = realloc(names->texts, names->text_capacity * 2 + FIRST_CAPACITY);
    if (!texts) return -1;
    names->texts = texts;
    names->text_capacity = names->text_capacity * 2 + FIRST_CAPACITY;
  }
  entry *e = &names->entries[names->count];
  e->word = word;
  e->hash = hash;
  e->length = length & 0xff; /* SD_NAME_BYTES at most */
  e->at = names->text_bytes & ((UINT64_C(1) << 56) - 1);
  memcpy(names->texts + e->at, text, length);
  names->text_bytes += length;
  names->slots[slot] = ++names->count;
  return names->count - 1;
}

uint64_t sd_names_find(sd_names *names, const sd_cells *cells, int adds, uint32_t column, const sd_target *target,
                       uint16_t *faults) {
  uint64_t bad = 0;
  const uint8_t *last = NULL;
  uint64_t last_length = 0;
  uint64_t last_word = 0;
  uint32_t last_index = 0;
  text_column from = text_column_of(cells);
  for (uint64_t i = 0; i < from.cells.count; i++) {
    field f = cell(&from, i);
    uint64_t length = (uint64_t)(f.end - f.at);
    uint64_t word = length ? word_of(f, from.end) : 0;
    if (last == NULL || length != last_length || word != last_word || !is_same(f.at, last, (uint32_t)length)) {
      int64_t index = length == 0 || length > SD_NAME_BYTES ? -1 : index_of(names, f.at, (uint32_t)length, word, adds);
      if (index < 0) {
        note(&faults[i], column, length > SD_NAME_BYTES ? SD_FAULT_NAME : length ? SD_FAULT_NAMES : SD_FAULT_EMPTY);
        bad++;
        continue;
      }
      last = f.at;
      last_length = length;
      last_word = word;
      last_index = (uint32_t)index;
    }
    memcpy(target->out + i * target->stride, &last_index, sizeof last_index);
  }
  return bad;
}
