/* Columns of bytes: nothing is read outside them, and a count is what one finds who counts them one by one.
 *
 * The input's first byte is the one that is counted. The rest is the column.
 *
 * fuzz-sources: codec/text/columns.c */
#include "codec/text/columns.h"

#include "fuzz.h"

enum { HEAD = 1 };

/* An allocation of its very size, so that the sanitizer sees one byte too many. */
static void *copy_of(const void *from, size_t size) {
  void *to = malloc(size ? size : 1);
  REQUIRE(to);
  if (size) memcpy(to, from, size);
  return to;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < HEAD) return 0;
  const uint64_t count = size - HEAD;
  uint8_t *bytes = copy_of(data + HEAD, count);
  uint64_t found = 0, ends = 0;
  int odd = 0, told = 0;
  for (uint64_t i = 0; i < count; i++) {
    found += bytes[i] == data[0];
    ends += bytes[i] == '\n';
    odd |= bytes[i] == '\r' || bytes[i] == '"';
  }
  REQUIRE(sd_count_byte(bytes, count, data[0]) == found);
  REQUIRE(sd_line_ends(bytes, count, &told) == ends && !told == !odd);
  free(bytes);
  return 0;
}
