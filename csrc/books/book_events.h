/* Books of Databento's feeds, which show an event as a whole. */
#pragma once

#include "books/book_ahead.h"

/* Applies a tick of Databento's to the books of its symbol, and shows them in the row at an event's end. Zero, or the reason why the tick
 * cannot be handled (book_apply.h). */
int sd_book_record(const sd_book_params *params, sd_pool *pool, sd_book_row *row, const sd_tick *t, sd_guess guess);
