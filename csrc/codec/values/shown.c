#include "codec/values/shown.h"

#include <string.h>

/* Ticks that are shown together: few enough to stay in the first-level cache from one column to the next. A multiple of 8. */
enum { AT_A_GO = 256 };

/* Numbers of a column, and a byte for each: 1 where it is defined. */
typedef struct numbers {
  int64_t values[AT_A_GO];
  uint8_t defined[AT_A_GO];
} numbers;

static inline int is_defined(int64_t price) { return price != SD_UNDEF_PRICE && price != INT64_MIN; }
static inline int is_quote(const sd_tick *t) { return t->kind == SD_KIND_QUOTE; }
static inline int is_both(const sd_tick *t) { return is_quote(t) && t->side == 'N'; }

static void take(numbers *to, const sd_tick *t, uint32_t n, uint64_t first, uint32_t what) {
/* Two loops rather than one: compilers make both parallel. */
#define TAKE(value, given) \
  for (uint32_t i = 0; i < n; i++) to->values[i] = (int64_t)(value); \
  for (uint32_t i = 0; i < n; i++) to->defined[i] = (uint8_t)(given); \
  break
  switch (what) {
  case SD_SHOWN_NUMBER:
    TAKE(first + i, 1);
  case SD_SHOWN_SEQUENCE:
    TAKE(sd_sequence(&t[i]), 1);
  case SD_SHOWN_TS_EVENT:
    TAKE(t[i].ts_event, is_defined(to->values[i]));
  case SD_SHOWN_TS_RECV:
    TAKE(t[i].ts_recv, to->values[i] >= 0 && is_defined(to->values[i]));
  case SD_SHOWN_INSTRUMENT_ID:
    TAKE(t[i].instrument_id, 1);
  case SD_SHOWN_KIND:
    TAKE(t[i].kind, 1);
  case SD_SHOWN_PRICE:
    TAKE(t[i].price, is_defined(to->values[i]));
  case SD_SHOWN_SIZE:
    TAKE(t[i].size, 1);
  case SD_SHOWN_BID_PRICE:
    TAKE(sd_bid_price(&t[i]), is_quote(&t[i]) && is_defined(to->values[i]));
  case SD_SHOWN_BID_SIZE:
    TAKE(sd_bid_size(&t[i]), is_quote(&t[i]) && is_defined(sd_bid_price(&t[i])));
  case SD_SHOWN_ASK_PRICE:
    TAKE(sd_ask_price(&t[i]), is_quote(&t[i]) && is_defined(to->values[i]));
  case SD_SHOWN_ASK_SIZE:
    TAKE(sd_ask_size(&t[i]), is_quote(&t[i]) && is_defined(sd_ask_price(&t[i])));
  case SD_SHOWN_ORDER_ID:
    TAKE(is_both(&t[i]) ? 0 : t[i].order_id, to->values[i] != 0);
  case SD_SHOWN_REF_ID:
    TAKE(is_both(&t[i]) ? 0 : t[i].ref_id, to->values[i] != 0);
  case SD_SHOWN_PUBLISHER_ID:
    TAKE(t[i].publisher_id, to->values[i] != 0);
  case SD_SHOWN_FLAGS:
    TAKE(t[i].flags, 1);
  default:
    TAKE(t[i].depth, 1);
  }
#undef TAKE
}

static void put(sd_shown *c, const numbers *from, uint64_t at, uint32_t n) {
  uint64_t defined = 0;
  for (uint32_t i = 0; i < n; i++) defined += from->defined[i];
  c->undefined += n - defined;
  if (defined == n || !defined) {
    memset(c->valid + at / 8, defined ? 0xff : 0, (n + 7) / 8);
  } else {
    for (uint32_t i = 0; i < n; i += 8) {
      uint64_t eight = 0;
      memcpy(&eight, from->defined + i, n - i < 8 ? n - i : 8);
      /* A byte that is 1 becomes one bit of the highest byte: the first one the lowest. */
      c->valid[(at + i) / 8] = (uint8_t)(eight * UINT64_C(0x0102040810204080) >> 56);
    }
  }
  const uint64_t width = c->width ? c->width : sizeof(double);
  uint8_t *const out = c->out + at * width;
  if (!defined) {
    memset(out, 0, n * width);
    return;
  }
  const double factor = c->factor, divisor = c->divisor;
#define PUT(type, value) \
  for (uint32_t i = 0; i < n; i++) ((type *restrict)out)[i] = (type)(value); \
  break
  switch (c->width) {
  case SD_SHOWN_REAL:
    PUT(double, (double)from->values[i] * factor / divisor);
  case 1:
    PUT(uint8_t, from->values[i]);
  case 2:
    PUT(uint16_t, from->values[i]);
  case 4:
    PUT(uint32_t, from->values[i]);
  case 8:
    PUT(int64_t, from->values[i]);
  default:
    PUT(__int128, from->values[i]);
  }
#undef PUT
}

/* Letters as views: their lengths, and the letter, or four that stand for one that is not ASCII. */
typedef struct letters {
  struct {
    int32_t length;
    uint8_t text[12];
  } views[256];
} letters;

static void fill(letters *to) {
  static const char digits[] = "0123456789abcdef";
  memset(to, 0, sizeof *to);
  for (int letter = 1; letter < 128; letter++) {
    to->views[letter].length = 1;
    to->views[letter].text[0] = (uint8_t)letter;
  }
  for (int letter = 128; letter < 256; letter++) {
    to->views[letter].length = 4;
    memcpy(to->views[letter].text, (char[]){'\\', 'x', digits[letter >> 4], digits[letter & 15]}, 4);
  }
}

static void put_letters(sd_shown *c, const letters *of, const sd_tick *t, uint64_t at, uint32_t n) {
  int32_t end = c->width ? 0 : c->ends[at];
  for (uint32_t i = 0; i < n; i++) {
    const uint8_t letter = (uint8_t)(c->what == SD_SHOWN_ACTION ? t[i].action : t[i].side);
    if (c->width) {
      memcpy(c->out + (at + i) * 16, &of->views[letter], 16);
      continue;
    }
    memcpy(c->out + end, of->views[letter].text, 4);
    c->ends[at + i + 1] = end += of->views[letter].length;
  }
}

/* Returns the count of names that suffices, or 0. */
static uint64_t put_symbols(sd_shown *c, const sd_tick *t, uint64_t at, uint32_t n, const sd_shown_names *names) {
  int32_t end = c->width ? 0 : c->ends[at];
  for (uint32_t i = 0; i < n; i++) {
    const uint64_t key = t[i].instrument_id;
    if (__builtin_expect(key >= names->count, 0)) return key + 1;
    if (c->width) {
      memcpy(c->out + (at + i) * 16, names->views + key * 16, 16);
      continue;
    }
    const int32_t begin = names->ends[key], length = names->ends[key + 1] - begin;
    memcpy(c->out + end, names->bytes + begin, 16);
    if (__builtin_expect(length > 16, 0)) memcpy(c->out + end, names->bytes + begin, (size_t)length);
    c->ends[at + i + 1] = end += length;
  }
  return 0;
}

uint64_t sd_show(const sd_tick *ticks, uint64_t n, uint64_t first, sd_shown *columns, uint32_t count,
                 const sd_shown_names *names) {
  uint64_t needed = 0;
  numbers found;
  letters of;
  fill(&of);
  for (uint32_t c = 0; c < count; c++) {
    columns[c].undefined = 0;
    if (columns[c].what >= SD_SHOWN_ACTION && !columns[c].width) columns[c].ends[0] = 0;
  }
  for (uint64_t at = 0; at < n; at += AT_A_GO) {
    const uint32_t some = n - at < AT_A_GO ? (uint32_t)(n - at) : AT_A_GO;
    for (uint32_t c = 0; c < count; c++) {
      if (columns[c].what == SD_SHOWN_SYMBOL) {
        const uint64_t more = needed ? 0 : put_symbols(&columns[c], ticks + at, at, some, names);
        needed = more > needed ? more : needed;
      } else if (columns[c].what >= SD_SHOWN_ACTION) {
        put_letters(&columns[c], &of, ticks + at, at, some);
      } else {
        take(&found, ticks + at, some, first + at, columns[c].what);
        put(&columns[c], &found, at, some);
      }
    }
  }
  return needed;
}
