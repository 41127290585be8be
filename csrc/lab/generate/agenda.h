/* What a day has at set times: auctions at the open and the close, with imbalance notices before them, and halts.
 *
 * Busy symbols open and close in a cross. Notices go round the symbols; symbols with more messages have more of them. So every symbol's
 * last notice comes in the last round, shortly before its cross. A halt is: halted (or paused), quotation only, notices, the cross that
 * reopens, trading. No symbol has two halts. */
#pragma once

#include <stdint.h>

#include "base/prng.h"

/* What an event is: drawn by the market itself, or one of these. */
enum {
  SD_AGENDA_NONE = 0,
  SD_AGENDA_OPEN_NOTICE,
  SD_AGENDA_OPEN_CROSS,
  SD_AGENDA_CLOSE_NOTICE,
  SD_AGENDA_CLOSE_CROSS,
  SD_AGENDA_HALT,
  SD_AGENDA_PAUSE,
  SD_AGENDA_QUOTE_AFTER_HALT,
  SD_AGENDA_QUOTE_AFTER_PAUSE,
  SD_AGENDA_HALT_NOTICE,
  SD_AGENDA_HALT_CROSS,
  SD_AGENDA_RESUME_AFTER_HALT,
  SD_AGENDA_RESUME_AFTER_PAUSE
};

enum { SD_AGENDA_HALT_ITEMS = 7 }; /* events that each halt adds */

typedef struct sd_agenda_item {
  uint64_t ns; /* since midnight */
  uint32_t rank;
  uint8_t what, position; /* position in its halt: items of one time keep their order */
} sd_agenda_item;

/* Symbols of ranks 0 to crosses - 1, in rounds; the last round has all of them. */
typedef struct sd_agenda_rounds {
  uint16_t *rounds; /* [crosses]: how many notices the symbol of each rank has; never more than the rank before */
  uint32_t rank, round;
  uint64_t done, all;
} sd_agenda_rounds;

typedef struct sd_agenda {
  uint32_t crosses; /* symbols that open and close in a cross: those of the lowest ranks */
  sd_agenda_rounds opening, closing;
  sd_agenda_item *items; /* of halts, in order of time */
  uint64_t item_count, items_done;
  /* Halts' events and notices for the close: how many are still to come, and when the next one is due. */
  uint64_t pending, next_ns;
  uint8_t *halted; /* [symbols], by rank: not trading at the point that the agenda has reached */
  sd_prng random;
} sd_agenda;

/* `weights` are by rank. SD_OK, SD_E_ARGUMENT for more halts than symbols, or SD_E_NO_MEMORY. */
int sd_agenda_init(sd_agenda *a, const uint64_t *weights, uint32_t symbols, uint64_t messages, uint32_t halts,
                   uint64_t seed);
void sd_agenda_destroy(sd_agenda *a);

/* The next notice's rank. At most `all` calls. */
uint32_t sd_agenda_round_next(sd_agenda_rounds *r);

/* Times of the notices before the open and the crosses after the close, spread evenly: number `i` of all. */
uint64_t sd_agenda_opening_ns(sd_agenda *a, uint64_t i);
uint64_t sd_agenda_closing_ns(sd_agenda *a, uint64_t i);

/* Takes what is due of halts and of notices for the close, with its rank. `pending` must not be 0. */
int sd_agenda_take(sd_agenda *a, uint32_t *rank);

/* The same when a message comes at `ns` and `left` more follow it before the close. SD_AGENDA_NONE: nothing is due. When hardly any
 * messages are left, everything is due. */
static inline int sd_agenda_due(sd_agenda *a, uint64_t ns, uint64_t left, uint32_t *rank) {
  if (__builtin_expect(ns < a->next_ns && left >= a->pending, 1)) return SD_AGENDA_NONE;
  return sd_agenda_take(a, rank);
}
