#include "handlers/tape.h"

#include <stdlib.h>
#include <string.h>

#include "sd_atomic.h"

typedef struct sd_tape_row {
  _Alignas(SD_LINE) sd_book_row book;
} sd_tape_row;

struct sd_tape {
  sd_book_params params;
  uint64_t n;
  sd_tape_row *rows;
};

sd_tape *sd_tape_create(uint64_t n, int fills_report) {
  if (n == 0 || n > SIZE_MAX / sizeof(sd_tape_row)) return NULL;
  sd_tape *tape = calloc(1, sizeof *tape);
  if (!tape) return NULL;
  tape->n = n;
  tape->params.fills_report = (uint64_t)fills_report;
  tape->params.books = sd_books_create(n, 0);
  tape->rows = aligned_alloc(SD_LINE, n * sizeof *tape->rows);
  if (!tape->params.books || !tape->rows) {
    sd_tape_destroy(tape);
    return NULL;
  }
  memset(tape->rows, 0, n * sizeof *tape->rows);
  return tape;
}

void sd_tape_destroy(sd_tape *tape) {
  if (!tape) return;
  sd_books_destroy(tape->params.books);
  free(tape->rows);
  free(tape);
}

/* Whose order met a displayed one: a trade at or beyond the ask before it was a buyer's. */
static char aggressor(const sd_top *before, const sd_tick *t, int64_t price) {
  if (price == SD_UNDEF_PRICE) return 'N';
  if (before->ask != SD_UNDEF_PRICE && price >= before->ask) return 'B';
  if (before->bid != SD_UNDEF_PRICE && price <= before->bid) return 'A';
  /* Of what was not displayed: a tick's side is the resting order's in feeds of single orders. */
  return t->side == 'B' ? 'A' : t->side == 'A' ? 'B' : 'N';
}

int sd_tape_event(sd_tape *tape, const sd_tick *t, sd_context *ctx, sd_event *e) {
  sd_book_row *row = &tape->rows[t->instrument_id].book;
  const int64_t trades = row->trades, volume = row->volume, unknown = row->unknown;
  /* Zeroes before the first tick: no top. */
  const int fresh = row->ticks == 0;
  const sd_top before = {fresh ? SD_UNDEF_PRICE : row->bid_price, fresh ? SD_UNDEF_PRICE : row->ask_price,
                         row->bid_size, row->ask_size};
  sd_context inner = *ctx;
  inner.params = &tape->params;
  inner.row_stride = sizeof *tape->rows;
  if (sd_handle_book(tape->rows, t, 1, &inner) != 1) {
    ctx->error_code = inner.error_code;
    memcpy(ctx->message, inner.message, sizeof ctx->message);
    return -1;
  }
  e->time = sd_time_of(t);
  e->size = 0;
  if (row->trades != trades) {
    e->size = row->volume - volume;
    /* A fill without a price has its order's, which the book put there: where it knew the order. */
    e->price = sd_price_or_none(t->action == 'F' && row->unknown == unknown ? row->last_price : t->price);
    e->side = aggressor(&before, t, e->price);
  }
  if (e->clear) return 0; /* an empty top that nobody cancelled an order for */
  e->bid = fresh || row->bid_price != before.bid || row->bid_size != before.bid_size;
  e->ask = fresh || row->ask_price != before.ask || row->ask_size != before.ask_size;
  e->top = (sd_top){row->bid_price, row->ask_price, row->bid_size, row->ask_size};
  return 0;
}
