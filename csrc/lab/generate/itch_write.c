#include "lab/generate/itch_write.h"

#include <string.h>

#include "lab/generate/market.h"
#include "sd_error.h"

/* Times of the administrative messages, ns since midnight. */
#define NS_PER_SECOND UINT64_C(1000000000)
#define START_OF_MESSAGES (UINT64_C(11040) * NS_PER_SECOND)     /* 03:04 */
#define START_OF_SYSTEM_HOURS (UINT64_C(14400) * NS_PER_SECOND) /* 04:00 */
#define BREAKER_LEVELS (UINT64_C(33300) * NS_PER_SECOND)        /* 09:15 */
#define END_OF_SYSTEM_HOURS (UINT64_C(72000) * NS_PER_SECOND)   /* 20:00 */
#define END_OF_MESSAGES (UINT64_C(72300) * NS_PER_SECOND)       /* 20:05 */
#define DIRECTORY_STEP UINT64_C(20000)                          /* between two symbols' messages */

#define NO_REASON UINT32_C(0x20202020)   /* four spaces */
#define BREAKER_UNIT UINT64_C(100000000) /* circuit breaker levels have eight decimals */

enum { LENGTH_S = 12, LENGTH_R = 39, LENGTH_H = 25, LENGTH_L = 26, LENGTH_V = 35, PREFIX = 2 };

static uint8_t *put16(uint8_t *p, uint32_t v) {
  p[0] = (uint8_t)(v >> 8);
  p[1] = (uint8_t)v;
  return p + 2;
}

static uint8_t *put32(uint8_t *p, uint32_t v) {
  v = __builtin_bswap32(v);
  memcpy(p, &v, 4);
  return p + 4;
}

static uint8_t *put64(uint8_t *p, uint64_t v) {
  v = __builtin_bswap64(v);
  memcpy(p, &v, 8);
  return p + 8;
}

static uint8_t *put8(uint8_t *p, char v) {
  *p = (uint8_t)v;
  return p + 1;
}

static uint8_t *put_name(uint8_t *p, uint32_t locate) {
  memset(p, ' ', 8);
  sd_itch_symbol_name(locate - 1, (char *)p);
  return p + 8;
}

/* Length, type, locate, tracking number 0, and the time in 48 bits. */
static uint8_t *put_header(uint8_t *p, uint32_t length, char type, uint32_t locate, uint64_t ns) {
  p = put16(p, length);
  p = put8(p, type);
  p = put16(p, locate);
  p = put16(p, 0);
  p = put16(p, (uint32_t)(ns >> 32));
  return put32(p, (uint32_t)ns);
}

void sd_itch_symbol_name(uint32_t index, char name[SD_ITCH_NAME_LETTERS]) {
  for (int i = SD_ITCH_NAME_LETTERS - 1; i >= 0; i--, index /= 26) name[i] = (char)('A' + index % 26);
}

static uint8_t *put_system_event(uint8_t *p, char code, uint64_t ns) {
  return put8(put_header(p, LENGTH_S, 'S', 0, ns), code);
}

/* Kinds of listing vary with the locate as on a day: common stock first, then funds, depositary receipts, preferred. */
static uint8_t *put_directory(uint8_t *p, uint32_t locate, uint64_t ns) {
  static const char markets[] = "QNPGZQAS", classes[] = "CCQCACCF", tiers[] = "1222122 ";
  uint32_t kind = locate & 7;
  char fund = classes[kind] == 'Q' ? 'Y' : 'N';
  p = put_name(put_header(p, LENGTH_R, 'R', locate, ns), locate);
  p = put8(put8(p, markets[kind]), 'N'); /* no deficiency, no bankruptcy */
  p = put8(put32(p, 100), 'N');          /* round lot, odd lots too */
  p = put8(put8(put8(p, classes[kind]), fund == 'Y' ? 'E' : 'Z'), ' ');
  p = put8(p, 'T');                                    /* a test issue: no such company exists */
  p = put8(put8(put8(p, 'N'), 'N'), tiers[kind]);      /* short sale threshold, new issue, price band tier */
  return put8(put32(put8(p, fund), fund == 'Y'), 'N'); /* a fund has leverage 1; none is inverse */
}

static uint8_t *put_trading_state(uint8_t *p, uint32_t locate, uint64_t ns, char state, uint32_t reason) {
  p = put_name(put_header(p, LENGTH_H, 'H', locate, ns), locate);
  return put32(put8(put8(p, state), ' '), reason);
}

/* One market maker a symbol, primary, in normal mode and active; no real participant's name. */
static uint8_t *put_market_maker(uint8_t *p, uint32_t locate, uint64_t ns) {
  p = put_header(p, LENGTH_L, 'L', locate, ns);
  memcpy(p, "TEST", 4);
  p = put_name(p + 4, locate);
  return put8(put8(put8(p, 'Y'), 'N'), 'A');
}

/* 7, 13 and 20 per cent below an index of 5,000. */
static uint8_t *put_breaker_levels(uint8_t *p, uint64_t ns) {
  p = put64(put_header(p, LENGTH_V, 'V', 0, ns), 4650 * BREAKER_UNIT);
  return put64(put64(p, 4350 * BREAKER_UNIT), 4000 * BREAKER_UNIT);
}

int64_t sd_itch_opening_bytes(uint32_t symbols) {
  if (symbols > SD_ITCH_MAX_SYMBOLS) return 0;
  int64_t a_symbol = LENGTH_R + LENGTH_H + LENGTH_L + 3 * PREFIX;
  return 2 * (LENGTH_S + PREFIX) + LENGTH_V + PREFIX + (int64_t)symbols * a_symbol;
}

int64_t sd_itch_write_opening(uint32_t symbols, uint8_t *out) {
  uint64_t hours = START_OF_SYSTEM_HOURS;
  uint8_t *p = put_system_event(out, 'O', START_OF_MESSAGES);
  for (uint32_t i = 1; i <= symbols; i++) p = put_directory(p, i, START_OF_MESSAGES + i * DIRECTORY_STEP);
  p = put_system_event(p, 'S', hours);
  for (uint32_t i = 1; i <= symbols; i++) p = put_trading_state(p, i, hours + i * DIRECTORY_STEP, 'T', NO_REASON);
  hours += (symbols + UINT64_C(1)) * DIRECTORY_STEP;
  for (uint32_t i = 1; i <= symbols; i++) p = put_market_maker(p, i, hours + i * DIRECTORY_STEP);
  return put_breaker_levels(p, BREAKER_LEVELS) - out;
}

void sd_itch_opening_ticks(uint32_t symbols, uint32_t first, int64_t n, uint64_t midnight_ns, sd_tick *out) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t locate = first + (uint64_t)i + 1;
    uint64_t ts = midnight_ns + START_OF_SYSTEM_HOURS + locate * DIRECTORY_STEP;
    out[i] = (sd_tick){.ts_event = (int64_t)ts,
                       .ts_recv = (int64_t)ts,
                       .price = SD_UNDEF_PRICE,
                       .instrument_id = (uint32_t)locate,
                       .ref_id = NO_REASON,
                       .action = 'N',
                       .side = 'N',
                       .flags = 'T',
                       .kind = SD_KIND_STATUS};
    sd_set_sequence(&out[i], symbols + 2 + locate); /* after two system events and the directory */
  }
}

/* The exchange gives prices in units of 1e-4. */
static uint32_t itch_price(const sd_tick *t) { return (uint32_t)(t->price / (SD_PRICE_SCALE / 10000)); }

static uint8_t *put_order(uint8_t *p, const sd_tick *t) {
  p = put64(p, t->order_id);
  p = put8(p, t->side == 'A' ? 'S' : 'B');
  p = put_name(put32(p, t->size), t->instrument_id);
  return put32(p, itch_price(t));
}

static char cross_type(uint8_t flags) {
  flags &= SD_ITCH_CROSS_MASK;
  return flags == SD_ITCH_CROSS_OPENING ? 'O' : flags == SD_ITCH_CROSS_CLOSING ? 'C' : 'H';
}

/* The prices at which the auction would clear are a cent from the reference price, on the imbalance's side. */
static uint8_t *put_imbalance(uint8_t *p, const sd_tick *t) {
  uint32_t reference = itch_price(t), near = reference;
  if (t->side == 'B') near += 100;
  if (t->side == 'A') near -= 100;
  p = put64(put64(p, t->size), t->ref_id);
  p = put_name(put8(p, t->side == 'A' ? 'S' : t->side), t->instrument_id);
  p = put32(put32(put32(p, near), near), reference);
  return put8(put8(p, (char)(t->flags & 0x7F)), 'L'); /* near and reference price less than 1 % apart */
}

static uint8_t *put_event(uint8_t *p, const sd_tick *t, char type, uint64_t ns) {
  uint32_t locate = t->instrument_id;
  switch (type) {
  case 'A':
    return put_order(put_header(p, 36, 'A', locate, ns), t);
  case 'F':
    p = put_order(put_header(p, 40, 'F', locate, ns), t);
    memcpy(p, "TEST", 4); /* no real participant's name */
    return p + 4;
  case 'E':
    return put64(put32(put64(put_header(p, 31, 'E', locate, ns), t->order_id), t->size), t->ref_id);
  case 'C':
    p = put64(put32(put64(put_header(p, 36, 'C', locate, ns), t->order_id), t->size), t->ref_id);
    return put32(put8(p, 'Y'), itch_price(t));
  case 'X':
    return put32(put64(put_header(p, 23, 'X', locate, ns), t->order_id), t->size);
  case 'D':
    return put64(put_header(p, 19, 'D', locate, ns), t->order_id);
  case 'U':
    p = put64(put64(put_header(p, 35, 'U', locate, ns), t->order_id), t->ref_id);
    return put32(put32(p, t->size), itch_price(t));
  case 'P':
    return put64(put_order(put_header(p, 44, 'P', locate, ns), t), t->ref_id);
  case 'Q': /* shares have 64 bits here */
    p = put_name(put64(put_header(p, 40, 'Q', locate, ns), t->size), locate);
    return put8(put64(put32(p, itch_price(t)), t->ref_id), cross_type(t->flags));
  case 'H':
    return put_trading_state(p, locate, ns, (char)t->flags, (uint32_t)t->ref_id);
  case 'I':
    return put_imbalance(put_header(p, 50, 'I', locate, ns), t);
  default:
    return NULL;
  }
}

/* Ends one part of the day and begins the next, until market hours have come that far. */
static uint8_t *put_hours(sd_itch_writer *w, uint64_t until, uint8_t *p) {
  static const struct {
    char code;
    uint64_t ns;
  } parts[] = {{'Q', SD_MARKET_OPEN_NS}, {'M', SD_MARKET_CLOSE_NS}};
  for (; w->hours < until; w->hours++) p = put_system_event(p, parts[w->hours].code, parts[w->hours].ns);
  return p;
}

int64_t sd_itch_write_events(sd_itch_writer *w, const sd_tick *ticks, const char *types, int64_t n, uint8_t *out) {
  uint8_t *p = out;
  for (int64_t i = 0; i < n; i++) {
    uint64_t ns = ticks[i].ts_event - w->midnight_ns;
    p = put_hours(w, (uint64_t)(ns >= SD_MARKET_OPEN_NS) + (ns >= SD_MARKET_CLOSE_NS), p);
    p = put_event(p, &ticks[i], types[i], ns);
    if (!p) return SD_E_ARGUMENT;
  }
  return p - out;
}

int64_t sd_itch_write_closing(sd_itch_writer *w, uint8_t *out) {
  uint8_t *p = put_hours(w, 2, out);
  p = put_system_event(p, 'E', END_OF_SYSTEM_HOURS);
  return put_system_event(p, 'C', END_OF_MESSAGES) - out;
}
