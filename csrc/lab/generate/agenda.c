#include "lab/generate/agenda.h"

#include <stdlib.h>
#include <string.h>

#include "sd_error.h"

#define NS_PER_SECOND UINT64_C(1000000000)
#define AT(hour, minute) ((UINT64_C(3600) * (hour) + UINT64_C(60) * (minute)) * NS_PER_SECOND)

enum {
  CROSS_FROM_MESSAGES = 100,    /* symbols with fewer messages per day open and close without a cross */
  MESSAGES_A_NOTICE = 2000,     /* one in a thousand messages is a notice, half of them before the open */
  MAX_NOTICES = 600,            /* per symbol and auction: one per second over ten minutes */
  OPENING_SECONDS = 120,        /* over which the notices before the open are spread */
  CLOSING_NOTICE_SECONDS = 590, /* from ten minutes before the close */
  CLOSING_CROSS_SECONDS = 10,
  PAUSE_SECONDS = 300, /* as in limit-up limit-down */
  QUOTE_SECONDS = 60,  /* the last of them: quotation only */
  HALT_MIN = 900,      /* for news: at least a quarter of an hour */
  HALT_SPREAD = 1800,
  HALT_NOTICES = 3
};

/* Halts begin after the first quarter of an hour, and end before the notices for the close begin. */
#define FIRST_HALT AT(9, 45)
#define LAST_HALT AT(15, 0)

static int make_rounds(sd_agenda_rounds *r, const uint64_t *expected_notices, uint32_t crosses) {
  r->rounds = malloc((crosses + 1) * sizeof *r->rounds);
  if (!r->rounds) return SD_E_NO_MEMORY;
  uint16_t maximum = MAX_NOTICES;
  for (uint32_t rank = 0; rank < crosses; rank++) {
    if (expected_notices[rank] + 1 < maximum) maximum = (uint16_t)(expected_notices[rank] + 1);
    r->rounds[rank] = maximum;
    r->all += maximum;
  }
  r->rounds[crosses] = 0; /* ends every round */
  r->round = crosses ? r->rounds[0] : 0;
  return SD_OK;
}

uint32_t sd_agenda_round_next(sd_agenda_rounds *r) {
  uint32_t rank = r->rank++;
  if (r->rounds[r->rank] < r->round) {
    r->rank = 0;
    r->round--;
  }
  r->done++;
  return rank;
}

static int earlier(const void *left, const void *right) {
  const sd_agenda_item *a = left, *b = right;
  if (a->ns != b->ns) return a->ns < b->ns ? -1 : 1;
  if (a->rank != b->rank) return a->rank < b->rank ? -1 : 1;
  return (int)a->position - (int)b->position;
}

static void plan_halt(sd_agenda *a, sd_agenda_item *items, uint32_t rank) {
  uint64_t r = sd_prng_next(&a->random);
  int pause = r & 1;
  uint64_t start = FIRST_HALT + (uint64_t)(((unsigned __int128)(LAST_HALT - FIRST_HALT) * (uint32_t)(r >> 32)) >> 32);
  uint64_t seconds = PAUSE_SECONDS;
  if (!pause) seconds = HALT_MIN + sd_scale32((uint32_t)sd_prng_next(&a->random), HALT_SPREAD);
  uint64_t end = start + seconds * NS_PER_SECOND, quote = end - QUOTE_SECONDS * NS_PER_SECOND;
  uint8_t n = 0;
  items[n] = (sd_agenda_item){start, rank, pause ? SD_AGENDA_PAUSE : SD_AGENDA_HALT, n}, n++;
  uint8_t quotes = pause ? SD_AGENDA_QUOTE_AFTER_PAUSE : SD_AGENDA_QUOTE_AFTER_HALT;
  items[n] = (sd_agenda_item){quote, rank, quotes, n}, n++;
  for (uint64_t i = 1; i <= HALT_NOTICES; i++) {
    uint64_t ns = quote + i * QUOTE_SECONDS * NS_PER_SECOND / (HALT_NOTICES + 1);
    items[n] = (sd_agenda_item){ns, rank, SD_AGENDA_HALT_NOTICE, n}, n++;
  }
  items[n] = (sd_agenda_item){end, rank, SD_AGENDA_HALT_CROSS, n}, n++;
  uint8_t resumes = pause ? SD_AGENDA_RESUME_AFTER_PAUSE : SD_AGENDA_RESUME_AFTER_HALT;
  items[n] = (sd_agenda_item){end, rank, resumes, n};
}

static int plan_halts(sd_agenda *a, uint32_t symbols, uint32_t halts) {
  a->item_count = (uint64_t)halts * SD_AGENDA_HALT_ITEMS;
  a->items = malloc((a->item_count + 1) * sizeof *a->items);
  a->halted = calloc(symbols, 1);
  if (!a->items || !a->halted) return SD_E_NO_MEMORY;
  for (uint32_t i = 0; i < halts; i++) {
    /* Floyd's sampling: each draw is from one more symbol than the last, and if its symbol is taken already, the newest symbol takes its
     * place. */
    uint32_t bound = symbols - halts + i, rank = sd_scale32((uint32_t)(sd_prng_next(&a->random) >> 32), bound + 1);
    if (a->halted[rank]) rank = bound;
    a->halted[rank] = 1;
    plan_halt(a, &a->items[(uint64_t)i * SD_AGENDA_HALT_ITEMS], rank);
  }
  memset(a->halted, 0, symbols);
  qsort(a->items, a->item_count, sizeof *a->items, earlier);
  return SD_OK;
}

static uint64_t next_notice_ns(const sd_agenda *a) {
  const sd_agenda_rounds *r = &a->closing;
  if (r->done == r->all) return UINT64_MAX;
  uint64_t span = CLOSING_NOTICE_SECONDS * NS_PER_SECOND;
  return AT(15, 50) + (uint64_t)((unsigned __int128)span * r->done / r->all);
}

static uint64_t next_item_ns(const sd_agenda *a) {
  return a->items_done < a->item_count ? a->items[a->items_done].ns : UINT64_MAX;
}

/* Finds what comes next, after something was taken. */
static void look_ahead(sd_agenda *a) {
  uint64_t item = next_item_ns(a), notice = next_notice_ns(a);
  a->pending = a->item_count - a->items_done + a->closing.all - a->closing.done;
  a->next_ns = item < notice ? item : notice;
}

int sd_agenda_init(sd_agenda *a, const uint64_t *weights, uint32_t symbols, uint64_t messages, uint32_t halts,
                   uint64_t seed) {
  memset(a, 0, sizeof *a);
  if (halts > symbols) return SD_E_ARGUMENT;
  sd_prng_seed(&a->random, seed, 7);
  uint64_t *notices = malloc(symbols * sizeof *notices);
  if (!notices) return SD_E_NO_MEMORY;
  unsigned __int128 total = 0;
  for (uint32_t rank = 0; rank < symbols; rank++) total += weights[rank];
  for (uint32_t rank = 0; rank < symbols; rank++) {
    uint64_t expected = total ? (uint64_t)((unsigned __int128)weights[rank] * messages / total) : 0;
    if (expected >= CROSS_FROM_MESSAGES && rank == a->crosses) a->crosses++;
    notices[rank] = expected / MESSAGES_A_NOTICE;
  }
  int status = make_rounds(&a->opening, notices, a->crosses);
  if (status == SD_OK) status = make_rounds(&a->closing, notices, a->crosses);
  if (status == SD_OK) status = plan_halts(a, symbols, halts);
  free(notices);
  if (status == SD_OK) look_ahead(a);
  else sd_agenda_destroy(a);
  return status;
}

void sd_agenda_destroy(sd_agenda *a) {
  free(a->opening.rounds);
  free(a->closing.rounds);
  free(a->items);
  free(a->halted);
  memset(a, 0, sizeof *a);
}

/* A time in part i of n equal parts of some seconds. */
static uint64_t spread(sd_agenda *a, uint64_t seconds, uint64_t i, uint64_t n) {
  unsigned __int128 place = ((unsigned __int128)i << 32) + (uint32_t)sd_prng_next(&a->random);
  return (uint64_t)((place * (seconds * NS_PER_SECOND) / n) >> 32);
}

uint64_t sd_agenda_opening_ns(sd_agenda *a, uint64_t i) {
  return AT(9, 30) - OPENING_SECONDS * NS_PER_SECOND + spread(a, OPENING_SECONDS, i, a->opening.all);
}

uint64_t sd_agenda_closing_ns(sd_agenda *a, uint64_t i) {
  return AT(16, 0) + spread(a, CLOSING_CROSS_SECONDS, i, a->crosses);
}

int sd_agenda_take(sd_agenda *a, uint32_t *rank) {
  int what = SD_AGENDA_CLOSE_NOTICE;
  if (next_item_ns(a) <= next_notice_ns(a)) {
    const sd_agenda_item *item = &a->items[a->items_done++];
    *rank = item->rank;
    what = item->what;
    if (item->position == 0) a->halted[item->rank] = 1;
    if (item->position == SD_AGENDA_HALT_ITEMS - 1) a->halted[item->rank] = 0;
  } else {
    *rank = sd_agenda_round_next(&a->closing);
  }
  look_ahead(a);
  return what;
}
