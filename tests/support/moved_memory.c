/* Books, depth and tapes whose whole space is copied to another one halfway through their ticks.
 *
 * The copy is asked while it may only be read and the process has another key for ids, as if it were another process's. Then it
 * takes the other half of the ticks. The original is gone by then, so what still led there would crash. */
#include <string.h>
#include <sys/mman.h>

#include "books/book_ahead.h"
#include "books/depth.h"
#include "measures/tape.h"

enum { OF_BOOKS, OF_PUBLISHERS, OF_DEPTH, OF_TAPE, OF_TAPE_BY_EVENT };
enum { NOT_HANDLED = -1, HAS_ADDRESS = -2, NO_ROOM = -3 };
enum { MAX_SYMBOLS = 8, MAX_ANSWERS = 1 << 16, TOP = 3 };

static sd_space *space;
static unsigned char rows[MAX_SYMBOLS][1024];

/* A space whose ranges are all filled with what lies in another one. */
static sd_space *copy_of(const sd_space *from) {
  sd_space *to;
  const uint64_t used = sd_space_bytes(from);
  if (sd_space_create(0, 0, &to) || sd_space_fill((sd_space *)from, 0, used) || sd_space_fill(to, 0, used)) return NULL;
  memcpy(to->base, from->base, used);
  return to;
}

/* No word may be an address of the memory. */
static int has_address(void) {
  const uint64_t used = sd_space_bytes(space);
  for (uint64_t at = 0; at + sizeof(uintptr_t) <= used; at += sizeof(uintptr_t)) {
    uintptr_t word;
    memcpy(&word, space->base + at, sizeof word);
    if (word - (uintptr_t)space->base < used) return 1;
  }
  return 0;
}

/* ---- answers, one after the other */

static unsigned char *answers;
static uint64_t said, room;

static void say(const void *what, uint64_t bytes) {
  if (said + bytes <= room) memcpy(answers + said, what, bytes);
  said += bytes;
}

static void say_number(int64_t number) { say(&number, sizeof number); }

static void ask_book(const sd_books *books, uint64_t symbol, uint64_t place) {
  static sd_book_level levels[MAX_ANSWERS];
  static sd_book_order orders[MAX_ANSWERS];
  sd_book_order one;
  const sd_book_counts counts = sd_books_counts(books, symbol, place);
  say(&counts, sizeof counts);
  for (int side = 'A'; side <= 'B'; side++) {
    say(levels, sd_books_levels(books, symbol, place, side, levels, MAX_ANSWERS) * sizeof *levels);
    const uint64_t n = sd_books_orders(books, symbol, place, side, orders, MAX_ANSWERS);
    say(orders, n * sizeof *orders);
    for (uint64_t i = 0; i < n; i += 5)
      if (sd_books_order(books, symbol, place, orders[i].order_id, &one)) say(&one, sizeof one);
  }
  say_number(sd_books_order(books, symbol, place, UINT64_MAX / 3, &one));
}

static void ask_books(const sd_books *books, uint64_t symbols) {
  uint16_t ids[SD_MAX_PUBLISHERS];
  for (uint64_t symbol = 0; symbol < symbols; symbol++) {
    const uint64_t n = sd_books_publishers(books, symbol, ids);
    say(ids, n * sizeof *ids);
    for (uint64_t place = 0; place < (n ? n : 1); place++) ask_book(books, symbol, place);
  }
  say_number((int64_t)sd_books_live(books));
  say_number((int64_t)sd_books_bytes(books));
  say_number((int64_t)sd_books_order_bytes(books));
}

static void ask_depths(const sd_depths *depths, uint64_t symbols) {
  static sd_depth_level levels[MAX_ANSWERS];
  for (uint64_t symbol = 0; symbol < symbols; symbol++)
    for (int side = 'A'; side <= 'B'; side++)
      say(levels, sd_depths_levels(depths, symbol, side, levels, MAX_ANSWERS) * sizeof *levels);
  say_number((int64_t)sd_depths_bytes(depths));
}

static void ask(int kind, const void *subject, uint64_t symbols) {
  if (kind == OF_DEPTH) ask_depths(subject, symbols);
  else if (kind <= OF_PUBLISHERS) ask_books(subject, symbols);
  if (kind <= OF_DEPTH) say(rows, sizeof rows);
}

/* ---- ticks */

static int tell_events(const sd_source *source, const sd_tick *ticks, int64_t n) {
  sd_context ctx = {0};
  sd_reader reader;
  sd_open_events(&reader, source, ticks, n, &ctx);
  for (int64_t i = 0; i < n; i++) {
    const sd_event *e = sd_read_event(&reader, i);
    if (!e) return 0;
    say_number(e->trade.price);
    say_number(e->trade.size);
    say_number(e->trade.aggressor);
    if (e->bid || e->ask) say(&e->top, sizeof e->top);
  }
  return 1;
}

/* Databento's, and those of levels. */
static const sd_flags flags = {.best = 4, .snapshot = 32, .last = 128, .top = 64};

static int feed(int kind, void *subject, const sd_tick *ticks, int64_t n) {
  const sd_book_params of_book = {
      .books = subject, .space = space, .rules = {.fills_report = kind == OF_PUBLISHERS, .flags = flags}};
  const sd_depth_params of_depth = {
      .depths = subject, .space = space, .top = 5, .max_levels = 1 << 20, .rules.flags = flags};
  sd_context ctx = {.row_stride = sizeof rows[0]};
  const sd_source of_tape = {
      .tape = subject, .space = space, .rules = {.fills_report = kind == OF_TAPE_BY_EVENT, .flags = flags}};
  if (kind >= OF_TAPE) return tell_events(&of_tape, ticks, n);
  ctx.params = kind == OF_DEPTH ? (const void *)&of_depth : &of_book;
  return (kind == OF_DEPTH ? sd_handle_depth : sd_handle_book_top)(rows, ticks, n, &ctx) == n;
}

static void *create(int kind, uint64_t symbols) {
  const sd_trade_rules rules = {.fills_report = kind == OF_TAPE_BY_EVENT, .flags = flags};
  if (kind == OF_DEPTH) return sd_depths_create(space, symbols);
  if (kind >= OF_TAPE) return sd_tape_create(space, symbols, &rules);
  return sd_books_create(space, symbols, 0, kind == OF_PUBLISHERS, TOP);
}

/* Writes what the halves of the ticks led to; returns how many bytes that is, or why there is nothing. */
int64_t moved_memory(int kind, int moves, uint64_t symbols, const sd_tick *ticks, int64_t n, unsigned char *to,
                     uint64_t bytes) {
  said = 0;
  answers = to;
  room = bytes;
  memset(rows, 0, sizeof rows);
  if (sd_space_create(0, 0, &space)) return NO_ROOM;
  void *subject = create(kind, symbols);
  const sd_hash_key key = sd_book_key;
  int code = feed(kind, subject, ticks, n / 2) ? 0 : NOT_HANDLED;
  if (moves) {
    const uint64_t at = sd_space_offset(space, subject);
    sd_space *moved = copy_of(space);
    if (!moved) return NO_ROOM;
    if (!code && has_address()) code = HAS_ADDRESS;
    sd_space_destroy(space);
    space = moved;
    subject = sd_space_at(space, at);
    mprotect(space->base, space->reserved, PROT_READ);
    sd_book_key = (sd_hash_key){~key.mask, 1};
  }
  ask(kind, subject, symbols);
  sd_book_key = key;
  if (moves) mprotect(space->base, space->reserved, PROT_READ | PROT_WRITE);
  if (!code && !feed(kind, subject, ticks + n / 2, n - n / 2)) code = NOT_HANDLED;
  ask(kind, subject, symbols);
  sd_space_destroy(space);
  return code ? code : said > room ? NO_ROOM : (int64_t)said;
}
