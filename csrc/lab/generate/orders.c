#include "lab/generate/orders.h"

#include <stdlib.h>

#include "sd_error.h"

enum { FIRST_CAPACITY = 4 };

int sd_orders_reserve(sd_orders *book, int side) {
  if (book->count[side] < book->capacity[side]) return SD_OK;
  uint32_t capacity = book->capacity[side] ? 2 * book->capacity[side] : FIRST_CAPACITY;
  sd_order *orders = realloc(book->side[side], capacity * sizeof *orders);
  if (!orders) return SD_E_NO_MEMORY;
  book->side[side] = orders;
  book->capacity[side] = capacity;
  return SD_OK;
}

void sd_orders_destroy(sd_orders *book) {
  free(book->side[SD_BID]);
  free(book->side[SD_ASK]);
}

uint32_t sd_orders_first(const sd_orders *book, int side) {
  const sd_order *orders = book->side[side];
  uint32_t flip = side == SD_BID ? UINT32_MAX : 0, best = 0; /* flipped, a lower price is better on either side */
  uint32_t minimum = orders[0].price ^ flip;
  uint64_t oldest = orders[0].id;
  for (uint32_t i = 1; i < book->count[side]; i++) {
    uint32_t price = orders[i].price ^ flip;
    if (__builtin_expect(price > minimum, 1)) /* nearly always: a predicted branch costs less than a chain of selects */
      continue;
    if (price < minimum || orders[i].id < oldest) {
      best = i;
      minimum = price;
      oldest = orders[i].id;
    }
  }
  return best;
}

static uint32_t count_at(const sd_orders *book, int side, uint32_t price) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < book->count[side]; i++) n += book->side[side][i].price == price;
  return n;
}

void sd_orders_step(sd_orders *book, int direction) {
  book->mid += (uint32_t)direction;
  for (int side = SD_BID; side <= SD_ASK; side++)
    book->touch[side] = count_at(book, side, sd_orders_touch_price(book, side));
}

int sd_orders_check(const sd_orders *book) {
  for (int side = SD_BID; side <= SD_ASK; side++) {
    uint32_t touch = sd_orders_touch_price(book, side);
    if (book->count[side] > book->capacity[side] || book->touch[side] != count_at(book, side, touch))
      return SD_E_CORRUPT;
    for (uint32_t i = 0; i < book->count[side]; i++) {
      const sd_order *o = &book->side[side][i];
      if (!o->shares || !o->id || (side == SD_BID ? o->price > touch : o->price < touch)) return SD_E_CORRUPT;
    }
  }
  return SD_OK;
}
