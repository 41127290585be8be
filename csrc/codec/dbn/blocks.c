#include "codec/dbn/blocks.h"

#include "base/atomic.h"
#include "codec/dbn/record.h"

#ifndef SD_DBN_BLOCK_BITS
#define SD_DBN_BLOCK_BITS 17
#endif

enum {
  BYTES = 1 << SD_DBN_BLOCK_BITS, /* records that begin in so many bytes are a block */
  BEHIND = 1024,
  SEARCH = BYTES < 4096 ? BYTES : 4096, /* for the first record */
  STEP = 4,                             /* a record's length is a multiple of it */
  IN_A_ROW = 4,                         /* so many records are plausible where one begins */
  SHORTEST = 40,                        /* of the records that make ticks */
  RECORDS = BYTES / SHORTEST + 1,
  A_TICK = 14,                                /* bytes of a record for each of its ticks: a bar's, which makes four */
  KNOWN = SD_DBN_BLOCK_BITS < 15 ? 16 : 1024, /* instruments that a walk keeps at hand */
  READ_AHEAD = 512,
  RECORDS_AHEAD = 16
};

/* A tick's place, from the lowest bit on: the tick's number of its record; where the record lies, in steps from the block's beginning; and
 * the record's number. */
enum {
  INDEX_BITS = 4,
  INDEX_MASK = (1 << INDEX_BITS) - 1,
  AT_MASK = (1 << (SD_DBN_BLOCK_BITS - 2)) - 1,
  NUMBER_AT = INDEX_BITS + SD_DBN_BLOCK_BITS - 2
};
_Static_assert(BEHIND >= (int)SD_DBN_MAX_RECORD && BEHIND % SD_LINE == 0, "a block's last record fits");
_Static_assert(BYTES / SD_DBN_HEADER <= 1 << (32 - NUMBER_AT), "a place has room for a record's number");
_Static_assert(SD_DBN_MAX_TICKS <= 1 << INDEX_BITS, "a place has room for a tick's number");

/* Where the record of a place lies in the block. */
static inline size_t place_at(uint32_t place) { return (place >> INDEX_BITS & AT_MASK) * (size_t)STEP; }

/* The ticks that follow are of an instrument; `venue`: and the next quote is of this publisher, plus 1. */
typedef struct claim {
  uint32_t key, id, venue;
} claim;

/* What a block notes beside its ticks, behind its bytes. */
typedef struct noted {
  uint64_t unselected;
  uint32_t counts[256]; /* records by type */
  uint32_t doubtful_books, doubtful_times;
  uint32_t latest_id, latest_key; /* of its last tick */
  uint32_t n_claims;
  claim claims[RECORDS];
} noted;

static noted *noted_of(const sd_block *b) { return (noted *)(void *)(b->bytes + BYTES + BEHIND); }

/* An instrument at hand, with what has been claimed of it. */
typedef struct known {
  sd_dbn_span span;
  uint32_t is_claimed, venue;
} known;

/* Where a walk stands. */
typedef struct walker {
  const sd_file_part *part;
  const sd_dbn *dbn;
  sd_block *b;
  const uint8_t *home_of;
  noted *own;
  int64_t first, last; /* ts_recv */
  known known[KNOWN];
} walker;

static known *know(walker *w, uint32_t id, uint64_t time) {
  known *k = &w->known[sd_dbn_hash(id) & (KNOWN - 1)];
  if (SD_LIKELY(sd_dbn_covers(&k->span, id, time))) return k;
  const sd_dbn_span *span = sd_dbn_instruments_look(w->dbn->instruments, id, time);
  if (!span) return NULL;
  *k = (known){.span = *span};
  return k;
}

/* Notes a record that makes ticks at a time: of which instrument it is. Zero: it comes before the one before it. */
static inline int note(walker *w, known *k, const uint8_t *p, int64_t time) {
  const uint32_t venue = has_own_quotes(p[1]) ? sd_load_le16(p + 2) + 1u : 0;
  noted *own = w->own;
  if (SD_UNLIKELY(time < w->last)) return 0;
  if (SD_UNLIKELY(w->first < 0)) w->first = time;
  w->last = time;
  own->latest_id = k->span.id;
  own->latest_key = k->span.key;
  if (SD_LIKELY(k->is_claimed && (!venue || venue == k->venue))) return 1;
  own->claims[own->n_claims++] = (claim){.key = k->span.key, .id = k->span.id, .venue = venue};
  k->is_claimed = 1;
  k->venue = venue ? venue : k->venue;
  return 1;
}

static inline void note_flags(noted *own, uint8_t flags) {
  own->doubtful_books += is_doubtful_book(flags);
  own->doubtful_times += is_doubtful_time(flags);
}

static inline int add(walker *w, uint32_t place, uint32_t key, uint8_t kind, int is_sizeless) {
  static const uint8_t notes[] = {
      [SD_KIND_ORDER] = SD_NOTE_ORDERS, [SD_KIND_TRADE] = SD_NOTE_TRADES, [SD_KIND_QUOTE] = SD_NOTE_QUOTES};
  sd_block *b = w->b;
  if (kind < sizeof notes && notes[kind]) b->notes[notes[kind]]++;
  b->notes[SD_NOTE_ZERO_SIZES] += kind == SD_KIND_TRADE && is_sizeless;
  b->notes[SD_NOTE_TICKS]++;
  return sd_block_add(b, w->home_of, (uint32_t)w->part->keys, place, key);
}

/* Takes a sound record that makes ticks. Zero: it has to be taken in turn. */
static inline int take(walker *w, const uint8_t *p, uint32_t place) {
  const uint64_t time = index_time(p);
  known *k = know(w, sd_load_le32(p + 4), time);
  if (SD_UNLIKELY(!k)) return 0;
  if (k->span.key == SD_DBN_UNWANTED) {
    w->own->unselected++;
    return 1;
  }
  if (SD_LIKELY(p[1] == MBO)) {
    if (!is_wanted_time(w->dbn, time)) {
      w->own->unselected++;
      return 1;
    }
    note_flags(w->own, p[36]);
    return note(w, k, p, (int64_t)time) &&
           add(w, place, k->span.key, (uint8_t)(kind_of_action[p[38]] - 1), !sd_load_le32(p + 32));
  }
  sd_tick ticks[SD_DBN_MAX_TICKS];
  const uint64_t n = make_ticks(w->dbn, ticks, p, k->span.key, 0);
  if (!is_wanted_time(w->dbn, (uint64_t)ticks[0].ts_recv)) {
    w->own->unselected += n;
    return 1;
  }
  if (has_doubts(p[1], ticks)) note_flags(w->own, ticks[0].flags);
  int is_part = note(w, k, p, ticks[0].ts_recv);
  for (uint32_t i = 0; i < n && is_part; i++)
    is_part = add(w, place | i, k->span.key, ticks[i].kind, ticks[i].size == 0);
  return is_part;
}

/* The bytes of a sound record; 0: it has to be taken in turn. */
static inline uint32_t sound(const sd_dbn *dbn, const uint8_t *p) {
  uint8_t value;
  const uint32_t size = p[0] * 4u;
  return size < SD_DBN_HEADER || find_fault(dbn, p, &value) || p[1] == SYMBOL_MAPPING ? 0 : size;
}

static void walk(const sd_file_part *part, sd_block *b, const uint8_t *p, const uint8_t *stop, const uint8_t *home_of) {
  const uint8_t *const begin = p;
  noted *own = noted_of(b);
  memset(own, 0, offsetof(noted, claims));
  walker w = {.part = part, .dbn = (const sd_dbn *)part->decoder, .b = b, .home_of = home_of, .own = own, .first = -1};
  uint32_t records = 0;
  for (; p < stop; records++) {
    sd_prefetch(p + READ_AHEAD);
    const uint32_t size = sound(w.dbn, p);
    if (SD_UNLIKELY(!size)) return;
    const uint32_t place = (uint32_t)(p - begin) / STEP << INDEX_BITS | records << NUMBER_AT;
    if (b->numbers) b->numbers[records] = (uint16_t)b->notes[SD_NOTE_TICKS];
    if (makes_ticks(p[1]) && SD_UNLIKELY(!take(&w, p, place))) return;
    own->counts[p[1]]++;
    p += size;
  }
  b->notes[SD_NOTE_RECORDS] = records;
  b->end = b->begin + (uint64_t)(p - begin);
  b->first_time = (uint64_t)w.first;
  b->last_time = (uint64_t)w.last;
  b->odd = records == 0;
}

/* Whether records in a row may begin at p, as far as they end before `end`. */
static int is_plausible(const sd_dbn *dbn, const uint8_t *p, const uint8_t *end) {
  uint8_t value;
  for (int i = 0; i < IN_A_ROW; i++) {
    const uint32_t size = p < end ? p[0] * 4u : 0;
    if (size > end - p || (i && p == end)) return i > 0;
    if (size < SD_DBN_HEADER || find_fault(dbn, p, &value)) return 0;
    p += size;
  }
  return 1;
}

static uint64_t find(const sd_file_part *part, const uint8_t *p, uint64_t size) {
  for (uint64_t at = 0; at < size; at += STEP)
    if (is_plausible((const sd_dbn *)part->decoder, p + at, p + size + BEHIND)) return at;
  return size;
}

/* A block that is refused is read again in turn, where its first ticks are followed as here. */
static int check(sd_file_part *part, const sd_block *b) {
  const sd_dbn *dbn = (const sd_dbn *)part->decoder;
  const noted *own = noted_of(b);
  for (uint32_t i = 0; i < own->n_claims; i++)
    if (!sd_dbn_instruments_follow_on(dbn->instruments, own->claims[i].key, own->claims[i].id)) return 0;
  return 1;
}

static void accept(sd_file_part *part, sd_block *b) {
  sd_dbn *dbn = (sd_dbn *)part->decoder;
  noted *own = noted_of(b);
  for (uint32_t i = 0; i < own->n_claims; i++) {
    const claim *c = &own->claims[i];
    if (c->venue)
      dbn->mixed_quotes += (uint64_t)sd_dbn_instruments_mix(dbn->instruments, c->key, (uint16_t)(c->venue - 1));
  }
  for (int type = 0; type < 256; type++) dbn->counts[type] += own->counts[type];
  b->before = dbn->records;
  dbn->records += b->notes[SD_NOTE_RECORDS];
  dbn->ticks += b->notes[SD_NOTE_TICKS];
  dbn->not_selected += own->unselected;
  dbn->doubtful_books += own->doubtful_books;
  dbn->doubtful_times += own->doubtful_times;
  if (!b->notes[SD_NOTE_TICKS]) return;
  dbn->latest_id = own->latest_id;
  dbn->latest_key = own->latest_key;
}

static uint32_t look(const sd_file_part *part, const uint8_t *p, int64_t *time) {
  const uint32_t size = sound((const sd_dbn *)part->decoder, p);
  if (SD_LIKELY(size)) *time = makes_ticks(p[1]) ? tick_time(p) : INT64_MIN;
  return size;
}

static void times(const sd_file_part *part, const sd_block *b, const sd_block_entry *entry, uint32_t n, int64_t *to) {
  const uint8_t *const begin = b->bytes + (b->begin - b->start);
  (void)part;
  for (uint32_t i = 0; i < n; i++) to[i] = tick_time(begin + place_at(entry[i].place));
}

static void gather(const void *self, const sd_block *b, const sd_block_entry *entry, uint32_t n, uint32_t left,
                   unsigned char *to) {
  const sd_dbn *dbn = (const sd_dbn *)((const sd_file_part *)self)->decoder;
  const uint8_t *const begin = b->bytes + (b->begin - b->start);
  sd_tick *tick = (sd_tick *)(void *)to, ticks[SD_DBN_MAX_TICKS];
  size_t made = SIZE_MAX; /* whose record's ticks these are */
  for (uint32_t i = 0; i < n; i++, tick++) {
    if (SD_LIKELY(i + RECORDS_AHEAD < left)) sd_prefetch(begin + place_at(entry[i + RECORDS_AHEAD].place));
    const uint32_t place = entry[i].place;
    const size_t at = place_at(place);
    const uint8_t *p = begin + at;
    if (SD_LIKELY(p[1] == MBO)) {
      make_mbo(tick, p, entry[i].key);
      continue;
    }
    if (made != at) make_ticks(dbn, ticks, p, entry[i].key, b->before + (place >> NUMBER_AT) + 1);
    made = at;
    *tick = ticks[place & INDEX_MASK];
  }
}

static const sd_block_format format = {.bytes = BYTES,
                                       .behind = BEHIND,
                                       .search = SEARCH,
                                       .most = BYTES / A_TICK + SD_DBN_MAX_TICKS,
                                       .room = sizeof(noted),
                                       .records = BYTES / SD_DBN_HEADER,
                                       .record_at = NUMBER_AT,
                                       .tick_bits = INDEX_BITS,
                                       .find = find,
                                       .walk = walk,
                                       .check = check,
                                       .accept = accept,
                                       .look = look,
                                       .times = times,
                                       .gather = gather};

int sd_dbn_open_blocks(sd_file_part *part, sd_block_source *source) {
  sd_dbn *dbn = (sd_dbn *)part->decoder;
  return sd_open_file_blocks(part, &format, &dbn->offset, sd_dbn_instruments_keys(dbn->instruments), source);
}
