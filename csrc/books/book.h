/* Order-by-order books: every resting order of every symbol, from a feed's ticks.
 *
 *   A          add an order at its price, behind those that are there
 *   C          cancel `size` of it, or with size 0 all that is left (DBN: nothing)
 *   F          execute `size` of it; its price is the order's where the tick has none. In feeds whose fills only report
 *              (rules.fills_report: DBN, where a cancel or a modify follows), the book is left alone
 *   M          with ref_id: the order gives its place to a new one with that id, price and size (ITCH). Without: it has
 *              another price or size, and keeps its place only at the same price with no more size (DBN)
 *              A new order that is unusable, or has the old one's id, still takes the old one off (ITCH)
 *   R          clear the symbol's book; of kind STATUS: a new day, which has no trading state yet either
 *              Of an unknown order it is an add in feeds whose fills only report (DBN)
 *   T          a trade of what was not displayed, or a cross: volume and last price
 *   N          of kind STATUS: the trading state, where it is one of H, P, Q, T
 *
 * Where rules.fills_report is set, the feed is Databento's, and there are more rules (publishers.h):
 *   - each publisher_id has a book. The row shows the best price of all, with the sizes and orders of all at it
 *   - the row's part of the book (prices, sizes, orders, levels) is as the last event left it, whose last tick has the flag `last`. A
 *     snapshot, which begins with R, is one event. A new day is shown at once
 *   - flag `top`: an A or M is all of its side; without a price the side is empty. Its top counts among no orders
 *   - a C of size 0 takes nothing
 *   - `crossed` counts events that left a publisher's own book crossed
 *
 * What counts into volume, trades and last price: books/trade.h. A fill of an unknown order, without a price, is only counted as
 * unknown; a T without a price is counted as unusable.
 * Rules of the exchange: Nasdaq TotalView-ITCH 5.0, sections 1.3 to 1.5; Databento's MBO schema.
 */
#pragma once

#include "books/book_questions.h"
#include "books/book_row.h"

struct sd_space;

/* cffi: begin */
/* Makes empty books of symbols 0 .. n - 1 in a space. They number orders from `start` on; tests put it just below the number at which a
 * book begins again. `per_publisher`: for rules.fills_report, each publisher has a book. `top`: how many levels of each side follow a
 * symbol's row (book_shown.h), at most SD_TOP_MAX. NULL: no memory, or n is 0. */
sd_books *sd_books_create(struct sd_space *space, uint64_t n, uint32_t start, int per_publisher, uint32_t top);

/* Books that another process saved, and whose memory was read back into this space, are this process's from now on. SD_E_NO_MEMORY. */
int sd_books_adopt(sd_books *books, struct sd_space *space);

/* Asks for the memory that n ticks will touch. For a chain, which then handles the ticks one by one. */
void sd_ahead_book(void *rows, const sd_tick *ticks, int64_t n, const sd_context *ctx);
int64_t sd_handle_book(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
/* The same for books whose rows show levels. If params->emits, each change of these goes to output 0: the tick's ts_event, and the levels
 * as the row has them. */
int64_t sd_handle_book_top(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
/* cffi: end */
