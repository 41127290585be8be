/* A book per publisher, for Databento's orders: one instrument may be told of by several venues, each with order ids of its own.
 *
 * The first publisher's book is the symbol's, and the row shows it. When a second one comes, all books move into an array; each
 * then has a row that shows it at the end of its last event, and the symbol's row shows the best of these.
 */
#ifndef SD_HANDLERS_PUBLISHERS_H
#define SD_HANDLERS_PUBLISHERS_H

#include "handlers/book_row.h"
#include "handlers/book_store.h"

/* Databento's flags: the last record of an event for an instrument; the record is the whole side of a venue that tells no more
 * than its top. */
enum { SD_EVENT_LAST = 0x80, SD_EVENT_TOP = 0x40 };

typedef struct sd_publisher {
  sd_book book;
  sd_book_row shown; /* its book's part: at the end of its last event */
  uint16_t id;
  uint8_t tops; /* SD_TOP bits: sides of which SD_EVENT_TOP records tell */
} sd_publisher;

/* A symbol's. All zero: none has come. */
typedef struct sd_publishers {
  sd_relative all; /* sd_publisher by place; nothing: there is one at most */
  uint32_t n, capacity;
  uint16_t id; /* of the only one */
  uint8_t tops;
} sd_publishers;

/* By place; NULL: there is one at most. */
static inline sd_publisher *sd_publishers_all(const sd_publishers *p) { return sd_relative_or_null(&p->all); }

/* One publisher's book, what is known of it, and the row that shows it. */
typedef struct sd_publisher_view {
  sd_book *book;
  uint8_t *tops;
  sd_book_row *shown;
} sd_publisher_view;

/* The one at a place below p->n. `book` and `row` are the symbol's. */
sd_publisher_view sd_publisher_at(sd_publishers *p, sd_book *book, sd_book_row *row, uint32_t place);

/* What sd_publisher_find found. */
enum { SD_PUBLISHER_FOUND = 0, SD_PUBLISHER_NO_MEMORY, SD_PUBLISHER_TOO_MANY };

/* The one with an id, which is made if there is none. */
int sd_publisher_find(sd_publishers *p, sd_pool *pool, sd_book *book, sd_book_row *row, uint16_t id,
                      sd_publisher_view *view);

/* Brings the symbol's row up to date where there are several. Sizes and orders are those of all publishers at the best price;
 * levels and orders resting are added up. */
void sd_publishers_show(const sd_publishers *p, sd_book_row *row);

/* A tick ends an event: what it left may be shown. */
static inline int sd_ends_event(const sd_tick *t) { return t->kind != SD_KIND_STATUS && t->flags & SD_EVENT_LAST; }

/* The side's top that an SD_EVENT_TOP record told has an id that no venue gives. */
static inline uint64_t sd_top_id(int side) { return UINT64_MAX - (uint64_t)side; }

/* Tops among a book's orders, which are no orders. */
static inline uint32_t sd_count_tops(const sd_book *b, uint8_t tops) {
  return (uint32_t)((tops & SD_TOP(SD_ASK)) && b->n[SD_ASK]) + (uint32_t)((tops & SD_TOP(SD_BID)) && b->n[SD_BID]);
}

#endif
