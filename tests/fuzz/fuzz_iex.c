/* Any bytes as IEX's messages, taken as fuzz_decoder.h says.
 *
 * The input's first three bytes choose: skip and selection, bytes a call, ticks a call. The rest is the stream. */
#include "codec/iex/iex.h"

#include "fuzz_decoder.h"

static void check(void *self, int code, uint64_t begin) {
  sd_iex *iex = self;
  iex->sampled = 0;
  REQUIRE(iex->offset == begin && iex->symbol_count <= SD_IEX_SYMBOLS);
  if (code == SD_AGAIN) {
    REQUIRE(iex->selective && iex->wanted[iex->asked] == SD_IEX_UNDECIDED);
    iex->wanted[iex->asked] = iex->asked % 2;
  } else if (code != SD_OK) {
    REQUIRE(!iex->skip && iex->fault.offset == begin);
  }
}

static const fuzz_decoder DECODER = {sd_iex_decode, check, SD_IEX_MAX_MESSAGE - 1, 1};

static sd_iex *begin(uint32_t how) {
  sd_iex *iex = sd_iex_new(how & 1);
  REQUIRE(iex);
  iex->selective = how >> 1 & 1;
  iex->passes = how >> 2 & 1;
  return iex;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 3 || size > MAX_TICKS) return 0;
  sd_iex *whole = begin(data[0]);
  sd_iex *pieces = begin(data[0]);
  take_both(&DECODER, whole, pieces, data, size, size / 12 + 1);
  REQUIRE(whole->messages == pieces->messages && whole->unselected == pieces->unselected);
  REQUIRE(whole->grown == pieces->grown && whole->symbol_count == pieces->symbol_count);
  REQUIRE(memcmp(whole->skips, pieces->skips, sizeof whole->skips) == 0);
  REQUIRE(memcmp(whole->counts, pieces->counts, sizeof whole->counts) == 0);
  REQUIRE(memcmp(whole->symbols, pieces->symbols, (size_t)whole->symbol_count * SD_IEX_SYMBOL_BYTES) == 0);
  sd_iex_free(whole);
  sd_iex_free(pieces);
  return 0;
}
