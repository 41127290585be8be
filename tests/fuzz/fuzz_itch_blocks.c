/* Any bytes as a file that is read in blocks where it can be, and in turn elsewhere: the same ticks, state, fault and counts as in turn.
 *
 * The input's first three bytes choose: skip and whether blocks are guessed, ticks in all, bytes in turn after a block that is odd. The
 * rest is the file.
 *
 * fuzz-sources: codec/itch/itch.c codec/itch/rare.c codec/itch/skim.c codec/itch/stripe.c codec/itch/sync.c codec/count_by_symbol.c */
#define _GNU_SOURCE
#define SD_ITCH_BLOCK_BITS 9
#include "codec/itch/blocks.c"

#include "codec/itch/itch.h"

#include <sys/mman.h>

#include "fuzz.h"

enum { MAX_TICKS = 4096, MIN_FRAME = 14, HOMES = 2, SLOTS = 16 };

/* A reader of the file, and what it has seen. */
typedef struct reader {
  sd_itch itch;
  sd_seen seen;
  int64_t counts[SD_ITCH_LOCATES];
  sd_tick ticks[MAX_TICKS];
  uint64_t n, limit;
} reader;

/* Of base/clock.c, which is not built in: its readings are of no interest here. */
sd_clock sd_the_clock;

static void restart(reader *r, uint32_t skip, uint64_t limit) {
  memset(r->itch.symbols, 0, (size_t)r->itch.symbol_count * SD_ITCH_SYMBOL_BYTES);
  memset(r->counts, 0, sizeof r->counts);
  r->seen = (sd_seen){0};
  r->n = 0;
  r->limit = limit;
  sd_itch_init(&r->itch, 1, skip & 1);
}

/* Decodes stream[offset .. end). Returns the code. */
static int in_turn(reader *r, const uint8_t *stream, size_t end, int last) {
  sd_itch *itch = &r->itch;
  while (r->n < r->limit) {
    const sd_decoded did =
        sd_itch_decode(itch, stream + itch->offset, end - itch->offset, last, r->ticks + r->n, r->limit - r->n);
    sd_count_by_symbol(r->ticks + r->n, did.made, r->counts, SD_ITCH_LOCATES, &r->seen);
    r->n += did.made;
    itch->sampled = 0;
    if (did.code != SD_OK || !did.made) return did.code;
  }
  return SD_OK;
}

/* The ticks of an adopted block, from the lists of its homes, in their order. */
static void gather_all(reader *r, const sd_file_part *part, const sd_block *b, sd_tick of[HOMES][MAX_TICKS]) {
  uint32_t at[HOMES] = {0};
  const uint64_t from = r->n;
  for (uint32_t h = 0; h < HOMES; h++) {
    const sd_block_entry *entry = b->lists + (size_t)h * b->room;
    gather(part, b, entry, b->n[h], b->n[h], (unsigned char *)of[h]);
    for (uint32_t i = 0; i < b->n[h]; i++) REQUIRE(of[h][i].instrument_id == entry[i].key && entry[i].key % HOMES == h);
  }
  for (;;) {
    uint32_t next = HOMES;
    for (uint32_t h = 0; h < HOMES; h++)
      if (at[h] < b->n[h] && (next == HOMES || sd_sequence(&of[h][at[h]]) < sd_sequence(&of[next][at[next]]))) next = h;
    if (next == HOMES) break;
    REQUIRE(r->n < r->limit);
    r->ticks[r->n++] = of[next][at[next]++];
  }
  for (uint64_t i = from; i < r->n; i++) r->counts[r->ticks[i].instrument_id]++;
}

/* Makes all blocks, and then adopts those that fit, as threads may do that are far ahead. Returns how many bytes were passed. */
static uint64_t in_blocks(reader *r, int fd, int guesses, const uint8_t *home_of) {
  static sd_block slots[SLOTS];
  static sd_tick gathered[HOMES][MAX_TICKS];
  const uint64_t before = r->itch.offset;
  sd_file_part part = {
      .decoder = &r->itch, .fd = fd, .n_counts = SD_ITCH_LOCATES, .limit = r->limit - r->n, .seen = &r->seen};
  sd_block_source source;
  if (r->n == r->limit || !sd_itch_open_blocks(&part, &source)) return 0;
  REQUIRE(source.n_blocks <= SLOTS && source.keys <= SD_ITCH_LOCATES);
  uint64_t number, made = 0, adopted = 0;
  for (number = 0; number < source.n_blocks; number++, made++) {
    /* Allocations of their own size, so that the sanitizer sees one byte too many. */
    sd_block *b = &slots[number];
    *b = (sd_block){.number = number, .room = source.most};
    b->bytes = malloc(source.slot_bytes);
    b->lists = malloc((size_t)HOMES * source.most * sizeof *b->lists);
    if (guesses || number == 0) source.make(&part, number, b, number == 0, home_of);
    else b->begin = UINT64_MAX; /* a guess that found nothing */
  }
  for (; adopted < made && source.adopt(&part, adopted, &slots[adopted], home_of); adopted++)
    gather_all(r, &part, &slots[adopted], gathered);
  for (number = 0; number < made; number++) {
    free(slots[number].bytes);
    free(slots[number].lists);
  }
  return r->itch.offset - before;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static reader whole, blocked;
  static uint8_t home_of[SD_ITCH_LOCATES];
  if (size < 3 || size > BYTES * SLOTS || 2 * (size / MIN_FRAME) >= MAX_TICKS) return 0;
  for (uint32_t key = 0; key < SD_ITCH_LOCATES; key++) home_of[key] = key % HOMES;
  const uint32_t how = data[0];
  const uint64_t limit = data[1] == 255 ? MAX_TICKS : data[1] + 1u, some = 1 + data[2] * 4u;
  data += 3;
  size -= 3;
  restart(&whole, how, limit);
  restart(&blocked, how, limit);
  const int code = in_turn(&whole, data, size, 1);

  int fd = memfd_create("day", MFD_CLOEXEC), found = SD_OK;
  REQUIRE(fd >= 0 && write(fd, data, size) == (ssize_t)size);
  for (uint64_t end = some; found == SD_OK && end < size;) {
    if (in_blocks(&blocked, fd, how >> 1 & 1, home_of)) continue;
    if (end < blocked.itch.offset) end = blocked.itch.offset;
    end = end + some < size ? end + some : size;
    found = in_turn(&blocked, data, end, 0);
  }
  close(fd);
  if (found == SD_OK) found = in_turn(&blocked, data, size, 1);

  REQUIRE(found == code && blocked.n == whole.n);
  REQUIRE(memcmp(whole.ticks, blocked.ticks, whole.n * sizeof(sd_tick)) == 0);
  REQUIRE(memcmp(&whole.seen, &blocked.seen, sizeof whole.seen) == 0);
  REQUIRE(memcmp(whole.counts, blocked.counts, sizeof whole.counts) == 0);
  memset(whole.itch.samples, 0, sizeof whole.itch.samples);
  memset(blocked.itch.samples, 0, sizeof blocked.itch.samples);
  REQUIRE(memcmp(&whole.itch, &blocked.itch, sizeof whole.itch) == 0);
  return 0;
}
