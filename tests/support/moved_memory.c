/* Books, depth and tapes whose whole memory is copied to another address halfway through their ticks.
 *
 * The copy is asked while it may only be read and the process has another key for ids, as if it were another process's. Then it
 * takes the other half of the ticks. The original is all zeros by then, so what still led there would say so.
 * The pools here cut all pieces from one mapping and hold no pointers; compiled with aligned_alloc and free as below. */
#include <string.h>
#include <sys/mman.h>

#include "handlers/book_ahead.h"
#include "handlers/depth.h"
#include "handlers/tape.h"

enum { OF_BOOKS, OF_PUBLISHERS, OF_DEPTH, OF_TAPE, OF_TAPE_BY_EVENT };
enum { NOT_HANDLED = -1, HAS_ADDRESS = -2, NO_ROOM = -3 };
enum { MOST_BYTES = 256 << 20, MOST_SYMBOLS = 8, MOST_ANSWERS = 1 << 16, ANYTHING = 0xA5 };

/* ---- one mapping for all memory */

static unsigned char *memory;
static size_t used;

static unsigned char *map(void) {
  return mmap(NULL, MOST_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

void *sd_pool_take(sd_pool *pool, size_t bytes) {
  const size_t lines = (bytes + SD_LINE - 1) / SD_LINE * SD_LINE;
  if (lines > MOST_BYTES - used) return NULL;
  void *piece = memory + used;
  used += lines;
  return memset(piece, ANYTHING, bytes);
}

void *sd_pool_take_zeros(sd_pool *pool, size_t bytes) {
  void *piece = sd_pool_take(pool, bytes);
  return piece ? memset(piece, 0, bytes) : NULL;
}

void sd_pool_give(sd_pool *pool, void *piece, size_t bytes) {
  if (piece) memset(piece, ANYTHING, bytes);
}

size_t sd_pool_larger(size_t bytes) { return (bytes + bytes / 2 + SD_LINE - 1) / SD_LINE * SD_LINE; }
void sd_pools_init(sd_pools *pools) { memset(pools, 0, sizeof *pools); }
void sd_pools_destroy(sd_pools *pools) {}
void *moved_alloc(size_t alignment, size_t bytes) { return sd_pool_take(NULL, bytes); }
void moved_free(void *piece) {}

/* No word may be an address of the memory. */
static int has_address(void) {
  for (size_t at = 0; at < used; at += sizeof(uintptr_t)) {
    uintptr_t word;
    memcpy(&word, memory + at, sizeof word);
    if (word - (uintptr_t)memory < used) return 1;
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
  static sd_book_level levels[MOST_ANSWERS];
  static sd_book_order orders[MOST_ANSWERS];
  sd_book_order one;
  const sd_book_counts counts = sd_books_counts(books, symbol, place);
  say(&counts, sizeof counts);
  for (int side = 'A'; side <= 'B'; side++) {
    say(levels, sd_books_levels(books, symbol, place, side, levels, MOST_ANSWERS) * sizeof *levels);
    const uint64_t n = sd_books_orders(books, symbol, place, side, orders, MOST_ANSWERS);
    say(orders, n * sizeof *orders);
    for (uint64_t i = 0; i < n; i += 5)
      if (sd_books_order(books, symbol, place, orders[i].order_id, &one)) say(&one, sizeof one);
  }
  say_number(sd_books_order(books, symbol, place, UINT64_MAX / 3, &one));
}

static void ask_books(const sd_books *books, uint64_t symbols) {
  uint16_t ids[SD_MOST_PUBLISHERS];
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
  static sd_depth_level levels[MOST_ANSWERS];
  for (uint64_t symbol = 0; symbol < symbols; symbol++)
    for (int side = 'A'; side <= 'B'; side++)
      say(levels, sd_depths_levels(depths, symbol, side, levels, MOST_ANSWERS) * sizeof *levels);
  say_number((int64_t)sd_depths_bytes(depths));
}

static void ask(int kind, const void *subject, uint64_t symbols) {
  if (kind == OF_DEPTH) ask_depths(subject, symbols);
  else if (kind <= OF_PUBLISHERS) ask_books(subject, symbols);
}

/* ---- ticks */

static unsigned char rows[MOST_SYMBOLS][1024];

static int tell_events(sd_tape *tape, const sd_tick *ticks, int64_t n) {
  sd_context ctx = {0};
  sd_tape_ahead(tape, ticks, n);
  for (int64_t i = 0; i < n; i++) {
    sd_event e = {.clear = sd_clear_of(&ticks[i])};
    if (sd_tape_event(tape, &ticks[i], &ctx, &e)) return 0;
    say_number(e.trade.price);
    say_number(e.trade.size);
    say_number(e.trade.aggressor);
    if (e.bid || e.ask) say(&e.top, sizeof e.top);
  }
  return 1;
}

static int feed(int kind, void *subject, const sd_tick *ticks, int64_t n) {
  const sd_book_params of_book = {.books = subject, .rules.fills_report = kind == OF_PUBLISHERS};
  const sd_depth_params of_depth = {.depths = subject, .top = 5, .max_levels = 1 << 20};
  sd_context ctx = {.row_stride = sizeof rows[0]};
  if (kind >= OF_TAPE) return tell_events(subject, ticks, n);
  ctx.params = kind == OF_DEPTH ? (const void *)&of_depth : &of_book;
  return (kind == OF_DEPTH ? sd_handle_depth : sd_handle_book)(rows, ticks, n, &ctx) == n;
}

static void *create(int kind, uint64_t symbols) {
  const sd_trade_rules rules = {.fills_report = kind == OF_TAPE_BY_EVENT};
  if (kind == OF_DEPTH) return sd_depths_create(symbols);
  if (kind >= OF_TAPE) return sd_tape_create(symbols, &rules);
  return sd_books_create(symbols, 0, kind == OF_PUBLISHERS);
}

/* Writes what the halves of the ticks led to; returns how many bytes that is, or why there is nothing. */
int64_t moved_memory(int kind, int moves, uint64_t symbols, const sd_tick *ticks, int64_t n, unsigned char *to,
                     uint64_t bytes) {
  unsigned char *original = memory = map();
  used = said = 0;
  answers = to;
  room = bytes;
  memset(rows, 0, sizeof rows);
  unsigned char *subject = create(kind, symbols);
  const sd_hash_key key = sd_book_key;
  int code = feed(kind, subject, ticks, n / 2) ? 0 : NOT_HANDLED;
  if (!code && has_address()) code = HAS_ADDRESS;
  if (moves) {
    memory = map();
    memcpy(memory, original, used);
    memset(original, 0, used);
    subject = memory + (subject - original);
    mprotect(memory, MOST_BYTES, PROT_READ);
    sd_book_key = (sd_hash_key){~key.mask, 1};
  }
  ask(kind, subject, symbols);
  sd_book_key = key;
  mprotect(memory, MOST_BYTES, PROT_READ | PROT_WRITE);
  if (!code && !feed(kind, subject, ticks + n / 2, n - n / 2)) code = NOT_HANDLED;
  ask(kind, subject, symbols);
  munmap(original, MOST_BYTES);
  if (moves) munmap(memory, MOST_BYTES);
  return code ? code : said > room ? NO_ROOM : (int64_t)said;
}
