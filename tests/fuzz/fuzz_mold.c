/* Packets of any kind on three lines, in any order and at any time, with little room for what comes out: nothing is
 * read or written outside its bounds, what is delivered comes once, in order and as it was sent, and every message up to
 * the next one is either delivered or listed as given up.
 *
 * The input's first four bytes choose options; then come operations of three bytes and, for raw packets, their bytes.
 * fuzz-sources: base/clock.c */

/* Small enough for a short input to use them up. */
#define SD_MOLD_WINDOW_LOG2 12
#define SD_MOLD_HELD_PACKETS_LOG2 3

#include "live/mold_deliver.c"
#include "live/mold_look.c"
#include "live/mold_take.c"

#include "fuzz.h"

enum { OUT_BYTES = 9216 + 100, RUNS = 3, OPERATION = 3, ROUNDS = 100000 };

typedef struct harness {
  sd_mold *m;
  uint8_t *out;
  sd_mold_run *runs;
  uint64_t delivered;
  uint64_t last_sequence;
  uint64_t now_ns;
  int any_raw; /* then messages do not say which ones they are */
} harness;

static void check_gaps(const sd_mold *m, int line) {
  uint64_t count;
  const sd_range *gaps = sd_mold_gaps(m, line, &count);
  for (uint64_t i = 0; i < count; i++) {
    REQUIRE(gaps[i].from < gaps[i].to);
    REQUIRE(i == 0 || gaps[i - 1].to < gaps[i].from);
  }
}

static void check_output(harness *h) {
  uint64_t bytes = sd_mold_out_bytes(h->m);
  uint64_t runs = sd_mold_out_runs(h->m);
  uint64_t at = 0;
  uint64_t run = 0;
  REQUIRE(bytes <= OUT_BYTES && runs <= RUNS && (runs > 0) == (bytes > 0));
  REQUIRE(runs == 0 || h->runs[0].position == h->delivered + 1);
  while (at < bytes) {
    REQUIRE(bytes - at >= 2);
    uint64_t len = sd_be16(h->out + at);
    REQUIRE(len > 0 && len <= bytes - at - 2);
    h->delivered++;
    while (run + 1 < runs && h->runs[run + 1].position <= h->delivered) run++;
    uint64_t sequence = h->runs[run].sequence + (h->delivered - h->runs[run].position);
    REQUIRE(sequence > h->last_sequence);
    h->last_sequence = sequence;
    if (!h->any_raw && len >= 2) REQUIRE(sd_be16(h->out + at + 2) == (sequence & 0xFFFF));
    at += 2 + len;
  }
}

static void check_counts(const harness *h) {
  const sd_mold_counts *c = sd_mold_look(h->m);
  uint64_t first = 0;
  REQUIRE(c->delivered == h->delivered);
  if (c->started) REQUIRE(c->first_sequence + c->delivered + c->gap_messages == c->next_sequence);
  for (int i = 0; i < SD_MOLD_LINES; i++) {
    const sd_mold_line *line = &c->line[i];
    REQUIRE(line->messages == line->first + line->duplicates + line->late + line->unwanted);
    first += line->first;
    check_gaps(h->m, i);
  }
  check_gaps(h->m, -1);
  REQUIRE(first == c->delivered + c->held);
  REQUIRE(c->held <= SD_MOLD_WINDOW && h->m->free_count <= SD_MOLD_HELD_PACKETS);
  REQUIRE((c->held > 0) == (h->m->free_count < SD_MOLD_HELD_PACKETS));
}

/* A packet whose messages say which ones they are. Its length. */
static uint64_t compose(uint8_t *packet, uint64_t sequence, uint32_t count, uint32_t kind) {
  uint64_t len = SD_MOLD_HEADER;
  sd_mold_write_header(packet, (const uint8_t *)(kind & 1 ? "ANOTHER   " : "SESSION   "), sequence,
                       kind & 2 ? SD_MOLD_END : count);
  if (kind & 2) return len;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t body = 2 + ((kind >> 2) & 3) * 20;
    if (len + 2 + body > SD_MOLD_PACKET) return len; /* one that says more than it has */
    packet[len] = 0;
    packet[len + 1] = (uint8_t)body;
    memset(packet + len + 2, 0x55, body);
    packet[len + 2] = (uint8_t)((sequence + i) >> 8);
    packet[len + 3] = (uint8_t)(sequence + i);
    len += 2 + body;
  }
  return len;
}

/* An allocation of its own size, so that the sanitizer sees one byte too many. */
static void take(harness *h, int line, const uint8_t *bytes, uint64_t len) {
  uint8_t *packet = malloc(len ? len : 1);
  if (len) memcpy(packet, bytes, len);
  sd_mold_take(h->m, line, packet, len, h->now_ns, h->now_ns);
  free(packet);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static uint8_t packet[SD_MOLD_PACKET];
  if (size < 4) return 0;
  sd_mold_options options = {.first_sequence = data[0] & 1 ? (uint64_t)data[1] * data[1] : 0,
                             .message_limit = data[0] & 2 ? data[2] : 0,
                             .gap_timeout_ns = data[3],
                             .request_after_ns = 1,
                             .jump_window = data[0] & 0x20 ? data[3] : UINT64_C(1) << 32,
                             .stop_at_gap = data[0] >> 2 & 1,
                             .any_session = data[0] >> 3 & 1};
  uint64_t base = data[0] & 0x10 ? SD_MOLD_SEQUENCE_MAX - 4096 : 1;
  if (base > 1 && options.first_sequence) options.first_sequence = base + data[1];
  memcpy(options.session, "SESSION   ", SD_MOLD_SESSION);
  harness h = {.m = sd_mold_make(&options), .out = malloc(OUT_BYTES), .runs = malloc(RUNS * sizeof(sd_mold_run))};
  REQUIRE(h.m && h.out && h.runs);
  uint64_t sequence = base;
  data += 4;
  size -= 4;
  while (size >= OPERATION) {
    uint32_t kind = data[0];
    int line = kind % SD_MOLD_LINES;
    uint32_t operation = kind >> 2 & 7;
    uint32_t a = data[1];
    uint32_t b = data[2];
    data += OPERATION;
    size -= OPERATION;
    sd_mold_output(h.m, h.out, OUT_BYTES, h.runs, RUNS, h.now_ns);
    if (operation == 0) {
      h.now_ns += a;
      sd_mold_tick(h.m, h.now_ns);
    } else if (operation == 1) {
      uint64_t len = a | (b & 15u) << 8;
      if (len > size) len = size;
      h.any_raw = 1;
      take(&h, line, data, len);
      data += len;
      size -= len;
    } else if (operation == 2) {
      sequence += (uint64_t)a << (b & 31); /* leaps */
    } else {
      /* Around the sequence at hand, which goes on with what was sent. */
      uint64_t from = sequence + (operation & 1 ? 0 : a) - (operation == 6 ? b : 0);
      take(&h, line, packet, compose(packet, from, b >> 1, kind >> 5 | (operation == 5 ? 4u : 0)));
      if (operation & 1) sequence += b >> 1;
    }
    check_output(&h);
    sd_range holes[4];
    uint64_t count = sd_mold_holes(h.m, h.now_ns + 1, holes, 4);
    for (uint64_t i = 0; i < count; i++) REQUIRE(holes[i].from < holes[i].to && holes[i].to <= h.m->counts.high);
    check_counts(&h);
  }
  int code = SD_AGAIN;
  for (int round = 0; code != SD_OK; round++) {
    REQUIRE(round < ROUNDS);
    sd_mold_output(h.m, h.out, OUT_BYTES, h.runs, RUNS, h.now_ns);
    code = sd_mold_finish(h.m);
    check_output(&h);
    check_counts(&h);
  }
  sd_mold_unmake(h.m);
  free(h.out);
  free(h.runs);
  return 0;
}
