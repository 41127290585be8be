/* Columns of ticks and of bytes, whatever numbers are in them: nothing is read or written outside them, and
 * each row is what one says of it who does them one by one.
 *
 * The input's first 32 bytes choose: the tick that the others are like, the number of the first, the byte that is counted.
 * The rest is the columns.
 *
 * fuzz-sources: codec/text/columns.c */
#include "codec/text/columns.h"

#include "fuzz.h"

enum { HEAD = 32, ROW = 2 * sizeof(int64_t) + sizeof(uint32_t) };

/* An allocation of its very size, so that the sanitizer sees one byte too many. */
static void *copy_of(const void *from, size_t size) {
  void *to = malloc(size ? size : 1);
  REQUIRE(to);
  if (size) memcpy(to, from, size);
  return to;
}

static void ticks_are_what_their_columns_say(const uint8_t *head, uint64_t rows, const int64_t *events,
                                             const int64_t *receipts, const uint32_t *names) {
  sd_tick blank;
  for (size_t at = 0; at < sizeof blank; at++) ((uint8_t *)&blank)[at] = head[at % HEAD];
  uint64_t first;
  memcpy(&first, head, sizeof first);
  sd_tick *ticks = malloc(rows * sizeof *ticks + 1);
  REQUIRE(ticks);
  sd_blank_ticks(ticks, rows, &blank, first, events, receipts, names);
  for (uint64_t i = 0; i < rows; i++) {
    sd_tick expected = blank;
    sd_set_sequence(&expected, first + i);
    expected.ts_recv = receipts[i];
    expected.ts_event = events[i] ? events[i] : receipts[i];
    if (names) expected.instrument_id = names[i];
    REQUIRE(memcmp(&ticks[i], &expected, sizeof expected) == 0);
  }
  free(ticks);
}

static void bytes_are_counted(const uint8_t *bytes, uint64_t count, uint8_t byte) {
  uint64_t found = 0;
  for (uint64_t i = 0; i < count; i++) found += bytes[i] == byte;
  REQUIRE(sd_count_byte(bytes, count, byte) == found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < HEAD) return 0;
  uint8_t *rest = copy_of(data + HEAD, size - HEAD);
  uint64_t rows = (size - HEAD) / ROW;
  int64_t *events = copy_of(rest, rows * sizeof *events);
  int64_t *receipts = copy_of(rest + rows * sizeof *events, rows * sizeof *receipts);
  uint32_t *names = copy_of(rest + 2 * rows * sizeof *events, rows * sizeof *names);
  ticks_are_what_their_columns_say(data, rows, events, receipts, names);
  ticks_are_what_their_columns_say(data, rows, events, receipts, NULL);
  bytes_are_counted(rest, size - HEAD, data[17]);
  free(names);
  free(receipts);
  free(events);
  free(rest);
  return 0;
}
