#include "lab/generate/market.h"

#include <stdlib.h>
#include <string.h>

#include "lab/generate/agenda.h"
#include "lab/generate/market_events.h"
#include "lab/generate/orders.h"
#include "lab/generate/picker.h"
#include "lab/generate/session.h"
#include "sd_error.h"

enum {
  AHEAD = 32, /* events whose time, symbol and random bits are drawn before they are made, to hide the cache misses */
  NEAR = 16,  /* how many events ahead the orders are prefetched; their header has arrived by then */
  MESSAGES_A_LIVE_ORDER = 32,
  MIN_TARGET = 2,
  MAX_TARGET = 512,
  FIRST_ORDER_ID = 1000,
  FIRST_MATCH = 1
};

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
  sd_market_numbers numbers;
  sd_market_draw ahead[AHEAD];
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
    book->target = (uint16_t)(target < MIN_TARGET ? MIN_TARGET : target > MAX_TARGET ? MAX_TARGET : target);
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
  m->numbers.next_order_id = FIRST_ORDER_ID;
  m->numbers.next_match = FIRST_MATCH;
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

/* A symbol that does not trade has few messages: seven in eight go to another symbol. */
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
  sd_market_draw *s = &m->ahead[i % AHEAD];
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

static void fetch_orders(const sd_market *m, const sd_market_draw *s) {
  const sd_orders *book = &m->books[s->symbol];
  uint32_t at;
  int side = sd_market_choose_order(book, s->choice, &at);
  if (!book->count[side]) return;
  __builtin_prefetch(&book->side[side][at], 1);
  __builtin_prefetch(&book->side[side][book->count[side] - 1], 1);
}

int64_t sd_market_next_batch(sd_market *m, sd_tick *ticks, char *types, sd_market_order *orders, int64_t n) {
  uint64_t left = m->config.messages - m->made;
  if (n < 0) return SD_E_ARGUMENT;
  if ((uint64_t)n > left) n = (int64_t)left;
  for (int64_t i = 0; i < n; i++) {
    while (m->drawn < m->config.messages && m->drawn < m->made + AHEAD) draw_slot(m);
    if (m->made + NEAR < m->drawn) fetch_orders(m, &m->ahead[(m->made + NEAR) % AHEAD]);
    const sd_market_draw *s = &m->ahead[m->made % AHEAD];
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
    char type = sd_market_make_event(&m->numbers, &m->books[s->symbol], s, &ticks[i], &before);
    if (!type) return SD_E_NO_MEMORY;
    if (types) types[i] = type;
    if (orders) orders[i] = before;
    m->made++;
  }
  return n;
}

uint32_t sd_market_busiest(const sd_market *m) { return m->symbol_of_rank[0]; }

void sd_market_read_totals(const sd_market *m, sd_market_totals *out) {
  *out = (sd_market_totals){.events = m->made, .volume = m->numbers.volume};
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
