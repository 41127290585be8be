#include "worker/py_worker.h"

#include "sd_error.h"
#include "worker/py_batch.h"
#include "worker/worker.h"

int64_t sd_py_worker_next(sd_py_worker *hand) {
  const sd_py_batch *batch = &hand->batch;
  const sd_dispatcher *d = hand->d;
  const sd_arena *arena = d->arena;
  hand->what = sd_worker_next(hand->d, hand->participant, &hand->batch);
  if (SD_UNLIKELY(hand->what != SD_PY_RECORDS)) return -1;
  const uint64_t at = (uint64_t)((const unsigned char *)batch->records - d->pool.segments);
  if (at >= (uint64_t)arena->n_segments * arena->segment_bytes || at % arena->record_size) return -1;
  hand->first = (int64_t)(at / arena->record_size);
  hand->end = hand->first + batch->n;
  return batch->strand;
}

int64_t sd_py_worker_go_on(sd_py_worker *hand) {
  int code = sd_worker_done(hand->d, hand->participant, &hand->batch, hand->batch.n, 0, NULL);
  if (SD_LIKELY(code == SD_OK)) return sd_py_worker_next(hand);
  hand->what = code;
  return -1;
}
