#include "books/publishers.h"

#include <string.h>

enum { FIRST_CAPACITY = 4 };

sd_publisher_view sd_publisher_at(sd_publishers *p, sd_book *book, sd_book_row *row, uint32_t place) {
  sd_publisher *all = sd_publishers_all(p);
  if (!all) return (sd_publisher_view){book, &p->tops, row, sd_row_shown(row), p->from};
  sd_publisher *one = &all[place];
  return (sd_publisher_view){&one->book, &one->tops, &one->shown, sd_relative_or_null(&one->levels), one->from};
}

static void move_publisher(sd_publisher *to, const sd_publisher *from) {
  *to = *from;
  sd_book_move(&to->book, &from->book);
  sd_relative_set(&to->levels, sd_relative_or_null(&from->levels));
}

static int reserve_publishers(sd_publishers *p, sd_pool *pool) {
  if (p->n < p->capacity) return 1;
  const uint32_t capacity = p->capacity ? 2 * p->capacity : FIRST_CAPACITY;
  sd_publisher *all = sd_pool_take(pool, capacity * sizeof *all);
  if (!all) return 0;
  memset(all, 0, capacity * sizeof *all);
  sd_publisher *old = sd_publishers_all(p);
  for (uint32_t i = 0; old && i < p->n; i++) move_publisher(&all[i], &old[i]);
  sd_pool_give(pool, old, p->capacity * sizeof *old);
  sd_relative_set(&p->all, all);
  p->capacity = capacity;
  return 1;
}

/* Memory for the levels of the rows of n publishers, which is NULL if rows show none. Zero: there is no memory. */
static int take_levels(sd_pool *pool, uint32_t top, int n, int64_t **levels) {
  for (int i = 0; top && i < n; i++) {
    levels[i] = sd_pool_take(pool, sd_shown_bytes(top));
    if (!levels[i]) {
      if (i) sd_pool_give(pool, levels[0], sd_shown_bytes(top));
      return 0;
    }
    sd_shown_clear(levels[i], top);
  }
  return 1;
}

int sd_publisher_find(sd_publishers *p, sd_pool *pool, sd_book *book, sd_book_row *row, uint32_t top, uint16_t id,
                      sd_publisher_view *view) {
  sd_publisher *all = sd_publishers_all(p);
  uint32_t at = 0;
  if (all) {
    while (at < p->n && all[at].id != id) at++;
  } else if (!p->n) {
    p->id = id;
    p->n = 1;
  } else {
    at = p->id != id;
  }
  if (at == p->n) {
    const int second = !all;
    if (p->n == SD_MAX_PUBLISHERS) return SD_PUBLISHER_TOO_MANY;
    int64_t *levels[2] = {NULL, NULL};
    if (!take_levels(pool, top, 1 + second, levels)) return SD_PUBLISHER_NO_MEMORY;
    if (!reserve_publishers(p, pool)) {
      for (int i = 0; top && i <= second; i++) sd_pool_give(pool, levels[i], sd_shown_bytes(top));
      return SD_PUBLISHER_NO_MEMORY;
    }
    all = sd_publishers_all(p);
    sd_relative_set(&all[at].levels, levels[0]);
    if (second) {
      if (top) memcpy(levels[1], sd_row_shown(row), sd_shown_bytes(top));
      sd_relative_set(&all[0].levels, levels[1]);
      memcpy(all[0].from, p->from, sizeof p->from);
      sd_book_move(&all[0].book, book);
      memset(book, 0, sizeof *book);
      all[0].shown = *row;
      all[0].id = p->id;
      all[0].tops = p->tops;
    }
    all[at].id = id;
    all[at].shown.bid_price = all[at].shown.ask_price = SD_UNDEF_PRICE;
    p->n++;
  }
  *view = sd_publisher_at(p, book, row, at);
  return SD_PUBLISHER_FOUND;
}

/* Combines a side of the row with that of a publisher, which may be better. */
static void take_better(int better, int64_t *price, int64_t *size, int32_t *orders, int64_t its_price, int64_t its_size,
                        int32_t its_orders) {
  if (its_price == SD_UNDEF_PRICE) return;
  if (*price == its_price) {
    *size = (int64_t)((uint64_t)*size + (uint64_t)its_size);
    *orders += its_orders;
  } else if (*price == SD_UNDEF_PRICE || better) {
    *price = its_price;
    *size = its_size;
    *orders = its_orders;
  }
}

void sd_publishers_show(const sd_publishers *p, sd_book_row *row) {
  const sd_publisher *all = sd_publishers_all(p);
  if (!all) return;
  row->bid_price = row->ask_price = SD_UNDEF_PRICE;
  row->bid_size = row->ask_size = 0;
  row->bid_orders = row->ask_orders = row->orders = row->bid_levels = row->ask_levels = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    const sd_book_row *s = &all[i].shown;
    take_better(s->bid_price > row->bid_price, &row->bid_price, &row->bid_size, &row->bid_orders, s->bid_price,
                s->bid_size, s->bid_orders);
    take_better(s->ask_price < row->ask_price, &row->ask_price, &row->ask_size, &row->ask_orders, s->ask_price,
                s->ask_size, s->ask_orders);
    row->orders += s->orders;
    row->bid_levels += s->bid_levels;
    row->ask_levels += s->ask_levels;
  }
}

/* The best price of a side that a publisher shows, behind those that were taken; SD_UNDEF_PRICE: there is none. */
static int64_t head_of(const int64_t *prices, uint32_t top, uint32_t taken) {
  return taken < top ? prices[taken] : SD_UNDEF_PRICE;
}

static int merge_side(const sd_publisher *all, uint32_t n, int side, uint32_t top, int64_t *to) {
  uint8_t taken[SD_MAX_PUBLISHERS] = {0};
  int64_t changed = 0;
  for (uint32_t rank = 0; rank < top; rank++) {
    int64_t price = SD_UNDEF_PRICE, size = 0, orders = 0;
    for (uint32_t i = 0; i < n; i++) {
      const int64_t *prices = sd_shown_side(sd_relative_get(&all[i].levels), top, side);
      const int64_t head = head_of(prices, top, taken[i]);
      if (head == SD_UNDEF_PRICE) continue;
      if (price == SD_UNDEF_PRICE || sd_ladder_key(side, head) > sd_ladder_key(side, price)) price = head;
    }
    for (uint32_t i = 0; i < n && price != SD_UNDEF_PRICE; i++) {
      const int64_t *prices = sd_shown_side(sd_relative_get(&all[i].levels), top, side);
      if (head_of(prices, top, taken[i]) != price) continue;
      size = (int64_t)((uint64_t)size + (uint64_t)prices[top + taken[i]]);
      orders += prices[2 * top + taken[i]];
      taken[i]++;
    }
    changed |= (to[rank] ^ price) | (to[top + rank] ^ size) | (to[2 * top + rank] ^ orders);
    to[rank] = price;
    to[top + rank] = size;
    to[2 * top + rank] = orders;
  }
  return changed != 0;
}

int sd_publishers_show_levels(const sd_publishers *p, uint32_t top, int64_t *shown) {
  const sd_publisher *all = sd_publishers_all(p);
  const int bids = merge_side(all, p->n, SD_BID, top, sd_shown_side(shown, top, SD_BID));
  return merge_side(all, p->n, SD_ASK, top, sd_shown_side(shown, top, SD_ASK)) || bids;
}
