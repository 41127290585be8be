/* Any bytes as DBN records, taken as fuzz_decoder.h says.
 *
 * fuzz-sources: codec/dbn/dbn.c codec/dbn/instruments.c
 *
 * The input's first three bytes choose: skip, version, ts_out and levels; bytes a call; ticks a call. The rest is the
 * stream. */
#include "codec/dbn/dbn.h"

#include "fuzz_decoder.h"

enum { LARGEST_INPUT = 4096 };

_Static_assert(LARGEST_INPUT / SD_DBN_HEADER * SD_DBN_MAX_TICKS <= MAX_TICKS, "any input's ticks fit");

/* What a caller does with an instrument it has not heard of: every third one is unwanted, the others last a day. */
static void answer(const sd_dbn *dbn) {
  uint64_t day = UINT64_C(86400000000000);
  uint64_t first = dbn->fault_time - dbn->fault_time % day;
  uint64_t last = first > UINT64_MAX - day ? UINT64_MAX : first + day - 1;
  uint32_t key = dbn->fault_instrument % 3 ? dbn->fault_instrument % 1000 : SD_DBN_UNWANTED;
  REQUIRE(sd_dbn_instruments_add(dbn->instruments, dbn->fault_instrument, first, last, key) == SD_OK);
}

static void check(void *self, int code, uint64_t begin) {
  const sd_dbn *dbn = self;
  REQUIRE(dbn->offset == begin);
  if (code == SD_AGAIN) {
    if (dbn->fault == SD_DBN_STOP_INSTRUMENT) answer(dbn);
    else REQUIRE(dbn->fault == SD_DBN_STOP_MAPPING && dbn->fault_length <= begin);
  } else if (code != SD_OK) {
    REQUIRE(dbn->fault != SD_DBN_FAULT_NONE && dbn->fault_offset == begin);
  }
}

static const fuzz_decoder DECODER = {sd_dbn_decode, check, SD_DBN_MAX_RECORD - 1, SD_DBN_MAX_TICKS};

static void start(sd_dbn *dbn, uint8_t choice) {
  sd_dbn_init(dbn, 1 + (choice >> 1 & 3) % 3, sd_dbn_instruments_create());
  REQUIRE(dbn->instruments);
  dbn->skip = choice & 1;
  dbn->tail = choice & 8 ? 8 : 0;
  dbn->levels = 1 + (choice >> 4) % SD_DBN_LEVELS;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static sd_dbn whole;
  static sd_dbn pieces;
  if (size < 3 || size > LARGEST_INPUT) return 0;
  start(&whole, data[0]);
  start(&pieces, data[0]);
  take_both(&DECODER, &whole, &pieces, data, size, MAX_TICKS);
  REQUIRE(whole.records == pieces.records);
  REQUIRE(whole.not_selected == pieces.not_selected && whole.fault == pieces.fault);
  REQUIRE(memcmp(whole.counts, pieces.counts, sizeof whole.counts) == 0);
  REQUIRE(memcmp(whole.skips, pieces.skips, sizeof whole.skips) == 0);
  uint64_t counted = 0;
  for (int i = 0; i < 256; i++) counted += whole.counts[i];
  for (int i = 0; i < SD_DBN_FAULTS; i++) counted += whole.skips[i];
  REQUIRE(counted == whole.records);
  sd_dbn_instruments_destroy(whole.instruments);
  sd_dbn_instruments_destroy(pieces.instruments);
  return 0;
}
