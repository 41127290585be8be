/* One symbol's live orders while a market is generated: bids at or below `mid`, asks above it, so that the book cannot cross. 16 bytes
 * per order, each reached directly; memory follows the live orders, not the messages. */
#pragma once

#include <stdint.h>

typedef struct sd_order {
  uint64_t id;
  uint32_t price; /* cents */
  uint32_t shares;
} sd_order;

enum { SD_BID = 0, SD_ASK = 1 };
enum { SD_TRADING = 0, SD_HALTED = 1, SD_QUOTING = 2 };

typedef struct sd_orders {
  sd_order *side[2];
  uint32_t count[2];
  uint32_t capacity[2];
  uint32_t touch[2];    /* orders at the price next to mid: `mid` itself for bids, `mid + 1` for asks */
  uint32_t mid;         /* cents */
  uint16_t target;      /* live orders towards which adds and deletes balance */
  int8_t pressure;      /* the direction in which mid tends: -1, 0 or 1 */
  uint8_t state;        /* SD_TRADING and so on */
  uint32_t paired;      /* shares that the next cross will trade */
  uint32_t reserved[3]; /* fills the cache line */
} sd_orders;

_Static_assert(sizeof(sd_order) == 16, "the memory of a market is 16 bytes a live order");
_Static_assert(sizeof(sd_orders) == 64, "a symbol's header is one cache line");

/* SD_OK, or SD_E_NO_MEMORY with the book unchanged. */
int sd_orders_reserve(sd_orders *book, int side);

void sd_orders_destroy(sd_orders *book);

/* The order that would trade first: best price, then the oldest. The side must not be empty. */
uint32_t sd_orders_first(const sd_orders *book, int side);

/* Moves mid by one cent and recounts both touches. Only towards a side whose touch is 0. */
void sd_orders_step(sd_orders *book, int direction);

/* Checks what the header says against the orders: SD_OK or SD_E_CORRUPT. */
int sd_orders_check(const sd_orders *book);

static inline uint32_t sd_orders_touch_price(const sd_orders *book, int side) { return book->mid + (uint32_t)side; }

/* Room must have been reserved. */
static inline void sd_orders_add(sd_orders *book, int side, sd_order order) {
  book->side[side][book->count[side]++] = order;
  book->touch[side] += order.price == sd_orders_touch_price(book, side);
}

static inline void sd_orders_remove(sd_orders *book, int side, uint32_t at) {
  sd_order *orders = book->side[side];
  book->touch[side] -= orders[at].price == sd_orders_touch_price(book, side);
  orders[at] = orders[--book->count[side]];
}

static inline void sd_orders_replace(sd_orders *book, int side, uint32_t at, sd_order order) {
  uint32_t price = sd_orders_touch_price(book, side);
  book->touch[side] += (uint32_t)(order.price == price) - (uint32_t)(book->side[side][at].price == price);
  book->side[side][at] = order;
}
