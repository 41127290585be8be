/* Any bytes as a DBN file that is read in blocks where it can be, and in turn elsewhere: the same ticks, state, fault and counts as in
 * turn.
 *
 * The input's first three bytes choose: skip, whether blocks are guessed, version, ts_out and a span of time; ticks in all; bytes in turn
 * after a block that is odd. The rest is the file.
 *
 * fuzz-sources: codec/blocks.c codec/dbn/dbn.c codec/dbn/instruments.c codec/count_by_symbol.c */
#define _GNU_SOURCE
#define SD_DBN_BLOCK_BITS 9
#include "codec/dbn/blocks.c"

#include "codec/dbn/dbn.h"

#include "fuzz_blocks.h"

/* A reader of the file, and what it has seen. */
typedef struct dbn_reader {
  sd_dbn dbn;
  reader of;
} dbn_reader;

static void restart(dbn_reader *r, uint32_t how, uint64_t limit) {
  restart_reader(&r->of, limit);
  sd_dbn_init(&r->dbn, 1 + (how >> 2 & 3) % 3, sd_dbn_instruments_create());
  REQUIRE(r->dbn.instruments);
  r->dbn.skip = how & 1;
  r->dbn.tail = how & 16 ? 8 : 0;
  r->dbn.levels = how & 32 ? SD_DBN_LEVELS : 1;
  if (how & 64) r->dbn.last_ns = UINT64_C(1) << 60;
  /* A name that goes over from one instrument to another, as the metadata may say. */
  REQUIRE(sd_dbn_instruments_add(r->dbn.instruments, 40, 0, 30, 5) == SD_OK);
  REQUIRE(sd_dbn_instruments_add(r->dbn.instruments, 41, 31, UINT64_MAX, 5) == SD_OK);
}

/* Every fourth instrument is unwanted; pairs of the others have a name in common, on days in turn or at one time. */
static void answer(sd_dbn *dbn) {
  if (dbn->fault != SD_DBN_STOP_INSTRUMENT) return;
  const uint64_t day = UINT64_C(86400000000000), first = dbn->fault_time - dbn->fault_time % day;
  const uint64_t last = first > UINT64_MAX - day ? UINT64_MAX : first + day - 1;
  const uint32_t id = dbn->fault_instrument, key = id % 4 ? id / 2 % 50 : SD_DBN_UNWANTED;
  REQUIRE(sd_dbn_instruments_add(dbn->instruments, id, id % 8 < 4 ? 0 : first, id % 8 < 4 ? UINT64_MAX : last, key) ==
          SD_OK);
}

static int in_turn(dbn_reader *r, const uint8_t *stream, size_t end, int last) {
  for (;;) {
    const int code = take_in_turn(&r->of, sd_dbn_decode, &r->dbn, &r->dbn.offset, stream, end, last, SD_DBN_MAX_TICKS);
    r->dbn.sampled = 0;
    if (code != SD_AGAIN) return code;
    answer(&r->dbn);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static dbn_reader whole, blocked;
  if (size < 3 || size > BYTES * SLOTS || size / SD_DBN_HEADER * SD_DBN_MAX_TICKS >= MAX_TICKS) return 0;
  READ_BOTH(whole, blocked, dbn, sd_dbn_open_blocks);
  sd_dbn_instruments_destroy(whole.dbn.instruments);
  sd_dbn_instruments_destroy(blocked.dbn.instruments);
  whole.dbn.instruments = blocked.dbn.instruments = NULL;
  /* A record that is out of step is refused by its first byte; the next one may not be there yet. */
  if (whole.dbn.fault == SD_DBN_FAULT_OUT_OF_STEP) blocked.dbn.fault_type = whole.dbn.fault_type;
  REQUIRE(memcmp(&whole.dbn, &blocked.dbn, sizeof whole.dbn) == 0);
  return 0;
}
