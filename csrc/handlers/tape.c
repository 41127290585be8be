#include "handlers/tape.h"

#include <string.h>

#include "base/atomic.h"
#include "handlers/book_ahead.h"

typedef struct sd_tape_row {
  _Alignas(SD_LINE) sd_book_row book;
  /* Databento's: whether a top has been emitted; and the publisher whose book the event under way cleared, plus 1 */
  uint32_t emitted, cleared;
} sd_tape_row;

struct sd_tape {
  sd_relative books;  /* sd_books */
  sd_tape_row rows[]; /* by symbol */
};

static sd_books *books_of(const sd_tape *tape) { return sd_relative_get(&tape->books); }

sd_tape *sd_tape_create(sd_space *space, uint64_t n, const sd_trade_rules *rules) {
  if (n == 0 || n > SIZE_MAX / sizeof(sd_tape_row) - 1) return NULL;
  sd_books *books = sd_books_create(space, n, 0, rules->fills_report);
  sd_tape *tape = books ? sd_space_get(space, sizeof *tape + n * sizeof *tape->rows, _Alignof(sd_tape)) : NULL;
  if (!tape) return NULL;
  sd_relative_set(&tape->books, books);
  return tape;
}

int sd_tape_adopt(sd_tape *tape, struct sd_space *space) { return sd_books_adopt(books_of(tape), space); }

void sd_tape_ahead(const sd_source *source, const sd_tick *ticks, int64_t n) {
  sd_tape *tape = source->tape;
  const sd_book_params params = {books_of(tape), source->space, source->rules};
  const sd_context ctx = {.params = &params, .row_stride = sizeof *tape->rows};
  sd_ahead_book(tape->rows, ticks, n, &ctx);
}

/* Databento's: at the end of a tick's event, reports what the event left. A cleared book is reported together with what took its place. */
static void emit_event(sd_tape_row *row, const sd_tick *t, uint8_t last, const sd_top *before, sd_event *e) {
  const uint32_t publisher = t->publisher_id + UINT32_C(1);
  if (e->clear == SD_CLEAR_DAY) {
    row->cleared = 0;
    return;
  }
  if (e->clear) row->cleared = publisher;
  e->clear = SD_CLEAR_NONE;
  if (!sd_ends_event(t, last)) return;
  const int fresh = !row->emitted || row->cleared == publisher;
  if (row->cleared == publisher) {
    row->cleared = 0;
    e->clear = SD_CLEAR_BOOK;
  }
  row->emitted = 1;
  e->bid = fresh || row->book.bid_price != before->bid || row->book.bid_size != before->bid_size;
  e->ask = fresh || row->book.ask_price != before->ask || row->book.ask_size != before->ask_size;
  e->top = (sd_top){row->book.bid_price, row->book.ask_price, row->book.bid_size, row->book.ask_size};
}

int sd_tape_event(const sd_source *source, const sd_tick *t, sd_context *ctx, sd_event *e) {
  sd_tape *tape = source->tape;
  sd_book_row *row = &tape->rows[t->instrument_id].book;
  /* All zero before the first tick: no top. */
  const int fresh = row->ticks == 0;
  const sd_top before = {fresh ? SD_UNDEF_PRICE : row->bid_price, fresh ? SD_UNDEF_PRICE : row->ask_price,
                         row->bid_size, row->ask_size};
  sd_resting met = {SD_UNDEF_PRICE, 'N'};
  const int by_event = source->rules.fills_report;
  if (t->action == 'F' && !by_event) met = sd_books_resting(books_of(tape), t->instrument_id, t->order_id);
  e->trade = sd_trade_of(t, &source->rules, met, &before);
  /* This has only what a book reads, because a whole context is long. */
  const sd_book_params params = {books_of(tape), source->space, source->rules};
  sd_context inner;
  inner.params = &params;
  inner.row_stride = sizeof *tape->rows;
  inner.participant = ctx->participant;
  if (sd_handle_book(tape->rows, t, 1, &inner) != 1) {
    ctx->error_code = inner.error_code;
    memcpy(ctx->message, inner.message, sizeof ctx->message);
    return -1;
  }
  e->time = sd_moment_of(t, &source->rules);
  if (SD_UNLIKELY(by_event)) {
    if (sd_books_of_publishers(books_of(tape))[t->instrument_id].renewed) e->clear = SD_CLEAR_BOOK;
    emit_event(&tape->rows[t->instrument_id], t, source->rules.flags.last, &before, e);
    return 0;
  }
  if (e->clear) return 0; /* no order was cancelled to empty this top */
  e->bid = fresh || row->bid_price != before.bid || row->bid_size != before.bid_size;
  e->ask = fresh || row->ask_price != before.ask || row->ask_size != before.ask_size;
  e->top = (sd_top){row->bid_price, row->ask_price, row->bid_size, row->ask_size};
  return 0;
}
