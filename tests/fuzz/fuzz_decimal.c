/* Any text cut into any fields: the columns read nothing outside their bytes, write nothing outside their targets, note
 * a fault for each row they count one of, and say the same of a row alone as in its column.
 *
 * fuzz-sources: codec/text/columns.c codec/text/decimal.c codec/text/names.c
 *
 * The input's first four bytes choose: form, scale, what is allowed, bytes a field. The rest is the fields. */
#include "codec/text/columns.h"
#include "codec/text/decimal.h"
#include "codec/text/names.h"

#include "fuzz.h"

enum { MAX_ROWS = 512, STRIDE = 24 };

static uint64_t noted(const uint16_t *faults, uint64_t count) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < count; i++) {
    REQUIRE(faults[i] == 0 || (faults[i] >> 8 == 9 && (faults[i] & 0xff) <= SD_FAULT_NAMES));
    n += faults[i] != 0;
  }
  return n;
}

/* Lines that are split have the same number of fields each, which end where a delimiter or the line does; others are not split. */
static void split(const uint8_t *bytes, size_t size, uint32_t columns, int odd) {
  const uint64_t room = size + 128;
  int32_t *ends = malloc(room * sizeof *ends);
  int spaced;
  const uint64_t lines = sd_split(bytes, size, ',', columns, ends, room, &spaced);
  uint64_t found = 0, fields = 0;
  int even = size != 0 && !odd;
  for (size_t at = 0; at < size && even; at++) {
    const int ends_line = bytes[at] == '\n';
    if (!ends_line && bytes[at] != ',' && at + 1 < size) continue;
    if (bytes[at] == ',' || ends_line) fields++, found++;
    if (lines && (bytes[at] == ',' || ends_line)) REQUIRE(ends[found] == (int32_t)at);
    const int ends_text = at + 1 == size && !ends_line;
    if (ends_text) fields++, found++;
    if (lines && ends_text) REQUIRE(ends[found] == (int32_t)size);
    if (!ends_line && !ends_text) continue;
    even = fields == columns;
    fields = 0;
  }
  REQUIRE((lines != 0) == even);
  REQUIRE(!lines || (lines == found / columns && spaced == (memchr(bytes, ' ', size) != NULL)));
  free(ends);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 4) return 0;
  sd_number_rule rule = {.lowest = INT64_MIN, .highest = INT64_MAX, .form = data[0] % 8};
  rule.scale = rule.form == SD_FORM_DECIMAL ? data[1] % 55 - 27 : data[1] % 10;
  rule.allow_empty = data[2] & 1;
  rule.hash = data[2] >> 1 & 1;
  rule.zone = (data[2] >> 3) % 3;
  if (data[2] & 4) rule.lowest = 0;
  size_t most = data[3] % 40 + 1;
  data += 4;
  size -= 4;
  /* An allocation of its very size, so that the sanitizer sees one byte too many. A field ends at a comma. */
  uint8_t *bytes = malloc(size ? size : 1);
  memcpy(bytes, data, size);
  int32_t offsets[MAX_ROWS + 1] = {0};
  uint64_t rows = 0;
  for (size_t at = 0; at < size && rows < MAX_ROWS;) {
    size_t begin = at;
    while (at < size && at - begin < most && bytes[at] != ',') at++;
    if (at == begin) at++;
    offsets[++rows] = (int32_t)at;
  }
  int odd;
  uint64_t ends = 0;
  int others = 0;
  for (size_t at = 0; at < size; at++) {
    ends += bytes[at] == '\n';
    others |= bytes[at] == '"' || bytes[at] == '\r';
  }
  REQUIRE(sd_line_ends(bytes, size, &odd) == ends && odd == others);
  split(bytes, size, (uint32_t)most % 4 + 2, odd);
  uint32_t chosen[MAX_ROWS];
  for (uint64_t i = 0; i < rows; i++) chosen[i] = (uint32_t)(rows - 1 - i);
  uint8_t *out = calloc(rows + 1, STRIDE);
  uint16_t *faults = calloc(rows + 1, sizeof *faults);
  sd_cells cells = {.begins = offsets, .ends = offsets + 1, .stride = 1, .bytes = bytes, .count = rows};
  sd_target target = {out, STRIDE, 8};
  REQUIRE(sd_numbers(&cells, &rule, 9, &target, faults) == noted(faults, rows));
  for (uint64_t i = 0; i < rows; i++) {
    int64_t alone = 0;
    int64_t together;
    int fault = sd_number(bytes + offsets[i], (uint64_t)(offsets[i + 1] - offsets[i]), &rule, &alone);
    memcpy(&together, out + i * STRIDE, sizeof together);
    REQUIRE((faults[i] & 0xff) == fault);
    REQUIRE(fault || together == alone);
    REQUIRE(!fault || together == 0);
    const int whole = rule.form == SD_FORM_ID || rule.form == SD_FORM_HEX;
    REQUIRE(fault || whole || together >= rule.lowest || rule.allow_empty);
  }
  sd_letter table[3] = {{"buy", 3, {1, 4}}, {"sell", 4, {2, -1}}, {"", 0, {3, 6}}};
  int32_t otherwise[2] = {rule.hash ? 7 : -1, 8};
  memset(faults, 0, rows * sizeof *faults);
  cells.rows = chosen;
  target.width = 1;
  sd_target both[2] = {target, target};
  both[1].out += 1;
  REQUIRE(sd_letters(&cells, table, 3, otherwise, 9, both, 1 + rule.allow_empty, faults) == noted(faults, rows));
  sd_names *names = sd_names_new(64);
  REQUIRE(names);
  memset(faults, 0, rows * sizeof *faults);
  cells.rows = NULL;
  target.width = 4;
  REQUIRE(sd_names_find(names, &cells, 1, 9, &target, faults) == noted(faults, rows));
  REQUIRE(sd_names_count(names) <= 64);
  for (uint64_t i = 0; i < rows; i++) {
    if (faults[i]) continue;
    uint32_t index;
    uint32_t length;
    memcpy(&index, out + i * STRIDE, sizeof index);
    REQUIRE(index < sd_names_count(names));
    const uint8_t *name = sd_names_get(names, index, &length);
    const uint8_t *text = bytes + offsets[i];
    while (*text == ' ') text++;
    REQUIRE(length > 0 && length <= SD_NAME_BYTES && memcmp(name, text, length) == 0);
  }
  sd_names_free(names);
  free(faults);
  free(out);
  free(bytes);
  return 0;
}
