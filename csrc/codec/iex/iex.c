/* A message is read whole before anything changes. So one with a fault, or one that has to wait for a decision, leaves no trace. */
#include "codec/iex/iex.h"

#include <stdlib.h>
#include <string.h>

#include "codec/bytes.h"
#include "codec/symbols.h"

#define PRICE_FACTOR INT64_C(100000) /* 4 decimals to 9 */

enum { PREFIX = 2, VALUE_AT = 1, TIME_AT = 2, NAME_AT = 10, BODY_AT = 18 };

static const uint8_t lengths[256] = {['S'] = 10, ['D'] = 31, ['H'] = 22, ['I'] = 18, ['O'] = 18, ['P'] = 19, ['E'] = 18,
                                     ['Q'] = 42, ['8'] = 30, ['5'] = 30, ['T'] = 38, ['X'] = 26, ['B'] = 38, ['A'] = 80,
                                     ['a'] = 38, ['M'] = 38, ['R'] = 26, ['L'] = 46, ['C'] = 18};

struct sd_iex_memory {
  uint32_t names[SD_SYMBOL_SLOTS]; /* index of a symbol by its name's hash; 0: free */
};

/* The current message, and what is wrong with it and where. */
typedef struct message {
  const uint8_t *m;
  uint32_t fault;
  uint32_t at;
} message;

static int64_t fault_at(message *s, uint32_t at) {
  if (s->fault == SD_IEX_FAULT_NONE) {
    s->fault = SD_IEX_FAULT_FIELD;
    s->at = at;
  }
  return 0;
}

static int64_t price(message *s, uint32_t at) {
  int64_t value;
  return __builtin_mul_overflow((int64_t)sd_load_le64(s->m + at), PRICE_FACTOR, &value) ? fault_at(s, at) : value;
}

static int64_t size(const message *s, uint32_t at) { return sd_load_le32(s->m + at); }

/* A side without a price or without shares is empty. */
static void take_quote(message *s, sd_tick *t) {
  const int64_t bid_size = size(s, 18), bid = price(s, 22), ask = price(s, 30), ask_size = size(s, 38);
  const int has_bid = bid != 0 && bid_size != 0, has_ask = ask != 0 && ask_size != 0;
  t->kind = SD_KIND_QUOTE;
  t->action = 'M';
  t->price = has_bid ? bid : SD_UNDEF_PRICE;
  t->size = has_bid ? bid_size : 0;
  t->order_id = (uint64_t)(has_ask ? ask : SD_UNDEF_PRICE);
  t->ref_id = has_ask ? (uint64_t)ask_size : 0;
  t->flags = s->m[VALUE_AT];
}

static void take_level(message *s, sd_tick *t, char side) {
  t->kind = SD_KIND_QUOTE;
  t->action = 'M';
  t->side = side;
  t->size = size(s, 18);
  t->price = price(s, 22);
  t->flags = s->m[VALUE_AT] & SD_IEX_COMPLETE;
}

static void take_order(message *s, sd_tick *t) {
  const uint8_t *m = s->m;
  t->kind = SD_KIND_ORDER;
  t->order_id = sd_load_le64(m + BODY_AT);
  switch (m[0]) {
  case 'a':
    t->action = 'A';
    t->side = m[VALUE_AT] == '8' ? 'B' : 'A';
    if (m[VALUE_AT] != '8' && m[VALUE_AT] != '5') fault_at(s, VALUE_AT);
    t->size = size(s, 26);
    t->price = price(s, 30);
    break;
  case 'M':
    t->action = 'M';
    t->size = size(s, 26);
    t->price = price(s, 30);
    t->flags = m[VALUE_AT] & SD_IEX_KEEPS_PRIORITY;
    t->ref_id = t->flags ? 0 : t->order_id; /* as if it were replaced by itself: it goes to the end of its queue */
    break;
  case 'L':
    t->action = 'F';
    t->size = size(s, 26);
    t->price = price(s, 30);
    t->ref_id = sd_load_le64(m + 38);
    t->flags = m[VALUE_AT] & 0xF8;
    break;
  default:
    t->action = 'C';
    break;
  }
}

static void take_trade(message *s, sd_tick *t) {
  t->size = size(s, 18);
  t->price = price(s, 22);
  t->ref_id = sd_load_le64(s->m + 30);
  if (s->m[0] == 'B') {
    t->flags = SD_IEX_BROKEN_TRADE;
    return;
  }
  t->kind = SD_KIND_TRADE;
  t->action = 'T';
  t->flags = s->m[VALUE_AT] & 0xF8;
}

static void take_auction(message *s, sd_tick *t) {
  const uint8_t *m = s->m;
  t->flags = SD_IEX_AUCTION | (m[VALUE_AT] & 0x7F);
  t->size = size(s, 18);
  t->price = price(s, 22);
  t->order_id = (uint64_t)price(s, 30);
  t->ref_id = sd_load_le32(m + 38);
  t->side = m[42] == 'B' ? 'B' : m[42] == 'S' ? 'A' : 'N';
}

/* Messages about a symbol's state. */
static void take_status(message *s, sd_tick *t) {
  const uint8_t *m = s->m;
  const uint8_t value = m[VALUE_AT];
  t->ref_id = value;
  switch (m[0]) {
  case 'H':
    t->flags = value & 0x7F;
    t->ref_id = sd_load_u32(m + BODY_AT);
    break;
  case 'O':
    t->flags = value == 'O' ? SD_IEX_OPERATIONAL_HALT : SD_IEX_OPERATIONAL_RESUME;
    break;
  case 'P':
    t->flags = SD_IEX_SHORT_SALE_TEST;
    t->ref_id = (uint64_t)'0' + value;
    t->order_id = m[BODY_AT];
    break;
  case 'I':
    t->flags = SD_IEX_RETAIL_INTEREST;
    t->side = value == 'A' ? 'B' : value == 'B' ? 'A' : 'N';
    break;
  case 'X':
    t->flags = SD_IEX_OFFICIAL_PRICE;
    t->price = price(s, BODY_AT);
    break;
  case 'E':
    t->flags = SD_IEX_SECURITY_EVENT;
    break;
  default:
    t->flags = SD_IEX_DIRECTORY;
    t->size = size(s, 18);
    t->price = price(s, 22);
    t->order_id = m[30];
    break;
  }
}

static void take_fields(message *s, sd_tick *t) {
  switch (s->m[0]) {
  case 'Q':
    take_quote(s, t);
    break;
  case '8':
    take_level(s, t, 'B');
    break;
  case '5':
    take_level(s, t, 'A');
    break;
  case 'a':
  case 'M':
  case 'R':
  case 'L':
    take_order(s, t);
    break;
  case 'C':
    t->kind = SD_KIND_ORDER;
    t->action = 'R';
    break;
  case 'T':
  case 'B':
    take_trade(s, t);
    break;
  case 'A':
    take_auction(s, t);
    break;
  default:
    take_status(s, t);
    break;
  }
}

static int is_name(const uint8_t *name) {
  for (int i = 0; i < SD_IEX_SYMBOL_BYTES; i++)
    if (name[i] < 0x20 || name[i] > 0x7E) return 0;
  return name[0] != ' ';
}

/* The index of the message's symbol; a new symbol gets one. 0: a fault. */
static uint32_t index_of(sd_iex *iex, message *s) {
  const uint64_t name = sd_load_le64(s->m + NAME_AT);
  uint32_t *at = sd_symbol_slot(iex->memory->names, (const char (*)[8])iex->symbols, name);
  if (*at != 0) return *at;
  if (!is_name(s->m + NAME_AT)) {
    fault_at(s, NAME_AT);
    return 0;
  }
  if (iex->symbol_count == SD_IEX_SYMBOLS) {
    s->fault = SD_IEX_FAULT_SYMBOLS;
    return 0;
  }
  memcpy(iex->symbols[iex->symbol_count], &name, sizeof name);
  if (iex->selective) iex->wanted[iex->symbol_count] = SD_IEX_UNDECIDED;
  return *at = iex->symbol_count++;
}

/* Keeps a message about the market as a whole. */
static sd_way keep_event(sd_iex *iex, const uint8_t *m, uint32_t length) {
  if (iex->market_events < SD_IEX_EVENTS)
    iex->market[iex->market_events] = (sd_iex_event){.ts = (int64_t)sd_load_le64(m + TIME_AT), .letter = m[VALUE_AT]};
  iex->market_events++;
  iex->messages++;
  iex->counts['S']++;
  iex->grown += length > lengths['S'];
  return SD_TAKEN;
}

static void note(sd_iex *iex, uint32_t fault, uint8_t type, uint32_t length) {
  iex->fault = (sd_iex_sample){
      .offset = iex->offset, .message = iex->messages + 1, .fault = fault, .length = length, .type = type};
}

/* Passes over what `fault` describes, and counts it. */
static sd_way pass_over(sd_iex *iex) {
  iex->skips[iex->fault.fault]++;
  if (iex->sampled < SD_IEX_SAMPLES) iex->samples[iex->sampled++] = iex->fault;
  iex->messages++;
  return SD_TAKEN;
}

static sd_way refuse(sd_iex *iex, uint32_t fault, uint8_t type, uint32_t length) {
  note(iex, fault, type, length);
  return iex->skip ? pass_over(iex) : SD_FAULT;
}

/* Takes a message of `length` bytes. */
static sd_way take_message(sd_iex *iex, const uint8_t *m, uint32_t length, sd_tick *tick, uint64_t *made) {
  const uint8_t type = length ? m[0] : 0;
  const uint32_t least = lengths[type];
  if (length == 0) return refuse(iex, SD_IEX_FAULT_LENGTH, 0, 0);
  if (least == 0) {
    note(iex, SD_IEX_FAULT_UNKNOWN_TYPE, type, length);
    return pass_over(iex);
  }
  if (length < least) return refuse(iex, SD_IEX_FAULT_LENGTH, type, length);
  if (type == 'S') return keep_event(iex, m, length);
  message s = {.m = m};
  sd_tick t = {.price = SD_UNDEF_PRICE, .action = 'N', .side = 'N', .kind = SD_KIND_STATUS};
  take_fields(&s, &t);
  if (s.fault == SD_IEX_FAULT_NONE) t.instrument_id = index_of(iex, &s);
  if (s.fault != SD_IEX_FAULT_NONE) return refuse(iex, s.fault, type, s.at);
  if (iex->selective && iex->wanted[t.instrument_id] == SD_IEX_UNDECIDED) {
    iex->asked = t.instrument_id;
    return SD_ASKS;
  }
  iex->messages++;
  iex->counts[type]++;
  iex->grown += length > least;
  if (iex->passes || (iex->selective && !iex->wanted[t.instrument_id])) {
    iex->unselected++;
    return SD_TAKEN;
  }
  t.ts_event = t.ts_recv = (int64_t)sd_load_le64(m + TIME_AT);
  sd_set_sequence(&t, iex->messages);
  *tick = t;
  *made += 1;
  return SD_TAKEN;
}

sd_decoded sd_iex_decode(void *self, const uint8_t *at, uint64_t left, int last, sd_tick *out, uint64_t capacity) {
  sd_iex *iex = self;
  sd_decoded did = {0};
  sd_way taken = SD_TAKEN;
  while (did.made < capacity && taken == SD_TAKEN && did.consumed < left) {
    const uint64_t rest = left - did.consumed;
    const uint8_t *p = at + did.consumed;
    const uint32_t length = rest < PREFIX ? 0 : sd_load_le16(p);
    uint64_t used = PREFIX + (uint64_t)length;
    if (rest < used) {
      if (!last) break;
      used = rest;
      taken = refuse(iex, SD_IEX_FAULT_TRUNCATED, rest > PREFIX ? p[PREFIX] : 0, length);
    } else {
      taken = take_message(iex, p + PREFIX, length, out + did.made, &did.made);
    }
    if (taken != SD_TAKEN) break;
    did.consumed += used;
    iex->offset += used;
  }
  iex->ticks += did.made;
  did.sampled = iex->sampled;
  did.code = sd_code_of(taken, iex->fault.fault == SD_IEX_FAULT_TRUNCATED);
  return did;
}

sd_iex *sd_iex_new(uint32_t skip) {
  sd_iex *iex = calloc(1, sizeof *iex);
  if (!iex) return NULL;
  iex->memory = calloc(1, sizeof *iex->memory);
  if (!iex->memory) {
    free(iex);
    return NULL;
  }
  iex->skip = skip;
  iex->symbol_count = 1;
  memset(iex->symbols[0], ' ', SD_IEX_SYMBOL_BYTES);
  return iex;
}

void sd_iex_free(sd_iex *iex) {
  if (!iex) return;
  free(iex->memory);
  free(iex);
}

uint32_t sd_iex_length(uint8_t type) { return lengths[type]; }
