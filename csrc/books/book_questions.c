/* Questions to books: levels, orders, places in queues. */
#include "books/book_questions.h"

#include <stdlib.h>

#include "books/book_ahead.h"

static int side_of(int letter) { return letter == 'B' ? SD_BID : SD_ASK; }

/* NULL: no such symbol, or it has fewer publishers. */
static const sd_book *book_at(const sd_books *books, uint64_t symbol, uint64_t place, uint8_t *tops) {
  *tops = 0;
  if (symbol >= books->n) return NULL;
  const sd_publishers *publishers = sd_books_of_publishers(books);
  if (publishers) {
    const sd_publishers *p = &publishers[symbol];
    const sd_publisher *all = sd_publishers_all(p);
    if (all) {
      if (place >= p->n) return NULL;
      *tops = all[place].tops;
      return &all[place].book;
    }
    *tops = p->tops;
  }
  return place ? NULL : &sd_books_all(books)[symbol];
}

uint64_t sd_books_publishers(const sd_books *books, uint64_t symbol, uint16_t *ids) {
  const sd_publishers *publishers = sd_books_of_publishers(books);
  if (symbol >= books->n || !publishers) return 0;
  const sd_publishers *p = &publishers[symbol];
  const sd_publisher *all = sd_publishers_all(p);
  for (uint32_t i = 0; i < p->n; i++) ids[i] = all ? all[i].id : p->id;
  return p->n;
}

sd_book_counts sd_books_counts(const sd_books *books, uint64_t symbol, uint64_t place) {
  uint8_t tops;
  const sd_book *b = book_at(books, symbol, place, &tops);
  if (!b) return (sd_book_counts){0};
  return (sd_book_counts){sd_book_count_levels(b, SD_ASK), sd_book_count_levels(b, SD_BID),
                          b->live - sd_count_tops(b, tops)};
}

uint64_t sd_books_levels(const sd_books *books, uint64_t symbol, uint64_t place, int side, sd_book_level *levels,
                         uint64_t n) {
  uint8_t tops;
  const sd_book *b = book_at(books, symbol, place, &tops);
  if (!b) return 0;
  const int which = side_of(side);
  sd_level_cursor cursor = {0};
  uint64_t got = 0;
  for (uint32_t level; got < n && sd_book_next_level(b, which, &cursor, &level); got++) {
    const sd_level *l = sd_book_level_at(b, level);
    levels[got] = (sd_book_level){l->price, l->size, tops & SD_TOP(which) ? 0 : l->orders};
  }
  return got;
}

/* Puts the order's stamp where the answer has what is ahead of it. */
static sd_book_order describe(const sd_book *b, uint32_t slot) {
  const sd_bucket *bucket = sd_book_bucket(b, slot);
  const uint32_t place = sd_bucket_place(slot);
  const int64_t price = sd_book_level_at(b, bucket->level[place])->price;
  const char side = sd_bucket_side(bucket, place) == SD_BID ? 'B' : 'A';
  return (sd_book_order){bucket->id[place], price, sd_book_size(b, slot), bucket->stamp[place], 0, (uint64_t)side};
}

/* Sorts by price, the best one first, then by the stamps that stand in for what is ahead. */
static int before(const void *left, const void *right) {
  const sd_book_order *a = left, *b = right;
  if (a->price != b->price) return (a->price < b->price) == (a->side == 'B') ? 1 : -1;
  return (a->ahead_orders > b->ahead_orders) - (a->ahead_orders < b->ahead_orders);
}

uint64_t sd_books_orders(const sd_books *books, uint64_t symbol, uint64_t place, int side, sd_book_order *orders,
                         uint64_t n) {
  uint8_t tops;
  const sd_book *b = book_at(books, symbol, place, &tops);
  uint64_t got = 0;
  if (!b || tops & SD_TOP(side_of(side))) return 0;
  for (uint32_t slot = 0; (slot = sd_book_order_from(b, slot)) != SD_NO_ORDER; slot++) {
    if (sd_book_side(b, slot) != side_of(side)) continue;
    if (got < n) orders[got] = describe(b, slot);
    got++;
  }
  if (got > n) return got;
  qsort(orders, got, sizeof *orders, before);
  for (uint64_t i = 0; i < got; i++) {
    const int first = i == 0 || orders[i].price != orders[i - 1].price;
    orders[i].ahead_orders = first ? 0 : orders[i - 1].ahead_orders + 1;
    orders[i].ahead_size = first ? 0 : orders[i - 1].ahead_size + orders[i - 1].size;
  }
  return got;
}

int sd_books_order(const sd_books *books, uint64_t symbol, uint64_t place, uint64_t order_id, sd_book_order *order) {
  uint8_t tops;
  const sd_book *b = book_at(books, symbol, place, &tops);
  const uint64_t hash = sd_hash_with(&books->key, order_id);
  const uint32_t found = b ? sd_book_find_hashed(b, order_id, hash) : SD_NO_ORDER;
  if (found == SD_NO_ORDER || tops & SD_TOP(sd_book_side(b, found))) return 0;
  const sd_book_order mine = describe(b, found);
  *order = mine;
  order->ahead_orders = order->ahead_size = 0;
  for (uint32_t slot = 0; (slot = sd_book_order_from(b, slot)) != SD_NO_ORDER; slot++) {
    const sd_book_order other = describe(b, slot);
    if (other.price != mine.price || other.side != mine.side || other.ahead_orders >= mine.ahead_orders) continue;
    order->ahead_orders++;
    order->ahead_size += other.size;
  }
  return 1;
}

sd_resting sd_books_resting(const sd_books *books, uint64_t symbol, uint64_t order_id) {
  const sd_book *b = symbol < books->n ? &sd_books_all(books)[symbol] : NULL;
  const uint32_t found = b ? sd_book_find(b, order_id) : SD_NO_ORDER;
  if (found == SD_NO_ORDER) return (sd_resting){SD_UNDEF_PRICE, 'N'};
  return (sd_resting){sd_book_price(b, found), sd_book_side(b, found) == SD_BID ? 'B' : 'A'};
}

/* Reads all books. Begins as zeros. */
typedef struct sd_all_books {
  uint64_t symbol, place;
} sd_all_books;

static const sd_book *next_book(const sd_books *books, sd_all_books *at, uint8_t *tops) {
  for (; at->symbol < books->n; at->symbol++, at->place = 0) {
    const sd_book *b = book_at(books, at->symbol, at->place, tops);
    at->place++;
    if (b) return b;
  }
  return NULL;
}

uint64_t sd_books_live(const sd_books *books) {
  sd_all_books at = {0};
  uint64_t live = 0;
  uint8_t tops;
  for (const sd_book *b; (b = next_book(books, &at, &tops));) live += b->live - sd_count_tops(b, tops);
  return live;
}

uint64_t sd_books_order_bytes(const sd_books *books) {
  sd_all_books at = {0};
  uint64_t bytes = 0;
  uint8_t tops;
  for (const sd_book *b; (b = next_book(books, &at, &tops));) bytes += sd_book_order_bytes(b);
  return bytes;
}

uint64_t sd_books_bytes(const sd_books *books) {
  sd_all_books at = {0};
  uint64_t bytes = sizeof *books + books->n * sizeof(sd_book) + sd_books_order_bytes(books);
  uint8_t tops;
  for (const sd_book *b; (b = next_book(books, &at, &tops));) bytes += sd_book_level_bytes(b);
  const sd_publishers *publishers = sd_books_of_publishers(books);
  if (publishers) bytes += books->n * sizeof *publishers;
  for (uint64_t i = 0; publishers && i < books->n; i++) {
    bytes += publishers[i].capacity * sizeof(sd_publisher);
    if (publishers[i].capacity) bytes += publishers[i].n * sd_shown_bytes(books->top);
  }
  return bytes;
}
