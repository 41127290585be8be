/* Questions to books, to be asked while nobody drains the symbol's strand. `side` is 'A' or 'B'. `place` is the publisher's place among
 * those of the symbol, 0 if it has none. The answers show a book as the last tick left it, even in the middle of an event. */
#pragma once

#include "books/book_row.h"

/* cffi: begin */
typedef struct sd_book_counts {
  uint32_t asks, bids; /* levels */
  uint32_t orders;
} sd_book_counts;

/* Writes the ids of a symbol's publishers, SD_MAX_PUBLISHERS at most, in the order they came in; returns how many there are. */
uint64_t sd_books_publishers(const sd_books *books, uint64_t symbol, uint16_t *ids);
sd_book_counts sd_books_counts(const sd_books *books, uint64_t symbol, uint64_t place);

/* The best n levels, best first; returns how many there are of them. */
uint64_t sd_books_levels(const sd_books *books, uint64_t symbol, uint64_t place, int side, sd_book_level *levels,
                         uint64_t n);
/* Writes all orders of a side, best level first and oldest first within it; returns how many there are. If there are more than n, what
 * was written means nothing. */
uint64_t sd_books_orders(const sd_books *books, uint64_t symbol, uint64_t place, int side, sd_book_order *orders,
                         uint64_t n);
/* Zero: no such order. */
int sd_books_order(const sd_books *books, uint64_t symbol, uint64_t place, uint64_t order_id, sd_book_order *order);
/* cffi: end */
/* The order that a fill meets. To be called by the tick's handler, before it handles the tick. */
sd_resting sd_books_resting(const sd_books *books, uint64_t symbol, uint64_t order_id);
/* cffi: begin */
/* How many orders rest in all books, and the memory that they take with everything kept for them. */
uint64_t sd_books_live(const sd_books *books);
uint64_t sd_books_bytes(const sd_books *books);
/* How much of it orders and their indexes take. */
uint64_t sd_books_order_bytes(const sd_books *books);
/* cffi: end */
