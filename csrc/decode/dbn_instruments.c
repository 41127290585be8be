#include "decode/dbn_instruments.h"

#include <stdlib.h>

#include "sd_error.h"

typedef struct entry {
  uint64_t first_ns;
  uint64_t last_ns;
  uint32_t id;
  uint32_t key;
  uint32_t used;
  uint32_t pad;
} entry;

struct sd_dbn_instruments {
  entry *entries;
  uint64_t mask; /* places - 1; places are a power of two, at least half of them free */
  uint64_t count;
  entry *latest; /* the last one found: most files come in runs of an instrument, many hold only one */
};

enum { FIRST_PLACES = 64 };

/* Fibonacci hashing: ids are often neighbours. */
static uint64_t place_of(const sd_dbn_instruments *table, uint32_t id) {
  return (id * UINT64_C(0x9E3779B97F4A7C15) >> 32) & table->mask;
}

sd_dbn_instruments *sd_dbn_instruments_create(void) {
  sd_dbn_instruments *table = calloc(1, sizeof *table);
  if (!table) return NULL;
  table->entries = calloc(FIRST_PLACES, sizeof *table->entries);
  table->mask = FIRST_PLACES - 1;
  if (table->entries) return table;
  free(table);
  return NULL;
}

void sd_dbn_instruments_destroy(sd_dbn_instruments *table) {
  if (table) free(table->entries);
  free(table);
}

static void place(sd_dbn_instruments *table, const entry *new_entry) {
  uint64_t at = place_of(table, new_entry->id);
  while (table->entries[at].used) at = (at + 1) & table->mask;
  table->entries[at] = *new_entry;
}

static int grow(sd_dbn_instruments *table) {
  uint64_t places = table->mask + 1;
  entry *old = table->entries;
  entry *wider = calloc(2 * places, sizeof *wider);
  if (!wider) return SD_E_NO_MEMORY;
  /* From behind a free place on: a run that wraps around keeps the order its entries were added in. */
  uint64_t start = 0;
  while (old[start].used) start++;
  table->entries = wider;
  table->mask = 2 * places - 1;
  table->latest = NULL;
  for (uint64_t i = 1; i <= places; i++) {
    const entry *e = &old[(start + i) & (places - 1)];
    if (e->used) place(table, e);
  }
  free(old);
  return SD_OK;
}

int sd_dbn_instruments_add(sd_dbn_instruments *table, uint32_t id, uint64_t first_ns, uint64_t last_ns, uint32_t key) {
  if (2 * (table->count + 1) > table->mask + 1) {
    int code = grow(table);
    if (code != SD_OK) return code;
  }
  place(table, &(entry){.first_ns = first_ns, .last_ns = last_ns, .id = id, .key = key, .used = 1});
  table->count++;
  table->latest = NULL;
  return SD_OK;
}

int sd_dbn_instruments_fill(sd_dbn_instruments *table, const uint32_t *ids, const uint64_t *first_ns,
                            const uint64_t *last_ns, const uint32_t *keys, uint64_t n) {
  int code = SD_OK;
  for (uint64_t i = 0; i < n && code == SD_OK; i++)
    code = sd_dbn_instruments_add(table, ids[i], first_ns[i], last_ns[i], keys[i]);
  return code;
}

int sd_dbn_instruments_replace(sd_dbn_instruments *table, uint32_t id, uint32_t key) {
  int found = 0;
  for (uint64_t at = place_of(table, id); table->entries[at].used; at = (at + 1) & table->mask) {
    entry *e = &table->entries[at];
    if (e->id != id) continue;
    e->key = key;
    e->first_ns = 0;
    e->last_ns = UINT64_MAX;
    found = 1;
  }
  return found ? SD_OK : sd_dbn_instruments_add(table, id, 0, UINT64_MAX, key);
}

static int covers(const entry *e, uint32_t id, uint64_t time_ns) {
  return e->id == id && time_ns >= e->first_ns && time_ns <= e->last_ns;
}

uint32_t sd_dbn_instruments_find(sd_dbn_instruments *table, uint32_t id, uint64_t time_ns) {
  if (table->latest && covers(table->latest, id, time_ns)) return table->latest->key;
  for (uint64_t at = place_of(table, id); table->entries[at].used; at = (at + 1) & table->mask) {
    if (!covers(&table->entries[at], id, time_ns)) continue;
    table->latest = &table->entries[at];
    return table->latest->key;
  }
  return SD_DBN_UNKNOWN;
}
