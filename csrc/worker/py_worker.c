#include "worker/py_worker.h"

#include "sd_error.h"
#include "worker/py_batch.h"
#include "worker/worker.h"

int64_t sd_hand_next(sd_hand *hand) {
  const sd_claim *claim = &hand->claim;
  const sd_arena *arena = hand->d->arena;
  hand->what = sd_worker_next(hand->d, hand->slot, &hand->claim);
  if (SD_UNLIKELY(hand->what != SD_CLAIM_RECORDS)) return -1;
  uint64_t at = (uint64_t)((const unsigned char *)claim->records - (const unsigned char *)arena);
  if (at >= arena->bytes || at % arena->record_size) return -1;
  hand->first = (int64_t)(at / arena->record_size);
  hand->end = hand->first + claim->n;
  return claim->strand;
}

int64_t sd_hand_go_on(sd_hand *hand) {
  int code = sd_worker_done(hand->d, hand->slot, &hand->claim, hand->claim.n, 0, NULL);
  if (SD_LIKELY(code == SD_OK)) return sd_hand_next(hand);
  hand->what = code;
  return -1;
}
