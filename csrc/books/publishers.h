/* A book per publisher, for Databento's orders: several venues may report one instrument, each with its own order ids.
 *
 * The first publisher's book is the symbol's, and the row shows it. When a second publisher comes, all books move into an array. Each
 * then has a row that shows it at the end of its last event, and the symbol's row shows the best of these. */
#pragma once

#include "books/book_row.h"
#include "books/book_shown.h"
#include "books/book_store.h"

/* In `tops`, beside the sides: the publisher's latest record is of a snapshot; and: that snapshot's event has ended. */
enum { SD_IN_SNAPSHOT = 0x40, SD_SNAPSHOT_ENDED = 0x80 };

typedef struct sd_publisher {
  sd_book book;
  sd_book_row shown;  /* the book's part of the row, at the end of its last event */
  sd_relative levels; /* those of that row, if rows show levels (book_shown.h) */
  uint8_t from[2];    /* per side, the rank from which on they have to be written again */
  uint16_t id;
  uint8_t
      tops; /* SD_TOP bits: the sides that records with the flag `top` describe; and SD_IN_SNAPSHOT, SD_SNAPSHOT_ENDED */
} sd_publisher;

/* A symbol's publishers. All zero: none has come. */
typedef struct sd_publishers {
  sd_relative all; /* sd_publisher by place; unset: there is at most one */
  uint32_t n, capacity;
  uint16_t id; /* of the only publisher */
  uint8_t tops;
  uint8_t from[2];
  uint8_t relevelled; /* the symbol's latest tick changed levels that its row shows */
  uint8_t renewed;    /* the symbol's latest tick began a snapshot, and emptied the book although its action is not R */
} sd_publishers;

/* By place; NULL: there is at most one. */
static inline sd_publisher *sd_publishers_all(const sd_publishers *p) { return sd_relative_or_null(&p->all); }

/* One publisher's book, the state kept beside it, and the row that shows it. */
typedef struct sd_publisher_view {
  sd_book *book;
  uint8_t *tops;
  sd_book_row *shown;
  int64_t *levels; /* those of the row */
  uint8_t *from;
} sd_publisher_view;

/* The publisher at a place below p->n. `book` and `row` are the symbol's. */
sd_publisher_view sd_publisher_at(sd_publishers *p, sd_book *book, sd_book_row *row, uint32_t place);

/* What sd_publisher_find found. */
enum { SD_PUBLISHER_FOUND = 0, SD_PUBLISHER_NO_MEMORY, SD_PUBLISHER_TOO_MANY };

/* The publisher with an id; makes it if there is none. `top`: levels of each side that rows show. */
int sd_publisher_find(sd_publishers *p, sd_pool *pool, sd_book *book, sd_book_row *row, uint32_t top, uint16_t id,
                      sd_publisher_view *view);

/* Updates the symbol's row if there are several publishers. Sizes and orders are those of all publishers at the best price; levels and
 * resting orders are summed. */
void sd_publishers_show(const sd_publishers *p, sd_book_row *row);
/* Updates the row's levels, if there are several publishers: at each price, sizes and orders of all of them. Nonzero: some have changed. */
int sd_publishers_show_levels(const sd_publishers *p, uint32_t top, int64_t *shown);

/* The tick ends an event: the rows may show what it left. `last`: the feed's flag for it; 0: each tick does. */
static inline int sd_ends_event(const sd_tick *t, uint8_t last) {
  return t->kind != SD_KIND_STATUS && (!last || t->flags & last);
}

/* The id of the top that a record with the flag `top` gave for a side; no venue gives such an id. */
static inline uint64_t sd_top_id(int side) { return UINT64_MAX - (uint64_t)side; }

/* How many of a book's orders are such tops, and no real orders. */
static inline uint32_t sd_count_tops(const sd_book *b, uint8_t tops) {
  return (uint32_t)((tops & SD_TOP(SD_ASK)) && b->n[SD_ASK]) + (uint32_t)((tops & SD_TOP(SD_BID)) && b->n[SD_BID]);
}
