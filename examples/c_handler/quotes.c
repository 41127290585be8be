/* Time-weighted spread of each symbol: a handler in C, after the order book in a chain. `make` builds it. */
#include "books/book.h"
#include "sd_handler.h"

/* As run.py declares it. */
typedef struct quotes_row {
  int64_t last;    /* time of the last tick, ns */
  int64_t time;    /* time with both sides quoted, ns */
  double weighted; /* spread x time, in currency units x ns */
  int64_t spread;  /* now, in 1e-9; 0: a side is empty */
} quotes_row;

int64_t on_ticks(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) {
    const sd_tick *t = &ticks[i];
    quotes_row *row = (quotes_row *)((unsigned char *)rows + t->instrument_id * ctx->row_stride);
    /* In a chain the row of the handler before ends where this one begins. */
    const sd_book_row *book = (const sd_book_row *)row - 1;
    if (row->spread > 0 && t->ts_recv > row->last) {
      row->time += t->ts_recv - row->last;
      row->weighted += (double)row->spread * 1e-9 * (double)(t->ts_recv - row->last);
    }
    row->last = t->ts_recv;
    row->spread = book->bid_orders && book->ask_orders ? book->ask_price - book->bid_price : 0;
  }
  return n;
}
