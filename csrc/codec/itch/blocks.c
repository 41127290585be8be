#include "codec/itch/blocks.h"

#include "base/atomic.h"
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

/* What blocks need to know of a type: its length, what it is, of which kind its tick is, and the place of its count. Types without a
 * length end a block. */
enum { TAKEN = 1, SIDED = 2, LONG_SIZED = 4, NO_TICK = 8 };
enum { TICKS_OF_ORDERS, TICKS_OF_TRADES, OTHER_TICKS, NO_TICKS, KINDS };
typedef struct gait {
  uint8_t length, is, kind, note;
} gait;
#define ORDER(len, number) {(len), TAKEN, TICKS_OF_ORDERS, (number)}
#define OTHER(len, number) {(len), TAKEN, OTHER_TICKS, (number)}
static const gait gaits[256] = {
    ['A'] = {36, TAKEN | SIDED, TICKS_OF_ORDERS, 0},
    ['F'] = {40, TAKEN | SIDED, TICKS_OF_ORDERS, 1},
    ['E'] = ORDER(31, 2),
    ['C'] = ORDER(36, 3),
    ['X'] = ORDER(23, 4),
    ['D'] = ORDER(19, 5),
    ['U'] = ORDER(35, 6),
    ['P'] = {44, TAKEN | SIDED, TICKS_OF_TRADES, 7},
    ['Q'] = {40, TAKEN | LONG_SIZED, TICKS_OF_TRADES, 8},
    ['H'] = OTHER(25, 9),
    ['I'] = {50, TAKEN | LONG_SIZED, OTHER_TICKS, 10},
    ['Y'] = OTHER(20, 11),
    ['K'] = OTHER(28, 12),
    ['J'] = OTHER(35, 13),
    ['h'] = OTHER(21, 14),
    ['B'] = OTHER(19, 15),
    ['N'] = OTHER(20, 16),
    ['O'] = OTHER(48, 17),
    ['L'] = {26, TAKEN | NO_TICK, NO_TICKS, 18},
};
#undef ORDER
#undef OTHER
/* In the order of the notes. */
static const uint8_t types[] = "AFECXDUPQHIYKJhBNOL";
enum { TYPES = sizeof types - 1, OF_TYPE = SD_FORMAT_NOTES, UNSELECTED = OF_TYPE + TYPES };
_Static_assert(UNSELECTED + KINDS <= sizeof((sd_block *)0)->notes / sizeof(uint32_t), "all notes have a place");

/* Whether a message is at fault, which is taken in turn. */
static inline int is_odd(const gait *g, const uint8_t *m) {
  return (g->is & SIDED && !sd_itch_sides[m[19]]) || (g->is & LONG_SIZED && sd_itch_size_beyond(m));
}

static inline int has_no_size(const gait *g, const uint8_t *m) {
  return g->is & LONG_SIZED ? !sd_load_u64(m + 11) : !sd_load_u32(m + 20);
}

/* As sd_block_format.walk; `selects`: the decoder has a selection; `numbers`: the block's. */
SD_INLINE void walk_over(const sd_file_part *part, sd_block *b, const uint8_t *p, const uint8_t *stop,
                         const uint8_t *home_of, const int selects, uint16_t *const numbers) {
  const sd_itch *itch = (const sd_itch *)part->decoder;
  const uint8_t *const base = b->bytes, *const wanted = itch->wanted;
  const uint64_t midnight_ns = itch->midnight_ns, from_ns = itch->start_ns - midnight_ns, span_ns = itch->span_ns;
  const uint32_t keys = (uint32_t)part->keys;
  uint64_t time = 0, first = UINT64_MAX;
  uint32_t frames = 0, ticks = 0;
  for (; p < stop; frames++) {
    const uint8_t *m = p + PREFIX_BYTES;
    const gait *g = &gaits[m[0]];
    const uint64_t its = sd_itch_time(m);
    const uint32_t key = sd_load_u16(m + 1);
    sd_prefetch(p + READ_AHEAD);
    if (SD_UNLIKELY(!g->length || sd_load_u16(p) != g->length)) return;
    if (SD_UNLIKELY(g->is & ~TAKEN) && is_odd(g, m)) return;
    b->notes[OF_TYPE + g->note]++;
    p += PREFIX_BYTES + g->length;
    if (selects && SD_UNLIKELY(wanted[key] == SD_ITCH_UNDECIDED)) return;
    if (SD_UNLIKELY(g->is & NO_TICK)) continue; /* its time is no tick's */
    if (selects && (wanted[key] == SD_ITCH_UNWANTED || its - from_ns >= span_ns)) {
      b->notes[UNSELECTED + g->kind]++;
      continue;
    }
    if (SD_UNLIKELY(g->kind == TICKS_OF_TRADES)) b->notes[SD_NOTE_ZERO_SIZES] += (uint32_t)has_no_size(g, m);
    if (SD_UNLIKELY(its < time)) return;
    time = its;
    if (SD_UNLIKELY(first == UINT64_MAX)) first = its;
    const uint32_t place = (uint32_t)(m - PREFIX_BYTES - base) | frames << SD_ITCH_BLOCK_BITS;
    if (numbers) numbers[frames] = (uint16_t)ticks++;
    if (SD_UNLIKELY(!sd_block_add(b, home_of, keys, place, key))) return;
  }
  uint32_t of[KINDS];
  for (int kind = 0; kind < KINDS; kind++) of[kind] = 0 - b->notes[UNSELECTED + kind];
  for (int i = 0; i < TYPES; i++) of[gaits[types[i]].kind] += b->notes[OF_TYPE + i];
  b->notes[SD_NOTE_ORDERS] = of[TICKS_OF_ORDERS];
  b->notes[SD_NOTE_TRADES] = of[TICKS_OF_TRADES];
  b->notes[SD_NOTE_TICKS] = of[TICKS_OF_ORDERS] + of[TICKS_OF_TRADES] + of[OTHER_TICKS];
  b->notes[SD_NOTE_RECORDS] = frames;
  b->end = b->start + (uint64_t)(p - base);
  b->first_time = midnight_ns + first;
  b->last_time = midnight_ns + time;
  b->odd = frames == 0;
}

static void walk(const sd_file_part *part, sd_block *b, const uint8_t *p, const uint8_t *stop, const uint8_t *home_of) {
  if (((const sd_itch *)part->decoder)->selective) walk_over(part, b, p, stop, home_of, 1, b->numbers);
  else if (b->numbers) walk_over(part, b, p, stop, home_of, 0, b->numbers);
  else walk_over(part, b, p, stop, home_of, 0, NULL);
}

static uint64_t find(const sd_file_part *part, const uint8_t *p, uint64_t size) {
  int found;
  const uint64_t at = sd_itch_find_sync((const sd_itch *)part->decoder, p, size, 0, &found);
  return found ? at : size;
}

static void accept(sd_file_part *part, sd_block *b) {
  sd_itch *itch = (sd_itch *)part->decoder;
  b->before = itch->messages;
  itch->messages += b->notes[SD_NOTE_RECORDS];
  itch->ticks += b->notes[SD_NOTE_TICKS];
  for (int i = 0; i < TYPES; i++) itch->counts[types[i]] += b->notes[OF_TYPE + i];
  for (int kind = 0; kind < KINDS; kind++) itch->unselected += b->notes[UNSELECTED + kind];
}

static uint32_t look(const sd_file_part *part, const uint8_t *p, int64_t *time) {
  const sd_itch *itch = (const sd_itch *)part->decoder;
  const uint8_t *m = p + PREFIX_BYTES;
  const gait *g = &gaits[m[0]];
  if (SD_UNLIKELY(!g->length || sd_load_u16(p) != g->length || (g->is & ~TAKEN && is_odd(g, m)))) return 0;
  *time = g->is & NO_TICK ? INT64_MIN : (int64_t)(itch->midnight_ns + sd_itch_time(m));
  return PREFIX_BYTES + g->length;
}

static void times(const sd_file_part *part, const sd_block *b, const sd_block_entry *entry, uint32_t n, int64_t *to) {
  const uint64_t midnight_ns = ((const sd_itch *)part->decoder)->midnight_ns;
  for (uint32_t i = 0; i < n; i++)
    to[i] = (int64_t)(midnight_ns + sd_itch_time(b->bytes + (entry[i].place & (BYTES - 1)) + PREFIX_BYTES));
}

static void gather(const void *self, const sd_block *b, const sd_block_entry *entry, uint32_t n, uint32_t left,
                   unsigned char *to) {
  const sd_itch *itch = (const sd_itch *)((const sd_file_part *)self)->decoder;
  const uint64_t midnight_ns = itch->midnight_ns, before = b->before + 1;
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

static const sd_block_format format = {.bytes = BYTES,
                                       .behind = BEHIND,
                                       .search = SEARCH,
                                       .most = BYTES / SHORTEST + 1,
                                       .records = BYTES / SHORTEST + 1,
                                       .record_at = SD_ITCH_BLOCK_BITS,
                                       .find = find,
                                       .walk = walk,
                                       .accept = accept,
                                       .look = look,
                                       .times = times,
                                       .gather = gather};

int sd_itch_open_blocks(sd_file_part *part, sd_block_source *source) {
  sd_itch *itch = (sd_itch *)part->decoder;
  if (itch->lost || !itch->prefixed || itch->clear_from) return 0;
  return sd_open_file_blocks(part, &format, &itch->offset, itch->symbol_count, source);
}
