#include "lab/generate/market.h"

#include <stdlib.h>
#include <string.h>

#include "codec/itch/itch.h"
#include "lab/generate/agenda.h"
#include "lab/generate/auction.h"
#include "lab/generate/orders.h"
#include "lab/generate/picker.h"
#include "lab/generate/session.h"
#include "sd_error.h"

enum {
  AHEAD = 32, /* events whose time, symbol and random bits are drawn before they are made: hides the cache misses */
  NEAR = 16,  /* how far ahead the orders are fetched, their header being there by then */
  MESSAGES_A_LIVE_ORDER = 32,
  LEAST_TARGET = 2,
  MOST_TARGET = 512,
  LOWEST_MID = 200, /* cents: keeps the farthest bid above zero */
  HIGHEST_MID = 1000000,
  FIRST_ORDER_ID = 1000,
  FIRST_MATCH = 1
};

/* What is drawn of 1,024 events: hidden trades, executions at a price of their own, executions, partial cancels and
 * replaces. The rest are adds and deletes, balanced around each symbol's target. */
enum { ROLL_TRADE = 8, ROLL_PRICED = 12, ROLL_EXECUTE = 52, ROLL_REDUCE = 77, ROLL_REPLACE = 167, ROLL = 1024 };

typedef struct slot {
  uint64_t ts;
  uint64_t choice, detail; /* random bits */
  uint32_t symbol;
  int what; /* SD_AGENDA_* */
} slot;

struct sd_market {
  sd_market_config config;
  sd_session session;
  sd_picker picker;
  sd_agenda agenda;
  sd_prng random;
  sd_orders *books; /* by symbol */
  uint32_t *symbol_of_rank;
  uint64_t session_end; /* events before the closing crosses */
  uint64_t drawn, made;
  uint64_t next_order_id, next_match, volume;
  slot ahead[AHEAD];
};

static void shuffle(uint32_t *items, uint32_t n, uint64_t seed) {
  sd_prng random;
  sd_prng_seed(&random, seed, 4);
  for (uint32_t i = 0; i < n; i++) items[i] = i;
  for (uint32_t i = n - 1; i > 0; i--) {
    uint32_t j = sd_scale32((uint32_t)(sd_prng_next(&random) >> 32), i + 1), item = items[i];
    items[i] = items[j];
    items[j] = item;
  }
}

/* First prices from about 4 to 500 dollars, each doubling as frequent as the next. */
static uint32_t first_mid(sd_prng *random) {
  uint64_t r = sd_prng_next(random);
  uint32_t base = UINT32_C(400) << (r % 7);
  return base + sd_scale32((uint32_t)(r >> 32), base);
}

static void open_books(sd_market *m, const uint64_t *weights) {
  unsigned __int128 total = 0;
  for (uint32_t rank = 0; rank < m->config.symbols; rank++) total += weights[rank];
  sd_prng random;
  sd_prng_seed(&random, m->config.seed, 5);
  for (uint32_t rank = 0; rank < m->config.symbols; rank++) {
    uint64_t expected = (uint64_t)((unsigned __int128)weights[rank] * m->config.messages / total);
    uint64_t target = expected / MESSAGES_A_LIVE_ORDER;
    sd_orders *book = &m->books[m->symbol_of_rank[rank]];
    book->target = (uint16_t)(target < LEAST_TARGET ? LEAST_TARGET : target > MOST_TARGET ? MOST_TARGET : target);
    book->mid = first_mid(&random);
  }
}

int sd_market_create(const sd_market_config *config, const uint64_t *weights, const uint32_t *run_lengths,
                     sd_market **out) {
  if (!config->symbols || config->symbols > SD_MARKET_MAX_SYMBOLS || config->messages >> 40 ||
      config->halts > config->messages / SD_MARKET_MESSAGES_A_HALT)
    return SD_E_ARGUMENT;
  sd_market *m = calloc(1, sizeof *m);
  if (!m) return SD_E_NO_MEMORY;
  m->config = *config;
  m->next_order_id = FIRST_ORDER_ID;
  m->next_match = FIRST_MATCH;
  size_t header_bytes = config->symbols * sizeof *m->books;
  m->books = aligned_alloc(64, header_bytes);
  m->symbol_of_rank = malloc(config->symbols * sizeof *m->symbol_of_rank);
  int status = SD_E_NO_MEMORY;
  if (m->books) memset(m->books, 0, header_bytes);
  if (m->books && m->symbol_of_rank)
    status = sd_agenda_init(&m->agenda, weights, config->symbols, config->messages, config->halts, config->seed);
  if (status == SD_OK) {
    m->session_end = config->messages - m->agenda.crosses;
    status = sd_session_init(&m->session, m->session_end - m->agenda.opening.all, config->seed, config->peak_second_q16,
                             config->peak_millisecond_q16, config->burst_q16);
  }
  if (status == SD_OK) status = sd_picker_init(&m->picker, weights, run_lengths, config->symbols, config->seed);
  if (status != SD_OK) {
    sd_market_destroy(m);
    return status;
  }
  shuffle(m->symbol_of_rank, config->symbols, config->seed);
  open_books(m, weights);
  sd_prng_seed(&m->random, config->seed, 6);
  *out = m;
  return SD_OK;
}

void sd_market_destroy(sd_market *m) {
  if (!m) return;
  for (uint32_t i = 0; m->books && i < m->config.symbols; i++) sd_orders_destroy(&m->books[i]);
  free(m->books);
  free(m->symbol_of_rank);
  sd_session_destroy(&m->session);
  sd_picker_destroy(&m->picker);
  sd_agenda_destroy(&m->agenda);
  free(m);
}

/* A symbol that does not trade has few messages: seven in eight go to another one. */
static uint32_t pick_rank(sd_market *m) {
  uint32_t rank = sd_picker_next(&m->picker, m->session.crowd);
  if (__builtin_expect(m->agenda.halted[rank], 0)) {
    uint64_t r = sd_prng_next(&m->agenda.random);
    if (r & 7) rank = sd_alias_draw(&m->picker.alone, sd_prng_next(&m->agenda.random));
  }
  return rank;
}

/* Draws the next event's time, symbol and bits. Each comes from a generator of its own, so drawing early changes
 * nothing. */
static void draw_slot(sd_market *m) {
  sd_agenda *a = &m->agenda;
  uint64_t i = m->drawn++, opening = a->opening.all;
  slot *s = &m->ahead[i % AHEAD];
  uint32_t rank;
  if (i < opening) {
    s->ts = sd_agenda_opening_ns(a, i);
    s->what = SD_AGENDA_OPEN_NOTICE;
    rank = sd_agenda_round_next(&a->opening);
  } else if (i >= m->session_end) {
    rank = (uint32_t)(i - m->session_end);
    s->ts = sd_agenda_closing_ns(a, rank);
    s->what = SD_AGENDA_CLOSE_CROSS;
  } else {
    s->ts = sd_session_next(&m->session);
    if (i - opening < a->crosses) {
      s->what = SD_AGENDA_OPEN_CROSS;
      rank = (uint32_t)(i - opening);
    } else {
      s->what = sd_agenda_due(a, s->ts, m->session_end - i - 1, &rank);
      if (s->what == SD_AGENDA_NONE) rank = pick_rank(m);
    }
  }
  s->symbol = m->symbol_of_rank[rank];
  s->choice = sd_prng_next(&m->random);
  s->detail = sd_prng_next(&m->random);
  __builtin_prefetch(&m->books[s->symbol], 1);
}

static int choose_order(const sd_orders *book, uint64_t choice, uint32_t *at) {
  uint32_t i = sd_scale32((uint32_t)(choice >> 32), book->count[SD_BID] + book->count[SD_ASK]);
  int side = i >= book->count[SD_BID];
  *at = side == SD_BID ? i : i - book->count[SD_BID];
  return side;
}

static void fetch_orders(const sd_market *m, const slot *s) {
  const sd_orders *book = &m->books[s->symbol];
  uint32_t at;
  int side = choose_order(book, s->choice, &at);
  if (!book->count[side]) return;
  __builtin_prefetch(&book->side[side][at], 1);
  __builtin_prefetch(&book->side[side][book->count[side] - 1], 1);
}

/* Cents from the touch: mostly within ten, now and then ten times as far. Never the touch itself on the side that the
 * price is leaving, or it would not empty. */
static uint32_t draw_price(const sd_orders *book, int side, uint64_t detail) {
  uint32_t away = (uint32_t)(detail >> 20 & 7) + (uint32_t)__builtin_ctz((uint32_t)(detail >> 23 & 255) | 256);
  if (!(detail >> 31 & 31)) away *= 10;
  int leaving = book->pressure == (side == SD_ASK ? 1 : -1);
  if (leaving && !away) away = 1;
  return side == SD_BID ? book->mid - away : book->mid + 1 + away;
}

/* Round lots for the most part, odd lots for one order in eight. */
static uint32_t draw_shares(uint64_t detail) {
  uint32_t bits = (uint32_t)(detail >> 36);
  if (!(bits & 7)) return 1 + (bits >> 3 & 127);
  return 100 * (1 + (bits >> 3 & 3 & bits >> 5) + (uint32_t)__builtin_ctz((bits >> 7 & 255) | 256));
}

static int64_t tick_price(uint32_t cents) { return (int64_t)cents * (SD_PRICE_SCALE / 100); }

/* What an order is before an event changes it. */
static sd_market_order order_before(const sd_orders *book, int side, uint32_t at) {
  const sd_order *order = &book->side[side][at];
  return (sd_market_order){
      .price = tick_price(order->price), .shares = order->shares, .side = side == SD_BID ? 'B' : 'A'};
}

static void make_trade(sd_market *m, sd_orders *book, const slot *s, sd_tick *tick) {
  tick->action = 'T';
  tick->kind = SD_KIND_TRADE;
  tick->side = 'B'; /* the exchange sends B whichever side was hidden */
  tick->size = draw_shares(s->detail);
  tick->price = tick_price(book->mid + (uint32_t)(s->detail & 1));
  tick->ref_id = m->next_match++;
  m->volume += tick->size;
}

static int make_add(sd_market *m, sd_orders *book, const slot *s, sd_tick *tick) {
  int side = (int)(s->choice >> 20 & 1);
  if (sd_orders_reserve(book, side) != SD_OK) return SD_E_NO_MEMORY;
  sd_order order = {m->next_order_id++, draw_price(book, side, s->detail), draw_shares(s->detail)};
  sd_orders_add(book, side, order);
  tick->action = 'A';
  tick->side = side == SD_BID ? 'B' : 'A';
  tick->order_id = order.id;
  tick->price = tick_price(order.price);
  tick->size = order.shares;
  return SD_OK;
}

/* Takes the order first in the queue of one side: all of it for every other execution. */
static void make_execution(sd_market *m, sd_orders *book, const slot *s, sd_tick *tick, sd_market_order *before,
                           int priced) {
  int side = (int)(s->choice >> 20 & 1);
  if (book->pressure) side = book->pressure > 0 ? SD_ASK : SD_BID;
  if (!book->count[side]) side = !side;
  uint32_t at = sd_orders_first(book, side);
  sd_order *order = &book->side[side][at];
  uint32_t shares = order->shares;
  *before = order_before(book, side, at);
  if (s->detail & UINT64_C(1) << 36) shares = 1 + sd_scale32((uint32_t)s->detail, shares);
  tick->action = 'F';
  tick->order_id = order->id;
  tick->size = shares;
  tick->ref_id = m->next_match++;
  if (priced) /* better by a cent for the order that waited */
    tick->price = tick_price(side == SD_BID ? order->price - 1 : order->price + 1);
  m->volume += shares;
  if (shares == order->shares) sd_orders_remove(book, side, at);
  else order->shares -= shares;
}

static void make_delete(sd_orders *book, const slot *s, sd_tick *tick, sd_market_order *before) {
  uint32_t at;
  int side = choose_order(book, s->choice, &at);
  *before = order_before(book, side, at);
  tick->action = 'C';
  tick->order_id = book->side[side][at].id;
  sd_orders_remove(book, side, at);
}

/* Returns the ITCH type: a delete where nothing can be taken and something left. */
static char make_reduction(sd_orders *book, const slot *s, sd_tick *tick, sd_market_order *before) {
  uint32_t at;
  int side = choose_order(book, s->choice, &at);
  sd_order *order = &book->side[side][at];
  if (order->shares == 1) {
    make_delete(book, s, tick, before);
    return 'D';
  }
  *before = order_before(book, side, at);
  tick->action = 'C';
  tick->order_id = order->id;
  tick->size = 1 + sd_scale32((uint32_t)(s->detail >> 32), order->shares - 1);
  order->shares -= tick->size;
  return 'X';
}

static void make_replace(sd_market *m, sd_orders *book, const slot *s, sd_tick *tick, sd_market_order *before) {
  uint32_t at;
  int side = choose_order(book, s->choice, &at);
  *before = order_before(book, side, at);
  sd_order order = {m->next_order_id++, draw_price(book, side, s->detail), draw_shares(s->detail)};
  tick->action = 'M';
  tick->order_id = book->side[side][at].id;
  tick->ref_id = order.id;
  tick->price = tick_price(order.price);
  tick->size = order.shares;
  sd_orders_replace(book, side, at, order);
}

/* The walk of mid: it has a direction for some 256 events of the symbol, and steps when the touch there is empty. */
static void walk(sd_orders *book, uint64_t detail) {
  if (!(detail & 255)) book->pressure = (int8_t)((int)sd_scale32((uint32_t)(detail >> 32), 3) - 1);
  if (book->mid < LOWEST_MID) book->pressure = 1;
  else if (book->mid > HIGHEST_MID) book->pressure = -1;
  if (!book->pressure || detail >> 8 & 7) return;
  if (!book->touch[book->pressure > 0 ? SD_ASK : SD_BID]) sd_orders_step(book, book->pressure);
}

/* Adds or deletes, so that the symbol's live orders stay around its target. Returns the ITCH type, 0 without memory. */
static char make_add_or_delete(sd_market *m, sd_orders *book, const slot *s, sd_tick *tick, sd_market_order *before) {
  uint32_t live = book->count[SD_BID] + book->count[SD_ASK];
  int64_t tilt = (int64_t)(s->choice >> 10 & 1023) - 512;
  if (live && tilt * book->target >= 512 * ((int64_t)book->target - live)) {
    make_delete(book, s, tick, before);
    return 'D';
  }
  if (make_add(m, book, s, tick) != SD_OK) return 0;
  if (s->choice >> 21 & 31) return 'A';
  tick->flags = SD_ITCH_ATTRIBUTED;
  return 'F';
}

/* Makes one event; returns its ITCH type, or 0 when memory is out. */
static char make_event(sd_market *m, sd_orders *book, const slot *s, sd_tick *tick, sd_market_order *before) {
  uint32_t live = book->count[SD_BID] + book->count[SD_ASK], roll = (uint32_t)s->choice & (ROLL - 1);
  int what = s->what;
  if (__builtin_expect(!what && book->state == SD_HALTED, 0)) {
    /* Orders may be taken back; when there are none, a notice says what waits for the cross. */
    if (live && s->choice & 1) return make_reduction(book, s, tick, before);
    if (live) {
      make_delete(book, s, tick, before);
      return 'D';
    }
    what = SD_AGENDA_HALT_NOTICE;
  }
  if (what) {
    char type = sd_auction_event(what, book, s->detail, tick);
    if (type == 'Q') {
      tick->ref_id = m->next_match++;
      m->volume += tick->size;
    }
    return type;
  }
  if (book->state == SD_TRADING) {
    walk(book, s->detail);
    if (roll < ROLL_TRADE) {
      make_trade(m, book, s, tick);
      return 'P';
    }
    if (live && roll < ROLL_EXECUTE) {
      make_execution(m, book, s, tick, before, roll < ROLL_PRICED);
      return roll < ROLL_PRICED ? 'C' : 'E';
    }
  }
  if (live && roll < ROLL_REDUCE) return make_reduction(book, s, tick, before);
  if (live && roll < ROLL_REPLACE) {
    make_replace(m, book, s, tick, before);
    return 'U';
  }
  return make_add_or_delete(m, book, s, tick, before);
}

int64_t sd_market_next_batch(sd_market *m, sd_tick *ticks, char *types, sd_market_order *orders, int64_t n) {
  uint64_t left = m->config.messages - m->made;
  if (n < 0) return SD_E_ARGUMENT;
  if ((uint64_t)n > left) n = (int64_t)left;
  for (int64_t i = 0; i < n; i++) {
    while (m->drawn < m->config.messages && m->drawn < m->made + AHEAD) draw_slot(m);
    if (m->made + NEAR < m->drawn) fetch_orders(m, &m->ahead[(m->made + NEAR) % AHEAD]);
    const slot *s = &m->ahead[m->made % AHEAD];
    uint64_t ts = m->config.midnight_ns + s->ts;
    ticks[i] = (sd_tick){.ts_event = (int64_t)ts,
                         .ts_recv = (int64_t)ts,
                         .price = SD_UNDEF_PRICE,
                         .instrument_id = s->symbol + 1,
                         .side = 'N',
                         .kind = SD_KIND_ORDER};
    sd_set_sequence(&ticks[i],
                    m->config.first_sequence + m->made + (s->ts >= SD_MARKET_OPEN_NS) + (s->ts >= SD_MARKET_CLOSE_NS));
    sd_market_order before = {0};
    char type = make_event(m, &m->books[s->symbol], s, &ticks[i], &before);
    if (!type) return SD_E_NO_MEMORY;
    if (types) types[i] = type;
    if (orders) orders[i] = before;
    m->made++;
  }
  return n;
}

uint32_t sd_market_busiest(const sd_market *m) { return m->symbol_of_rank[0]; }

void sd_market_read_totals(const sd_market *m, sd_market_totals *out) {
  *out = (sd_market_totals){.events = m->made, .volume = m->volume};
  for (uint32_t i = 0; i < m->config.symbols; i++) {
    const sd_orders *b = &m->books[i];
    out->live_orders += (uint64_t)b->count[SD_BID] + b->count[SD_ASK];
    out->order_bytes += ((uint64_t)b->capacity[SD_BID] + b->capacity[SD_ASK]) * sizeof(sd_order);
  }
}

int sd_market_check(const sd_market *m) {
  for (uint32_t i = 0; i < m->config.symbols; i++)
    if (sd_orders_check(&m->books[i]) != SD_OK) return SD_E_CORRUPT;
  return SD_OK;
}
