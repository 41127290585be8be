/* Any bytes as a capture, taken as fuzz_decoder.h says.
 *
 * The input's first three bytes choose: skip, how much is held, and the transport, bytes a call, ticks a call. The rest is the capture.
 *
 * fuzz-sources: codec/pcap/pcap.c codec/pcap/record.c codec/iex/iex.c codec/itch/itch.c codec/itch/rare.c codec/itch/sync.c codec/itch/skim.c */
#include "codec/pcap/pcap.h"

#include "fuzz_decoder.h"

static void check(void *self, int code, uint64_t begin) {
  sd_pcap *pcap = self;
  pcap->sampled = 0;
  *(pcap->iex ? &pcap->iex->sampled : &pcap->itch->sampled) = 0;
  REQUIRE(pcap->offset == begin && code != SD_AGAIN);
  REQUIRE(code == SD_OK || ((!pcap->skip || pcap->kind == 0) && pcap->fault.fault != SD_PCAP_FAULT_NONE));
}

static const fuzz_decoder DECODER = {sd_pcap_decode, check, SD_PCAP_MAX_RECORD, 1};

static sd_pcap *begin(sd_itch *itch, uint32_t how) {
  sd_iex *iex = how & 32 ? sd_iex_new(how & 1) : NULL;
  REQUIRE(iex || !(how & 32));
  memset(itch->symbols, 0, (size_t)itch->symbol_count * SD_ITCH_SYMBOL_BYTES);
  memset(itch, 0, offsetof(sd_itch, symbols));
  itch->skip = how & 1;
  sd_pcap *pcap = sd_pcap_new(iex ? NULL : itch, iex, how & 1);
  REQUIRE(pcap);
  pcap->any_port = how >> 1 & 1;
  pcap->ports[0x676D / 8] = 0xFF;
  pcap->hold = how >> 2 & 3 ? how >> 2 & 3 : SD_PCAP_HELD - 1;
  if (how & 16) pcap->hold_ns = 1000;
  return pcap;
}

/* Each message makes a tick with a number of its own, but the start of a day: that makes a clear record of each symbol. */
static int follows(const sd_tick *before, const sd_tick *tick) {
  if (sd_sequence(tick) != sd_sequence(before)) return sd_sequence(tick) > sd_sequence(before);
  return tick->action == 'R' && before->action == 'R' && tick->instrument_id > before->instrument_id;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static sd_itch itch[2];
  if (size < 3 || size > MAX_TICKS) return 0;
  sd_pcap *whole = begin(&itch[0], data[0]);
  sd_pcap *pieces = begin(&itch[1], data[0]);
  const uint64_t count = take_both(&DECODER, whole, pieces, data, size, size / 14 + 1);
  REQUIRE(whole->records == pieces->records && whole->packets == pieces->packets);
  REQUIRE(whole->gaps == pieces->gaps && whole->missing == pieces->missing && whole->held == pieces->held);
  REQUIRE(whole->duplicates == pieces->duplicates && whole->skipped_bytes == pieces->skipped_bytes);
  REQUIRE(memcmp(whole->skips, pieces->skips, sizeof whole->skips) == 0);
  REQUIRE(memcmp(itch[0].counts, itch[1].counts, sizeof itch[0].counts) == 0);
  for (uint64_t i = 1; i < count; i++) REQUIRE(follows(&whole_ticks[i - 1], &whole_ticks[i]));
  sd_iex *iex[] = {whole->iex, pieces->iex};
  if (iex[0]) REQUIRE(memcmp(iex[0]->skips, iex[1]->skips, sizeof iex[0]->skips) == 0);
  if (iex[0]) REQUIRE(memcmp(iex[0]->counts, iex[1]->counts, sizeof iex[0]->counts) == 0);
  sd_pcap_free(whole);
  sd_pcap_free(pieces);
  sd_iex_free(iex[0]);
  sd_iex_free(iex[1]);
  return 0;
}
