/* The decoder parses a whole line before it changes anything: numbers first, then the symbol, then the memory of orders. So a line with a
 * fault, or one that has to wait for a decision, leaves no trace. */
#include "codec/pitch/pitch.h"

#include <stdlib.h>
#include <string.h>

#include "codec/symbols.h"

#define PRICE_FACTOR INT64_C(100000) /* 4 decimals to 9 */
#define MS_NS UINT64_C(1000000)
#define DAY_MS 86400000u

enum { TYPE_AT = 8, BODY_AT = 9, ID_DIGITS = 12, PRICE_DIGITS = 10 };

static const uint8_t lengths[256] = {['s'] = 17, ['A'] = 45, ['d'] = 51, ['E'] = 39, ['X'] = 27, ['P'] = 56,
                                     ['r'] = 58, ['B'] = 21, ['H'] = 21, ['I'] = 68, ['J'] = 38, ['R'] = 18};

/* ---- what has to be remembered: the symbol of an order, and the index of a name */

/* A live order. instrument_id 0: the place is free. */
typedef struct order_left {
  uint64_t id;
  uint32_t instrument_id;
  uint32_t left; /* shares */
} order_left;

struct sd_pitch_memory {
  order_left *orders; /* open addressing, linear probing, at most half full */
  uint64_t mask;      /* number of places, minus 1 */
  uint64_t live;
  uint32_t names[SD_SYMBOL_SLOTS]; /* index of a symbol by its name's hash; 0: free */
};

enum { FIRST_ORDERS = 1 << 12 };

static sd_pitch_memory *memory_new(void) {
  sd_pitch_memory *memory = calloc(1, sizeof *memory);
  if (!memory) return NULL;
  memory->orders = calloc(FIRST_ORDERS, sizeof *memory->orders);
  memory->mask = FIRST_ORDERS - 1;
  if (memory->orders) return memory;
  free(memory);
  return NULL;
}

static void memory_free(sd_pitch_memory *memory) {
  if (!memory) return;
  free(memory->orders);
  free(memory);
}

/* The order's place, or the free place where it would go. */
static uint64_t place_of(const sd_pitch_memory *memory, uint64_t id) {
  uint64_t at = sd_mix(id) & memory->mask;
  while (memory->orders[at].instrument_id != 0 && memory->orders[at].id != id) at = (at + 1) & memory->mask;
  return at;
}

static int grow(sd_pitch_memory *memory) {
  uint64_t places = memory->mask + 1;
  order_left *old = memory->orders;
  order_left *grown = places > UINT64_MAX / sizeof *grown / 4 ? NULL : calloc(places * 2, sizeof *grown);
  if (!grown) return -1;
  memory->orders = grown;
  memory->mask = places * 2 - 1;
  for (uint64_t i = 0; i < places; i++)
    if (old[i].instrument_id != 0) grown[place_of(memory, old[i].id)] = old[i];
  free(old);
  return 0;
}

/* Remembers an order, or replaces the one of that id. Nonzero: no memory. */
static int remember(sd_pitch_memory *memory, uint64_t id, uint32_t instrument_id, uint32_t shares) {
  if (memory->live > memory->mask / 2 && grow(memory) != 0) return -1;
  order_left *order = &memory->orders[place_of(memory, id)];
  memory->live += order->instrument_id == 0;
  *order = (order_left){.id = id, .instrument_id = instrument_id, .left = shares};
  return 0;
}

/* Frees a place, and moves up what a search would no longer reach. */
static void forget(sd_pitch_memory *memory, uint64_t hole) {
  for (uint64_t at = hole;;) {
    at = (at + 1) & memory->mask;
    if (memory->orders[at].instrument_id == 0) break;
    uint64_t home = sd_mix(memory->orders[at].id) & memory->mask;
    if (((at - home) & memory->mask) < ((at - hole) & memory->mask)) continue;
    memory->orders[hole] = memory->orders[at];
    hole = at;
  }
  memory->orders[hole].instrument_id = 0;
  memory->live--;
}

/* Takes `shares` off an order, and returns its symbol; 0: no such order. */
static uint32_t take_shares(sd_pitch_memory *memory, uint64_t id, uint32_t shares) {
  uint64_t at = place_of(memory, id);
  order_left *order = &memory->orders[at];
  uint32_t instrument_id = order->instrument_id;
  if (instrument_id == 0) return 0;
  if (shares < order->left) order->left -= shares;
  else forget(memory, at);
  return instrument_id;
}

/* ---- a line */

/* The current line: the message, and what is wrong with it and where. */
typedef struct line {
  const uint8_t *m;
  uint32_t fault;
  uint32_t column; /* in m */
} line;

/* What a line means, before it becomes a tick. */
typedef struct said {
  sd_tick tick;
  uint64_t name;  /* of the symbol, its 8 bytes as they are; 0: the line has no name */
  uint32_t adds;  /* it adds an order */
  uint32_t takes; /* it takes shares off one */
} said;

static uint64_t fault_at(line *l, uint32_t column) {
  if (l->fault == SD_PITCH_FAULT_NONE) {
    l->fault = SD_PITCH_FAULT_FIELD;
    l->column = column;
  }
  return 0;
}

static uint64_t decimal(line *l, uint32_t at, uint32_t digits) {
  uint64_t value = 0;
  for (uint32_t i = at; i < at + digits; i++) {
    uint32_t digit = l->m[i] - (uint32_t)'0';
    if (digit > 9) return fault_at(l, i);
    value = value * 10 + digit;
  }
  return value;
}

static uint64_t base36(line *l, uint32_t at) {
  uint64_t value = 0;
  for (uint32_t i = at; i < at + ID_DIGITS; i++) {
    uint32_t digit = l->m[i] - (uint32_t)'0';
    if (digit > 9) {
      digit = l->m[i] - (uint32_t)'A' + 10;
      if (digit < 10 || digit > 35) return fault_at(l, i);
    }
    value = value * 36 + digit;
  }
  return value;
}

static int64_t price(line *l, uint32_t at) { return (int64_t)decimal(l, at, PRICE_DIGITS) * PRICE_FACTOR; }

static char side(line *l, uint32_t at) {
  if (l->m[at] == 'B') return 'B';
  if (l->m[at] != 'S') fault_at(l, at);
  return 'A';
}

static char interest(uint8_t letter) { return letter == 'B' ? 'B' : letter == 'S' ? 'A' : 'N'; }

/* A name of 6 or 8 printable characters, which does not begin with a space. */
static uint64_t name(line *l, uint32_t at, uint32_t letters) {
  char padded[SD_PITCH_SYMBOL_BYTES];
  uint64_t word;
  memset(padded, ' ', sizeof padded);
  for (uint32_t i = 0; i < letters; i++) {
    uint8_t letter = l->m[at + i];
    if (letter < 0x20 || letter > 0x7E || (i == 0 && letter == ' ')) return fault_at(l, at + i);
    padded[i] = (char)letter;
  }
  memcpy(&word, padded, sizeof word);
  return word;
}

static void parse_order(line *l, said *s, uint32_t letters) {
  const uint8_t *m = l->m;
  uint32_t price_at = 28 + letters;
  s->tick.order_id = base36(l, BODY_AT);
  s->tick.side = side(l, 21);
  s->tick.size = (int64_t)decimal(l, 22, 6);
  s->name = name(l, 28, letters);
  s->tick.price = price(l, price_at);
  if (m[TYPE_AT] == 'P' || m[TYPE_AT] == 'r') {
    s->tick.action = 'T';
    s->tick.kind = SD_KIND_TRADE;
    s->tick.ref_id = base36(l, price_at + PRICE_DIGITS);
    return;
  }
  s->tick.action = 'A';
  s->tick.kind = SD_KIND_ORDER;
  s->tick.flags = m[price_at + PRICE_DIGITS] == 'Y' ? 0 : SD_PITCH_NON_DISPLAYED;
  if (m[TYPE_AT] == 'd' && m[47] != ' ') s->tick.flags |= SD_PITCH_ATTRIBUTED;
  s->adds = 1;
}

static void parse_status(line *l, said *s) {
  const uint8_t *m = l->m;
  s->tick.kind = SD_KIND_STATUS;
  s->tick.action = 'N';
  if (m[TYPE_AT] == 'B') {
    s->tick.flags = SD_PITCH_BROKEN_TRADE;
    s->tick.ref_id = base36(l, BODY_AT);
    return;
  }
  s->name = name(l, BODY_AT, 8);
  switch (m[TYPE_AT]) {
  case 'H':
    s->tick.flags = m[17] & 0x7F;
    s->tick.ref_id = m[18];
    break;
  case 'I':
    s->tick.flags = SD_PITCH_AUCTION | (m[17] & 0x7F);
    s->tick.price = price(l, 18);
    s->tick.size = (int64_t)decimal(l, 28, 10);
    s->tick.ref_id = decimal(l, 38, 10);
    s->tick.order_id = (uint64_t)price(l, 48);
    decimal(l, 58, PRICE_DIGITS);
    break;
  case 'J':
    s->tick.flags = SD_PITCH_AUCTION_SUMMARY;
    s->tick.ref_id = m[17];
    s->tick.price = price(l, 18);
    s->tick.size = (int64_t)decimal(l, 28, 10);
    break;
  default:
    s->tick.flags = SD_PITCH_RETAIL_INTEREST;
    s->tick.ref_id = m[17];
    s->tick.side = interest(m[17]);
    break;
  }
}

static void parse(line *l, said *s) {
  uint64_t ms = decimal(l, 0, 8);
  if (ms >= DAY_MS) fault_at(l, 0);
  s->tick.ts_event = (int64_t)(ms * MS_NS);
  switch (l->m[TYPE_AT]) {
  case 'A':
  case 'P':
    parse_order(l, s, 6);
    break;
  case 'd':
  case 'r':
    parse_order(l, s, 8);
    break;
  case 'E':
    s->tick.ref_id = base36(l, 27);
    /* fall through */
  case 'X':
    s->tick.action = l->m[TYPE_AT] == 'E' ? 'F' : 'C';
    s->tick.kind = SD_KIND_ORDER;
    s->tick.order_id = base36(l, BODY_AT);
    s->tick.size = (int64_t)decimal(l, 21, 6);
    s->takes = 1;
    /* A C of size 0 would take all that is left. */
    if (s->tick.size == 0 && s->tick.action == 'C') s->tick.action = 'N';
    break;
  case 's':
    s->tick.action = 'R';
    s->tick.kind = SD_KIND_ORDER;
    s->name = name(l, BODY_AT, 8);
    break;
  default:
    parse_status(l, s);
    break;
  }
}

/* The symbol's index; a new symbol gets one. 0: there are too many. */
static uint32_t index_of(sd_pitch *pitch, uint64_t symbol) {
  uint32_t *at = sd_symbol_slot(pitch->memory->names, (const char (*)[8])pitch->symbols, symbol);
  if (*at != 0 || pitch->symbol_count == SD_PITCH_SYMBOLS) return *at;
  memcpy(pitch->symbols[pitch->symbol_count], &symbol, sizeof symbol);
  if (pitch->selective) pitch->wanted[pitch->symbol_count] = SD_PITCH_UNDECIDED;
  return *at = pitch->symbol_count++;
}

/* One message of the right length. */
static sd_way take_message(sd_pitch *pitch, line *l, sd_tick *tick, uint64_t *made) {
  said s = {.tick = {.price = SD_UNDEF_PRICE, .side = 'N'}};
  parse(l, &s);
  if (l->fault != SD_PITCH_FAULT_NONE) return SD_FAULT;
  if (s.name != 0) {
    uint32_t index = s.tick.instrument_id = index_of(pitch, s.name);
    if (index == 0) {
      l->fault = SD_PITCH_FAULT_SYMBOLS;
      return SD_FAULT;
    }
    if (pitch->selective && pitch->wanted[index] == SD_PITCH_UNDECIDED) {
      pitch->asked = index;
      return SD_ASKS;
    }
  }
  if (s.adds && s.tick.size != 0 &&
      remember(pitch->memory, s.tick.order_id, s.tick.instrument_id, (uint32_t)s.tick.size) != 0)
    return SD_NO_MEMORY;
  if (s.takes) {
    s.tick.instrument_id = take_shares(pitch->memory, s.tick.order_id, (uint32_t)s.tick.size);
    pitch->unknown_orders += s.tick.instrument_id == 0;
  }
  pitch->messages++;
  pitch->counts[l->m[TYPE_AT]]++;
  const uint64_t ts = (uint64_t)s.tick.ts_event + pitch->midnight_ns;
  if (pitch->selective && (!pitch->wanted[s.tick.instrument_id] || ts - pitch->start_ns >= pitch->span_ns)) {
    pitch->unselected++;
    return SD_TAKEN;
  }
  s.tick.ts_event = s.tick.ts_recv = (int64_t)ts;
  sd_set_sequence(&s.tick, pitch->lines + 1);
  *tick = s.tick;
  *made = 1;
  return SD_TAKEN;
}

static sd_way refuse(sd_pitch *pitch, uint32_t fault, uint32_t column, uint8_t type, uint64_t length) {
  pitch->fault = (sd_pitch_sample){.offset = pitch->offset,
                                   .line = pitch->lines + 1,
                                   .fault = fault,
                                   .column = column,
                                   .type = type,
                                   .length = (uint8_t)(length < 255 ? length : 255)};
  if (!pitch->skip) return SD_FAULT;
  pitch->skips[fault]++;
  if (pitch->sampled < SD_PITCH_SAMPLES) pitch->samples[pitch->sampled++] = pitch->fault;
  return SD_TAKEN;
}

/* Takes one line of p[0 .. left); passes *used bytes of it. */
static sd_way take_line(sd_pitch *pitch, const uint8_t *p, uint64_t left, int last, sd_tick *tick, uint64_t *used,
                        uint64_t *made) {
  uint64_t reach = left < SD_PITCH_MAX_LINE ? left : SD_PITCH_MAX_LINE;
  *used = *made = 0;
  if (left == 0) return SD_NEED_MORE;
  const uint8_t *end = memchr(p, '\n', pitch->dropping ? left : reach);
  if (pitch->dropping) {
    *used = end ? (uint64_t)(end - p) + 1 : left;
    pitch->dropping = end == NULL;
    pitch->lines += end != NULL;
    return SD_TAKEN;
  }
  if (!end && left < SD_PITCH_MAX_LINE && !last) return SD_NEED_MORE;
  uint64_t length = end ? (uint64_t)(end - p) : reach;
  *used = length + (end != NULL);
  int cut = !end && left < SD_PITCH_MAX_LINE;
  if (length != 0 && p[length - 1] == '\r') length--;
  line l = {.m = p};
  if (length != 0 && p[0] == 'S') {
    l.m++;
    length--;
  }
  uint32_t prefix = (uint32_t)(l.m - p);
  sd_way taken = SD_TAKEN;
  if (length == 0 && prefix == 0) {
    /* An empty line has no meaning. */
  } else if (length == 1 && prefix == 0 && (p[0] == 'H' || p[0] == 'Z')) {
    pitch->session_packets++;
  } else if (length <= TYPE_AT || lengths[l.m[TYPE_AT]] == 0) {
    uint8_t type = length > TYPE_AT ? l.m[TYPE_AT] : 0;
    uint32_t fault = cut && length <= TYPE_AT ? SD_PITCH_FAULT_TRUNCATED : SD_PITCH_FAULT_UNKNOWN_TYPE;
    taken = refuse(pitch, fault, 0, type, length);
  } else if (length != lengths[l.m[TYPE_AT]]) {
    uint32_t fault = cut && length < lengths[l.m[TYPE_AT]] ? SD_PITCH_FAULT_TRUNCATED : SD_PITCH_FAULT_LENGTH;
    taken = refuse(pitch, fault, 0, l.m[TYPE_AT], length);
  } else {
    taken = take_message(pitch, &l, tick, made);
    if (taken == SD_FAULT) taken = refuse(pitch, l.fault, prefix + l.column, l.m[TYPE_AT], length);
  }
  if (taken != SD_TAKEN) {
    *used = 0;
    return taken;
  }
  if (end || cut) pitch->lines++;
  else pitch->dropping = 1;
  return SD_TAKEN;
}

sd_decoded sd_pitch_decode(void *self, const uint8_t *at, uint64_t left, int last, sd_tick *out, uint64_t capacity) {
  sd_pitch *pitch = self;
  sd_decoded did = {0};
  sd_way taken = SD_TAKEN;
  while (did.made < capacity && taken == SD_TAKEN) {
    uint64_t used;
    uint64_t made;
    taken = take_line(pitch, at + did.consumed, left - did.consumed, last, out + did.made, &used, &made);
    did.consumed += used;
    did.made += made;
    pitch->offset += used;
  }
  pitch->ticks += did.made;
  pitch->live_orders = pitch->memory->live;
  did.sampled = pitch->sampled;
  did.code = sd_code_of(taken, pitch->fault.fault == SD_PITCH_FAULT_TRUNCATED);
  return did;
}

sd_pitch *sd_pitch_new(uint64_t midnight_ns, uint32_t skip) {
  sd_pitch *pitch = calloc(1, sizeof *pitch);
  if (!pitch) return NULL;
  pitch->memory = memory_new();
  if (!pitch->memory) {
    free(pitch);
    return NULL;
  }
  pitch->midnight_ns = midnight_ns;
  pitch->skip = skip;
  pitch->span_ns = UINT64_MAX;
  pitch->symbol_count = 1;
  memset(pitch->symbols[0], ' ', SD_PITCH_SYMBOL_BYTES);
  return pitch;
}

void sd_pitch_free(sd_pitch *pitch) {
  if (!pitch) return;
  memory_free(pitch->memory);
  free(pitch);
}

uint32_t sd_pitch_length(uint8_t type) { return lengths[type]; }
