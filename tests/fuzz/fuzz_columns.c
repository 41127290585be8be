/* Columns of ticks, of sizes and of bytes, whatever numbers are in them: nothing is read or written outside them, and
 * each row is what one says of it who does them one by one.
 *
 * The input's first 32 bytes choose: the tick that the others are like, the number of the first, the unit, the flag.
 * The rest is the columns. */
#include "decode/columns.h"

#include "fuzz.h"

enum { HEAD = 32, ROW = 2 * sizeof(int64_t) + sizeof(uint32_t), STRIDE = 24, FLAGS_AT = 9 };

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

static void sizes_are_whole_units(const uint8_t *head, uint64_t rows, const int64_t *amounts) {
  int64_t unit;
  memcpy(&unit, head + 8, sizeof unit);
  unit = unit > 0 ? unit : 1;
  uint8_t flag = head[16];
  /* The last row's flags are the allocation's last byte. */
  size_t bytes = rows ? (rows - 1) * STRIDE + FLAGS_AT + 1 : 0;
  uint8_t *records = malloc(bytes ? bytes : 1);
  REQUIRE(records);
  memset(records, 0, bytes);
  uint64_t lossy = sd_fit_sizes(amounts, rows, unit, records, records + FLAGS_AT, STRIDE, flag);
  for (uint64_t i = 0; i < rows; i++) {
    int64_t size;
    memcpy(&size, records + i * STRIDE, sizeof size);
    const int64_t amount = amounts[i] > 0 ? amounts[i] : 0;
    const int exact = amount % unit == 0;
    REQUIRE(size == amount / unit);
    REQUIRE(records[i * STRIDE + FLAGS_AT] == (exact ? 0 : flag));
    lossy -= !exact;
  }
  REQUIRE(lossy == 0);
  free(records);
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
  sizes_are_whole_units(data, rows, events);
  bytes_are_counted(rest, size - HEAD, data[17]);
  free(names);
  free(receipts);
  free(events);
  free(rest);
  return 0;
}
