/* What the targets of files in blocks share: a reader that takes ticks in turn or in blocks, and what it has seen. */
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "codec/decoder.h"
#include "fuzz.h"

enum { MAX_TICKS = 4096, KEYS = 65536, HOMES = 2, SLOTS = 16 };

/* Of base/clock.c, which is not built in: its readings are of no interest here. */
sd_clock sd_the_clock;

typedef struct reader {
  sd_seen seen;
  int64_t counts[KEYS];
  sd_tick ticks[2 * MAX_TICKS];
  uint64_t n, limit;
} reader;

static void restart_reader(reader *r, uint64_t limit) {
  memset(r->counts, 0, sizeof r->counts);
  r->seen = (sd_seen){0};
  r->n = 0;
  r->limit = limit;
}

static void compare_readers(const reader *one, const reader *other) {
  REQUIRE(one->n == other->n);
  REQUIRE(memcmp(one->ticks, other->ticks, one->n * sizeof(sd_tick)) == 0);
  REQUIRE(memcmp(&one->seen, &other->seen, sizeof one->seen) == 0);
  REQUIRE(memcmp(one->counts, other->counts, sizeof one->counts) == 0);
}

/* A file of these bytes. */
static int file_of(const uint8_t *data, size_t size) {
  const int fd = memfd_create("day", MFD_CLOEXEC);
  REQUIRE(fd >= 0 && write(fd, data, size) == (ssize_t)size);
  return fd;
}

/* Decodes stream[*offset .. end), by a decoder that needs room for `most` ticks. Returns the code. */
static int take_in_turn(reader *r, sd_decode *decode, void *decoder, const uint64_t *offset, const uint8_t *stream,
                        size_t end, int last, uint64_t most) {
  while (r->n < r->limit) {
    const uint64_t left = r->limit - r->n;
    sd_decoded did = decode(decoder, stream + *offset, end - *offset, last, r->ticks + r->n, left + most - 1);
    if (did.made > left) did.made = left;
    sd_count_by_symbol(r->ticks + r->n, did.made, r->counts, KEYS, &r->seen);
    r->n += did.made;
    if (did.code != SD_OK || !did.made) return did.code;
  }
  return SD_OK;
}

/* The ticks of an adopted block, from the lists of its homes, in their order. */
static void gather_all(reader *r, const sd_block_source *source, const sd_file_part *part, const sd_block *b) {
  static sd_tick of[HOMES][MAX_TICKS];
  const sd_block_entry *entry[HOMES];
  uint32_t at[HOMES] = {0}, n = 0;
  for (uint32_t h = 0; h < HOMES; h++) {
    entry[h] = b->lists + (size_t)h * b->room;
    source->gather(part, b, entry[h], b->n[h], b->n[h], (unsigned char *)of[h]);
    for (uint32_t i = 0; i < b->n[h]; i++)
      REQUIRE(of[h][i].instrument_id == entry[h][i].key && entry[h][i].key % HOMES == h);
  }
  for (;;) {
    uint32_t next = HOMES;
    for (uint32_t h = 0; h < HOMES; h++)
      if (at[h] < b->n[h] && (next == HOMES || entry[h][at[h]].place < entry[next][at[next]].place)) next = h;
    if (next == HOMES) break;
    REQUIRE(r->n < r->limit);
    REQUIRE(sd_block_number(source, b, entry[next][at[next]].place) == n++);
    r->ticks[r->n] = of[next][at[next]++];
    r->counts[r->ticks[r->n++].instrument_id]++;
  }
}

/* Makes all blocks, and then adopts those that fit, as threads may do that are far ahead. Returns how many bytes were passed. */
static uint64_t take_in_blocks(reader *r, sd_open_blocks *open, void *decoder, const uint64_t *offset, int fd,
                               int guesses) {
  static sd_block slots[SLOTS];
  static uint8_t home_of[KEYS];
  const uint64_t before = *offset;
  sd_file_part part = {.decoder = decoder,
                       .fd = fd,
                       .n_counts = KEYS,
                       .limit = r->limit - r->n,
                       .until = INT64_MAX,
                       .seen = &r->seen,
                       .numbered = 1};
  sd_block_source source;
  if (r->n == r->limit || !open(&part, &source)) return 0;
  REQUIRE(source.n_blocks <= SLOTS && source.keys <= KEYS);
  /* Once: it would take most of the time. */
  if (!home_of[1])
    for (uint32_t key = 0; key < KEYS; key++) home_of[key] = key % HOMES;
  uint64_t adopted = 0;
  for (uint64_t number = 0; number < source.n_blocks; number++) {
    /* Allocations of their own size, so that the sanitizer sees one byte too many. */
    sd_block *b = &slots[number];
    *b = (sd_block){.number = number, .room = source.most};
    b->bytes = malloc(source.slot_bytes);
    b->lists = malloc((size_t)HOMES * source.most * sizeof *b->lists);
    if (guesses || number == 0) source.make(&part, number, b, number == 0, home_of);
    else b->begin = UINT64_MAX; /* a guess that found nothing */
  }
  for (; adopted < source.n_blocks && source.adopt(&part, adopted, &slots[adopted], home_of); adopted++)
    gather_all(r, &source, &part, &slots[adopted]);
  for (uint64_t number = 0; number < source.n_blocks; number++) {
    free(slots[number].bytes);
    free(slots[number].lists);
  }
  REQUIRE((*offset > before) == (adopted > 0) && part.blocks == adopted);
  return *offset - before;
}

/* Reads what is left of the input in turn and, with another reader, in blocks where it can be: the codes and what was seen agree. A target
 * defines a type with a reader `of`, restart, in_turn and, of that type, its decoder's field. */
#define READ_BOTH(whole, blocked, decoder, open) \
  do { \
    const uint32_t how = data[0]; \
    const uint64_t limit = data[1] == 255 ? MAX_TICKS : data[1] + 1u, some = 1 + data[2] * 4u; \
    data += 3; \
    size -= 3; \
    restart(&whole, how, limit); \
    restart(&blocked, how, limit); \
    const int code = in_turn(&whole, data, size, 1); \
    const int fd = file_of(data, size); \
    const uint64_t *offset = &blocked.decoder.offset; \
    int found = SD_OK; \
    for (uint64_t end = some; found == SD_OK && end < size;) { \
      if (take_in_blocks(&blocked.of, open, &blocked.decoder, offset, fd, how >> 1 & 1)) continue; \
      if (end < *offset) end = *offset; \
      end = end + some < size ? end + some : size; \
      found = in_turn(&blocked, data, end, 0); \
    } \
    close(fd); \
    if (found == SD_OK) found = in_turn(&blocked, data, size, 1); \
    REQUIRE(found == code); \
    compare_readers(&whole.of, &blocked.of); \
  } while (0)
