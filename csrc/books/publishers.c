#include "books/publishers.h"

#include <string.h>

enum { FIRST_CAPACITY = 4 };

sd_publisher_view sd_publisher_at(sd_publishers *p, sd_book *book, sd_book_row *row, uint32_t place) {
  sd_publisher *all = sd_publishers_all(p);
  if (!all) return (sd_publisher_view){book, &p->tops, row};
  sd_publisher *one = &all[place];
  return (sd_publisher_view){&one->book, &one->tops, &one->shown};
}

static void move_publisher(sd_publisher *to, const sd_publisher *from) {
  *to = *from;
  sd_book_move(&to->book, &from->book);
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

int sd_publisher_find(sd_publishers *p, sd_pool *pool, sd_book *book, sd_book_row *row, uint16_t id,
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
    if (!reserve_publishers(p, pool)) return SD_PUBLISHER_NO_MEMORY;
    all = sd_publishers_all(p);
    if (second) {
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
