/* Books in another process's dispatcher: the best levels of one symbol. */
#pragma once

#include "books/book.h"
#include "outside/attach.h"

/* cffi: begin */
/* While a side has levels elsewhere, its ladder has at least this many, so the best ones are in the ladder. */
enum { SD_OUTSIDE_LEVELS = 64 };

/* The best levels of both sides of a book, in the units of ticks. `orders` is 0 in books of levels. */
typedef struct sd_outside_book {
  sd_book_level asks[SD_OUTSIDE_LEVELS], bids[SD_OUTSIDE_LEVELS];
  uint32_t n_asks, n_bids;
  uint32_t publishers; /* how many publishers have books of the symbol; 1 if the feed has no publishers */
  uint16_t publisher;  /* the publisher whose book this is */
  uint16_t of_levels;
} sd_outside_book;

/* Reads the book of a symbol, or of its publisher at `place`. The books lie at `offset`; if of_levels they are sd_depths, else sd_books.
 * SD_AGAIN: the owner did not let the strand go within patience_ns, so the book may be of several moments. SD_E_FORMAT: there is no such
 * book, or the memory is damaged. */
int sd_outside_book_of(sd_outside *o, uint64_t offset, int of_levels, uint32_t symbol, uint32_t place,
                       uint64_t patience_ns, sd_outside_book *book);
/* cffi: end */
