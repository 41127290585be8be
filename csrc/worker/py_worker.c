#include "worker/py_worker.h"

#include "sd_error.h"
#include "worker/py_batch.h"
#include "worker/submit.h"
#include "worker/worker.h"
#include "worker/yield.h"

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

/* ---- free tasks */

static uint64_t tag_of(const sd_py_worker *hand) {
  return hand->what == SD_PY_TASK ? hand->batch.task | (uint64_t)hand->batch.rose << SD_PY_ROSE_AT : 0;
}

uint64_t sd_py_task_next(sd_py_worker *hand) {
  hand->what = sd_worker_task_next(hand->d, hand->participant, &hand->batch);
  return tag_of(hand);
}

uint64_t sd_py_task_wait(sd_py_worker *hand) {
  hand->what = sd_worker_next(hand->d, hand->participant, &hand->batch);
  return tag_of(hand);
}

int sd_py_should_yield(const sd_py_worker *hand) {
  return sd_should_yield(hand->d, hand->participant, hand->batch.strand);
}

uint64_t sd_py_task_submit(sd_dispatcher *d, uint64_t tag, uint32_t priority, uint32_t marks) {
  sd_task_spec spec = {.tag = tag, .key = SD_NO_KEY, .priority = priority, .marks = marks};
  return sd_tasks_submit(d, &spec, 1) == 1 ? spec.handle : 0;
}

enum { AT_ONCE = 64 };

uint32_t sd_py_tasks_submit(sd_dispatcher *d, uint64_t *tags, uint32_t n, uint32_t priority) {
  sd_task_spec specs[AT_ONCE];
  for (uint32_t i = 0; i < AT_ONCE; i++) specs[i] = (sd_task_spec){.key = SD_NO_KEY, .priority = priority};
  uint32_t done = 0;
  while (done < n) {
    const uint32_t some = n - done < AT_ONCE ? n - done : AT_ONCE;
    for (uint32_t i = 0; i < some; i++) specs[i].tag = tags[done + i];
    const int64_t got = sd_tasks_submit(d, specs, some);
    for (int64_t i = 0; i < got; i++) tags[done + i] = specs[i].handle;
    if (got > 0) done += (uint32_t)got;
    if (got < (int64_t)some) break;
  }
  return done;
}
