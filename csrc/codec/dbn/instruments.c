/* Two sorted sets of spans. One has the pieces that say which key holds when, none of which overlap. The other has what any of them
 * covers, joined. So whatever a file maps, adding a span or finding one costs the logarithm of their number; a span that overlaps others
 * pays once for joining them. */
#include "codec/dbn/instruments.h"

#include <stdlib.h>
#include <string.h>

#include "sd_error.h"

typedef sd_dbn_span span;

enum { BLOCK_SPANS = 256, FIRST_CAPACITY = 16, RECENT = 1 << 14 };

typedef struct block {
  uint32_t count; /* above 0 */
  span at[BLOCK_SPANS];
} block;

/* Spans by id, then by their first time, in blocks that split when they are full. */
typedef struct span_set {
  block **blocks;
  uint64_t count;
  uint64_t capacity;
} span_set;

typedef struct place {
  uint64_t block;
  uint32_t at;
} place;

/* The instrument of a key's latest tick, and the publisher of its latest quote: plus 1, 0: it had none. */
typedef struct followed {
  uint64_t id;
  uint32_t venue;
} followed;

struct sd_dbn_instruments {
  span_set pieces;
  span_set covered;
  span latest;         /* the last span found: most files have runs of one instrument, many have only one */
  span recent[RECENT]; /* spans found before, by id; last_ns 0: none */
  followed *followed;  /* by key */
  uint64_t n_followed;
  uint64_t keys; /* all are below */
};

/* ---- a set */

static int is_behind(const span *s, uint32_t id, uint64_t time_ns) {
  return s->id != id ? s->id > id : s->first_ns > time_ns;
}

/* The last span, of this id or a lower one, that begins at or before a time. */
static span *last_upto(const span_set *set, uint32_t id, uint64_t time_ns, place *where) {
  uint64_t low = 0;
  uint64_t high = set->count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (is_behind(&set->blocks[middle]->at[0], id, time_ns)) high = middle;
    else low = middle + 1;
  }
  if (low == 0) return NULL;
  block *b = set->blocks[low - 1];
  uint32_t from = 1;
  uint32_t to = b->count;
  while (from < to) {
    uint32_t middle = from + (to - from) / 2;
    if (is_behind(&b->at[middle], id, time_ns)) to = middle;
    else from = middle + 1;
  }
  *where = (place){low - 1, from - 1};
  return &b->at[from - 1];
}

/* Adds a block before the one at `before`. */
static block *add_block(span_set *set, uint64_t before) {
  if (set->count == set->capacity) {
    uint64_t capacity = set->capacity ? 2 * set->capacity : FIRST_CAPACITY;
    block **more = realloc(set->blocks, capacity * sizeof *more);
    if (!more) return NULL;
    set->blocks = more;
    set->capacity = capacity;
  }
  block *made = malloc(sizeof *made);
  if (!made) return NULL;
  made->count = 0;
  memmove(&set->blocks[before + 1], &set->blocks[before], (set->count - before) * sizeof(block *));
  set->blocks[before] = made;
  set->count++;
  return made;
}

static int insert(span_set *set, const span *s) {
  place where = {0, 0};
  const span *before = last_upto(set, s->id, s->first_ns, &where);
  uint32_t at = before ? where.at + 1 : 0;
  block *b = set->count ? set->blocks[where.block] : add_block(set, 0);
  if (!b) return SD_E_NO_MEMORY;
  if (b->count == BLOCK_SPANS) {
    block *next = add_block(set, where.block + 1);
    if (!next) return SD_E_NO_MEMORY;
    /* Spans that come in order fill their blocks. */
    uint32_t kept = at == BLOCK_SPANS ? BLOCK_SPANS : BLOCK_SPANS / 2;
    next->count = BLOCK_SPANS - kept;
    memcpy(next->at, b->at + kept, next->count * sizeof *s);
    b->count = kept;
    if (at > kept || kept == BLOCK_SPANS) {
      at -= kept;
      b = next;
    }
  }
  memmove(&b->at[at + 1], &b->at[at], (b->count - at) * sizeof *s);
  b->at[at] = *s;
  b->count++;
  return SD_OK;
}

static void erase(span_set *set, place where) {
  block *b = set->blocks[where.block];
  b->count--;
  memmove(&b->at[where.at], &b->at[where.at + 1], (b->count - where.at) * sizeof(span));
  if (b->count > 0) return;
  free(b);
  set->count--;
  memmove(&set->blocks[where.block], &set->blocks[where.block + 1], (set->count - where.block) * sizeof(block *));
}

static void erase_all_of(span_set *set, uint32_t id) {
  place where;
  const span *s;
  while ((s = last_upto(set, id, UINT64_MAX, &where)) != NULL && s->id == id) erase(set, where);
}

static void free_set(span_set *set) {
  for (uint64_t i = 0; i < set->count; i++) free(set->blocks[i]);
  free(set->blocks);
}

/* ---- instruments */

sd_dbn_instruments *sd_dbn_instruments_create(void) { return calloc(1, sizeof(sd_dbn_instruments)); }

void sd_dbn_instruments_destroy(sd_dbn_instruments *table) {
  if (!table) return;
  free_set(&table->pieces);
  free_set(&table->covered);
  free(table->followed);
  free(table);
}

int sd_dbn_instruments_add(sd_dbn_instruments *table, uint32_t id, uint64_t first_ns, uint64_t last_ns, uint32_t key) {
  if (last_ns < first_ns) return SD_OK;
  if (key != SD_DBN_UNWANTED && key >= table->keys) table->keys = key + UINT64_C(1);
  span whole = {.first_ns = first_ns, .last_ns = last_ns, .id = id};
  uint64_t to = last_ns; /* everything behind it, up to last_ns, is covered */
  for (;;) {
    place where;
    const span *there = last_upto(&table->covered, id, to, &where);
    int meets = there && there->id == id && there->last_ns >= first_ns;
    uint64_t from = !meets ? first_ns : there->last_ns < to ? there->last_ns + 1 : 0;
    if (!meets || there->last_ns < to) {
      int code = insert(&table->pieces, &(span){.first_ns = from, .last_ns = to, .id = id, .key = key});
      if (code != SD_OK) return code;
    }
    if (!meets) break;
    uint64_t begins = there->first_ns;
    if (begins < whole.first_ns) whole.first_ns = begins;
    if (there->last_ns > whole.last_ns) whole.last_ns = there->last_ns;
    erase(&table->covered, where);
    if (begins <= first_ns) break;
    to = begins - 1;
  }
  return insert(&table->covered, &whole);
}

int sd_dbn_instruments_fill(sd_dbn_instruments *table, const uint32_t *ids, const uint64_t *first_ns,
                            const uint64_t *last_ns, const uint32_t *keys, uint64_t n) {
  int code = SD_OK;
  for (uint64_t i = 0; i < n && code == SD_OK; i++)
    code = sd_dbn_instruments_add(table, ids[i], first_ns[i], last_ns[i], keys[i]);
  return code;
}

static span *recent_of(sd_dbn_instruments *table, uint32_t id) {
  return &table->recent[sd_dbn_hash(id) & (RECENT - 1)];
}

uint64_t sd_dbn_instruments_keys(const sd_dbn_instruments *table) { return table->keys; }

int sd_dbn_instruments_replace(sd_dbn_instruments *table, uint32_t id, uint32_t key) {
  erase_all_of(&table->pieces, id);
  erase_all_of(&table->covered, id);
  table->latest = *recent_of(table, id) = (span){0};
  return sd_dbn_instruments_add(table, id, 0, UINT64_MAX, key);
}

static const span *piece_of(const sd_dbn_instruments *table, uint32_t id, uint64_t time_ns) {
  place where;
  const span *found = last_upto(&table->pieces, id, time_ns, &where);
  return found && found->id == id && found->last_ns >= time_ns ? found : NULL;
}

const sd_dbn_span *sd_dbn_instruments_look(const sd_dbn_instruments *table, uint32_t id, uint64_t time_ns) {
  const span *recent = &table->recent[sd_dbn_hash(id) & (RECENT - 1)];
  return sd_dbn_covers(recent, id, time_ns) ? recent : piece_of(table, id, time_ns);
}

uint32_t sd_dbn_instruments_find(sd_dbn_instruments *table, uint32_t id, uint64_t time_ns) {
  if (sd_dbn_covers(&table->latest, id, time_ns)) return table->latest.key;
  span *recent = recent_of(table, id);
  if (!sd_dbn_covers(recent, id, time_ns)) {
    const span *found = piece_of(table, id, time_ns);
    if (!found) return SD_DBN_UNKNOWN;
    *recent = *found;
  }
  table->latest = *recent;
  return recent->key;
}

static int64_t roll_of(sd_dbn_instruments *table, uint32_t key, uint32_t id, uint64_t time_ns) {
  const uint64_t was = table->followed[key].id;
  if (was == id + UINT64_C(1)) return SD_DBN_NO_ROLL;
  table->followed[key] = (followed){id + UINT64_C(1), 0};
  if (was == 0) return SD_DBN_NO_ROLL;
  return sd_dbn_instruments_find(table, (uint32_t)(was - 1), time_ns) == key ? SD_DBN_NO_ROLL : (int64_t)(was - 1);
}

static int has_followed(sd_dbn_instruments *table, uint32_t key) {
  if (key < table->n_followed) return 1;
  const uint64_t n = key < FIRST_CAPACITY ? FIRST_CAPACITY : 2 * (uint64_t)key;
  followed *more = realloc(table->followed, n * sizeof *more);
  if (!more) return 0;
  memset(more + table->n_followed, 0, (n - table->n_followed) * sizeof *more);
  table->followed = more;
  table->n_followed = n;
  return 1;
}

int64_t sd_dbn_instruments_follow(sd_dbn_instruments *table, uint32_t key, uint32_t id, uint64_t time_ns) {
  return has_followed(table, key) ? roll_of(table, key, id, time_ns) : SD_DBN_NO_ROOM;
}

int sd_dbn_instruments_follow_on(sd_dbn_instruments *table, uint32_t key, uint32_t id) {
  if (!has_followed(table, key)) return 0;
  followed *f = &table->followed[key];
  if (!f->id) f->id = id + UINT64_C(1);
  return f->id == id + UINT64_C(1);
}

int sd_dbn_instruments_mix(sd_dbn_instruments *table, uint32_t key, uint16_t publisher) {
  const uint32_t was = table->followed[key].venue, is = publisher + UINT32_C(1);
  table->followed[key].venue = is;
  return was != 0 && was != is;
}
