/* Books of a dispatcher of another process: the best levels of one symbol. */
#ifndef SD_OUTSIDE_BOOKS_H
#define SD_OUTSIDE_BOOKS_H

#include "handlers/book.h"
#include "outside/attach.h"

/* A side never has fewer levels than these in its ladder while it has more elsewhere: the best ones are there. */
enum { SD_OUTSIDE_LEVELS = 64 };

/* The best levels of a book's two sides, in units of the ticks; `orders` is 0 in books of levels. */
typedef struct sd_outside_book {
  sd_book_level asks[SD_OUTSIDE_LEVELS], bids[SD_OUTSIDE_LEVELS];
  uint32_t n_asks, n_bids;
  uint32_t publishers; /* whose books there are of the symbol; 1 where feeds know none */
  uint16_t publisher;  /* whose this one is */
  uint16_t of_levels;
} sd_outside_book;

/* The book of a symbol, or of the publisher at `place`, whose books lie at `offset`; of_levels: they are sd_depths, else sd_books.
 * SD_AGAIN: its strand's owner did not let go of it for patience_ns; the book may be of several moments. SD_E_FORMAT: there is
 * none, or the memory is damaged. */
int sd_outside_book_of(sd_outside *o, uint64_t offset, int of_levels, uint32_t symbol, uint32_t place,
                       uint64_t patience_ns, sd_outside_book *book);

#endif
