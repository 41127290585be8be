#include "codec/itch/blocks.h"

#include <string.h>
#include <sys/stat.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "codec/itch/layout.h"
#include "codec/itch/rare.h"
#include "codec/itch/state.h"
#include "codec/itch/stripe.h"
#include "codec/itch/sync.h"

#ifndef SD_ITCH_BLOCK_BITS
#define SD_ITCH_BLOCK_BITS 18
#endif

enum {
  BYTES = 1 << SD_ITCH_BLOCK_BITS, /* frames that begin in so many bytes are a block */
  BEHIND = SD_ITCH_MAX_FRAME + HOT_BYTES,
  SEARCH = BYTES < SD_ITCH_STRIPE_SEARCH ? BYTES : SD_ITCH_STRIPE_SEARCH, /* for the first frame */
  SHORTEST = PREFIX_BYTES + 19,                                           /* a frame of those that make a block */
  READ_AHEAD = 512,
  FRAMES_AHEAD = 24,
  MOST_OF_A_FRAME = 36
};

_Static_assert(BYTES / SHORTEST < 1 << (32 - SD_ITCH_BLOCK_BITS), "a place has room for a frame's number");

/* What blocks need to know of a type: its length, and what it counts as. Types without a length end a block. */
enum { TAKEN = 1, SIDED = 2, SIZED = 4, LONG_SIZED = 8, NO_TICK = 16, TRADES = 32 };
typedef struct gait {
  uint8_t length, is, note;
} gait;
#define ORDER(len, number) {(len), TAKEN, (number)}
static const gait gaits[256] = {
    ['A'] = {36, TAKEN | SIDED, 0},
    ['F'] = {40, TAKEN | SIDED, 1},
    ['E'] = ORDER(31, 2),
    ['C'] = ORDER(36, 3),
    ['X'] = ORDER(23, 4),
    ['D'] = ORDER(19, 5),
    ['U'] = ORDER(35, 6),
    ['P'] = {44, TAKEN | SIDED | SIZED | TRADES, 7},
    ['Q'] = {40, TAKEN | LONG_SIZED | TRADES, 8},
    ['H'] = ORDER(25, 9),
    ['I'] = {50, TAKEN | LONG_SIZED, 10},
    ['Y'] = ORDER(20, 11),
    ['K'] = ORDER(28, 12),
    ['J'] = ORDER(35, 13),
    ['h'] = ORDER(21, 14),
    ['B'] = ORDER(19, 15),
    ['N'] = ORDER(20, 16),
    ['O'] = ORDER(48, 17),
    ['L'] = {26, TAKEN | NO_TICK, 18},
};
#undef ORDER
/* In the order of the notes. */
static const uint8_t types[] = "AFECXDUPQHIYKJhBNOL";
enum { TYPES = sizeof types - 1, MESSAGES = TYPES, ORDERS = 7, FIRST_TRADE = 7, TRADE_TYPES = 2 };

/* Whether a sound message may not be taken in a block. */
static inline int is_odd(const gait *g, const uint8_t *m) {
  if (g->is & SIDED && !sd_itch_sides[m[19]]) return 1;
  /* Trades without a size are counted apart. */
  if (g->is & SIZED && !sd_load_u32(m + 20)) return 1;
  return g->is & LONG_SIZED && (sd_itch_size_beyond(m) || !sd_load_u64(m + 11));
}

/* Walks over the frames that begin in the block, p being its first one. */
static void walk(const uint8_t *p, const uint8_t *stop, sd_block *b, const uint8_t *home_of, uint32_t keys) {
  const uint8_t *const base = b->bytes;
  uint64_t time = 0, first = UINT64_MAX;
  uint32_t frames = 0;
  b->odd = 1;
  for (; p < stop; frames++) {
    const uint8_t *m = p + PREFIX_BYTES;
    const gait *g = &gaits[m[0]];
    const uint64_t its = sd_itch_time(m);
    sd_prefetch(p + READ_AHEAD);
    if (SD_UNLIKELY(!g->length || sd_load_u16(p) != g->length)) return;
    b->notes[g->note]++;
    p += PREFIX_BYTES + g->length;
    if (SD_UNLIKELY(g->is & ~TAKEN)) {
      if (g->is & NO_TICK) continue; /* its time is no tick's */
      if (is_odd(g, m)) return;
    }
    if (SD_UNLIKELY(its < time)) return;
    time = its;
    if (SD_UNLIKELY(first == UINT64_MAX)) first = its;
    const uint32_t place = (uint32_t)(m - PREFIX_BYTES - base) | frames << SD_ITCH_BLOCK_BITS;
    if (SD_UNLIKELY(!sd_block_add(b, home_of, keys, place, sd_load_u16(m + 1)))) return;
  }
  b->notes[MESSAGES] = frames;
  b->end = b->start + (uint64_t)(p - base);
  b->first_time = first;
  b->last_time = time;
  b->odd = frames == 0;
}

static void make(void *self, uint64_t number, sd_block *b, int exactly, const uint8_t *home_of) {
  const sd_file_part *part = (const sd_file_part *)self;
  const sd_itch *itch = (const sd_itch *)part->decoder;
  b->start = part->begin + number * BYTES;
  if (number == 0) b->begin = b->start;
  b->odd = 1;
  const uint64_t start = sd_now();
  const uint64_t got = sd_itch_read_at(part->fd, b->bytes, BYTES + BEHIND, b->start);
  b->reading += sd_now() - start;
  if (got != BYTES + BEHIND) {
    b->begin = UINT64_MAX;
    return;
  }
  if (!exactly) {
    int found;
    b->begin = b->start + sd_itch_find_sync(itch, b->bytes, SEARCH, 0, &found);
    if (!found) {
      b->begin = UINT64_MAX;
      return;
    }
  }
  walk(b->bytes + (b->begin - b->start), b->bytes + BYTES, b, home_of, (uint32_t)part->keys);
}

static int adopt(void *self, uint64_t number, sd_block *b, const uint8_t *home_of) {
  sd_file_part *part = (sd_file_part *)self;
  sd_itch *itch = (sd_itch *)part->decoder;
  sd_seen *seen = part->seen;
  if (b->begin != itch->offset) {
    b->begin = itch->offset;
    memset(b->n, 0, sizeof b->n);
    memset(b->notes, 0, sizeof b->notes);
    make(self, number, b, 1, home_of);
  }
  const uint32_t messages = b->notes[MESSAGES], ticks = messages - b->notes[TYPES - 1];
  /* In turn, what makes no tick is not read behind the last tick of the limit. */
  if (b->odd || b->begin != itch->offset || ticks >= part->limit - part->ticks ||
      (ticks && (int64_t)(itch->midnight_ns + b->first_time) < seen->latest))
    return 0;
  b->before = itch->messages;
  for (int i = 0; i < TYPES; i++) itch->counts[types[i]] += b->notes[i];
  itch->offset = b->end;
  itch->messages += messages;
  itch->ticks += ticks;
  part->ticks += ticks;
  for (int i = 0; i < ORDERS; i++) seen->orders += b->notes[i];
  for (int i = FIRST_TRADE; i < FIRST_TRADE + TRADE_TYPES; i++) seen->trades += b->notes[i];
  seen->ticks += ticks;
  if (ticks) seen->latest = (int64_t)(itch->midnight_ns + b->last_time);
  return 1;
}

static void gather(const void *self, const sd_block *b, const sd_block_entry *entry, uint32_t n, uint32_t left,
                   unsigned char *to) {
  const sd_file_part *part = (const sd_file_part *)self;
  const uint64_t midnight_ns = part->midnight_ns, before = b->before + 1;
  sd_tick *tick = (sd_tick *)(void *)to;
  for (uint32_t i = 0; i < n; i++, tick++) {
    if (SD_LIKELY(i + FRAMES_AHEAD < left)) {
      const uint8_t *ahead = b->bytes + (entry[i + FRAMES_AHEAD].place & (BYTES - 1));
      sd_prefetch(ahead);
      sd_prefetch(ahead + MOST_OF_A_FRAME);
    }
    const uint8_t *m = b->bytes + (entry[i].place & (BYTES - 1)) + PREFIX_BYTES;
    const uint64_t sequence = before + (entry[i].place >> SD_ITCH_BLOCK_BITS);
    const sd_itch_layout *t = &sd_itch_layouts[m[0]];
    if (SD_LIKELY(t->hot)) sd_itch_decode_hot(t, m, midnight_ns, sequence, tick);
    else sd_itch_decode_rare(midnight_ns, sequence, m, tick);
  }
}

int sd_itch_open_blocks(sd_file_part *part, sd_block_source *source) {
  const sd_itch *itch = (const sd_itch *)part->decoder;
  struct stat now;
  if (itch->selective || itch->lost || !itch->prefixed || itch->clear_from || !itch->symbol_count) return 0;
  if (fstat(part->fd, &now) != 0 || (uint64_t)now.st_size < itch->offset + BYTES + BEHIND) return 0;
  part->begin = itch->offset;
  part->midnight_ns = itch->midnight_ns;
  part->keys = itch->symbol_count < part->n_counts ? itch->symbol_count : part->n_counts;
  *source = (sd_block_source){.n_blocks = ((uint64_t)now.st_size - itch->offset - BEHIND) / BYTES,
                              .keys = (uint32_t)part->keys,
                              .most = BYTES / SHORTEST + 1,
                              .slot_bytes = BYTES + BEHIND,
                              .make = make,
                              .adopt = adopt,
                              .gather = gather};
  return 1;
}
