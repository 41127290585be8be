#include "lab/generate/auction.h"

#include "codec/itch/itch.h"
#include "lab/generate/agenda.h"

/* Four letters as ITCH gives a reason, read as a big-endian number. */
#define REASON(a, b, c, d) ((uint64_t)(a) << 24 | (uint64_t)(b) << 16 | (uint64_t)(c) << 8 | (uint64_t)(d))

enum { ROUND_LOT = 100 };

static int64_t tick_price(uint32_t cents) { return (int64_t)cents * (SD_PRICE_SCALE / 100); }

/* Round lots. Each notice adds to what the notices before it had. */
static uint32_t more_paired(uint64_t detail) { return ROUND_LOT * (1 + (uint32_t)(detail & 255)); }

static char cross(sd_orders *book, uint64_t detail, uint8_t type_flags, sd_tick *tick) {
  tick->action = 'T';
  tick->kind = SD_KIND_TRADE;
  tick->flags = SD_ITCH_CROSS | type_flags;
  tick->size = book->paired ? book->paired : more_paired(detail);
  tick->price = tick_price(book->mid);
  book->paired = 0;
  return 'Q';
}

static char notice(sd_orders *book, uint64_t detail, char cross_type, sd_tick *tick) {
  book->paired += more_paired(detail);
  uint32_t way = (uint32_t)(detail >> 8 & 7); /* one in eight is balanced */
  tick->action = 'N';
  tick->kind = SD_KIND_STATUS;
  tick->flags = SD_ITCH_IMBALANCE | (uint8_t)cross_type;
  tick->size = book->paired;
  tick->price = tick_price(book->mid);
  tick->side = way == 0 ? 'N' : way & 1 ? 'B' : 'A';
  tick->ref_id = way == 0 ? 0 : ROUND_LOT * (1 + (detail >> 11 & 63));
  return 'I';
}

static char state(sd_orders *book, uint8_t now, char letter, uint64_t reason, sd_tick *tick) {
  book->state = now;
  tick->action = 'N';
  tick->kind = SD_KIND_STATUS;
  tick->flags = (uint8_t)letter;
  tick->ref_id = reason;
  return 'H';
}

char sd_auction_event(int what, sd_orders *book, uint64_t detail, sd_tick *tick) {
  switch (what) {
  case SD_AGENDA_OPEN_NOTICE:
    return notice(book, detail, 'O', tick);
  case SD_AGENDA_CLOSE_NOTICE:
    return notice(book, detail, 'C', tick);
  case SD_AGENDA_HALT_NOTICE:
    return notice(book, detail, 'H', tick);
  case SD_AGENDA_OPEN_CROSS:
    return cross(book, detail, SD_ITCH_CROSS_OPENING, tick);
  case SD_AGENDA_CLOSE_CROSS:
    return cross(book, detail, SD_ITCH_CROSS_CLOSING, tick);
  case SD_AGENDA_HALT_CROSS:
    return cross(book, detail, SD_ITCH_CROSS_HALT, tick);
  case SD_AGENDA_HALT: /* T1: news is pending; T3: it is out, and trading will resume */
    return state(book, SD_HALTED, 'H', REASON('T', '1', ' ', ' '), tick);
  case SD_AGENDA_QUOTE_AFTER_HALT:
    return state(book, SD_QUOTING, 'Q', REASON('T', '3', ' ', ' '), tick);
  case SD_AGENDA_RESUME_AFTER_HALT:
    return state(book, SD_TRADING, 'T', REASON('T', '3', ' ', ' '), tick);
  case SD_AGENDA_PAUSE:
    return state(book, SD_HALTED, 'P', REASON('L', 'U', 'D', 'P'), tick);
  case SD_AGENDA_QUOTE_AFTER_PAUSE:
    return state(book, SD_QUOTING, 'Q', REASON('L', 'U', 'D', 'P'), tick);
  default:
    return state(book, SD_TRADING, 'T', REASON('L', 'U', 'D', 'P'), tick);
  }
}
