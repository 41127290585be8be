#include "handlers/history.h"

#include <stdlib.h>

#include "sd_error.h"

enum { FIRST_ENTRIES = 16, RUN_RECORDS = 512 };

sd_history *sd_history_create(int64_t every, uint64_t n_symbols, const sd_history_part *parts, uint64_t n_parts) {
  sd_history *h = calloc(1, sizeof *h);
  if (!h) return NULL;
  *h = (sd_history){.every = every, .n_symbols = n_symbols, .n_parts = n_parts, .entry_bytes = sizeof(int64_t)};
  h->parts = calloc(n_parts + 1, sizeof *h->parts);
  h->symbols = calloc(n_symbols + 1, sizeof *h->symbols);
  if (!h->parts || !h->symbols) {
    sd_history_destroy(h);
    return NULL;
  }
  for (uint64_t i = 0; i < n_parts; i++) {
    h->parts[i] = parts[i];
    h->entry_bytes += parts[i].bytes;
  }
  for (uint64_t i = 0; i < n_symbols; i++) {
    h->symbols[i].due = INT64_MIN;
    h->symbols[i].first = h->symbols[i].failed = INT64_MAX;
  }
  return h;
}

void sd_history_destroy(sd_history *h) {
  if (!h) return;
  for (uint64_t i = 0; h->symbols && i < h->n_symbols; i++) free(h->symbols[i].entries);
  free(h->symbols);
  free(h->parts);
  free(h);
}

/* The first multiple of the interval at or after a time. */
static int64_t multiple_after(int64_t every, int64_t time) {
  const int64_t past = time % every;
  int64_t next;
  if (past <= 0) return time - past;
  return __builtin_add_overflow(time, every - past, &next) ? INT64_MAX : next;
}

static int grow(const sd_history *h, sd_history_symbol *s) {
  const uint64_t capacity = s->capacity ? 2 * s->capacity : FIRST_ENTRIES;
  unsigned char *entries = realloc(s->entries, capacity * h->entry_bytes);
  if (!entries) return SD_E_NO_MEMORY;
  s->entries = entries;
  s->capacity = capacity;
  return SD_OK;
}

int sd_history_keep(sd_history *h, const void *rows, uint64_t row_stride, uint32_t key, int64_t time) {
  sd_history_symbol *s = &h->symbols[key];
  if (s->due == INT64_MAX) return SD_OK;
  if (s->n == s->capacity && grow(h, s)) return SD_E_NO_MEMORY;
  const unsigned char *row = (const unsigned char *)rows + key * row_stride;
  unsigned char *to = s->entries + s->n * h->entry_bytes;
  memcpy(to, &time, sizeof time);
  to += sizeof time;
  for (uint64_t i = 0; i < h->n_parts; i++) {
    const sd_history_part part = h->parts[i];
    /* A call of memcpy costs as much as all the rest. */
    if (part.bytes == 8) memcpy(to, row + part.offset, 8);
    else if (part.bytes == 16) memcpy(to, row + part.offset, 16);
    else memcpy(to, row + part.offset, part.bytes);
    to += part.bytes;
  }
  if (!s->n++) s->first = time;
  s->due = multiple_after(h->every, time);
  return SD_OK;
}

static int keep(const sd_history_params *p, const void *rows, uint32_t key, int64_t time, sd_context *ctx) {
  if (!sd_history_keep(p->history, rows, ctx->row_stride, key, time)) return 0;
  snprintf(ctx->message, sizeof ctx->message, "no memory for the snapshots of its rows: take fewer");
  ctx->error_code = SD_E_NO_MEMORY;
  return SD_E_NO_MEMORY;
}

static void note_failure(sd_history *h, uint32_t key, int64_t time) {
  if (time < h->symbols[key].failed) h->symbols[key].failed = time;
}

static inline uint32_t key_at(const unsigned char *keys, int64_t i, uint64_t size) {
  uint32_t key;
  memcpy(&key, keys + (uint64_t)i * size, sizeof key);
  return key;
}

/* Returns where the run of records ends that begins at `start`, and keeps the rows that they are about to change. A row that an earlier
 * record of the run changes as well can be kept only when that has been handled: there the run ends. So it does at any row to be kept if
 * the handler has timers, since those may come between two records of a run. *failed: there is no memory for the row of the record there.
 */
static int64_t begin_run(const sd_history_params *p, const void *rows, int64_t start, int64_t n, sd_context *ctx,
                         int *failed) {
  sd_history_symbol *symbols = p->history->symbols;
  const sd_position *positions = ctx->positions;
  /* No other run has it, except one that was to handle the same record. */
  const uint64_t run = positions[start].number + 1;
  /* Records that are looked at stay in the caches until they are handled. */
  if (n - start > RUN_RECORDS) n = start + RUN_RECORDS;
  for (int64_t i = start; i < n; i++) {
    const uint32_t key = key_at(ctx->keys, i, ctx->record_size);
    sd_history_symbol *s = &symbols[key];
    if (positions[i].time > s->due) {
      if (i > start && (s->run == run || p->wake)) return i;
      if (keep(p, rows, key, positions[i].time, ctx)) {
        *failed = 1;
        return i;
      }
    }
    s->run = run;
  }
  return n;
}

int64_t sd_handle_history(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_history_params *p = ctx->params;
  const sd_position *positions = ctx->positions;
  const unsigned char *keys = ctx->keys, *records = (const unsigned char *)ticks;
  const uint64_t size = ctx->record_size;
  int64_t start = 0;
  int failed = 0;
  while (start < n && !failed) {
    const int64_t end = begin_run(p, rows, start, n, ctx, &failed);
    if (end > start) {
      const void *from = records + (uint64_t)start * size;
      ctx->params = p->params;
      ctx->positions = positions + start;
      ctx->keys = keys + (uint64_t)start * size;
      const int64_t done = p->fn(rows, (const sd_tick *)from, end - start, ctx);
      ctx->params = p;
      ctx->positions = positions;
      ctx->keys = keys;
      if (done < 0 || done > end - start) return -1;
      start += done;
      if (ctx->yield && done > 0 && !ctx->error_code) return start;
      failed |= start < end;
    }
    if (failed) note_failure(p->history, key_at(keys, start, size), positions[start].time);
  }
  return start;
}

int sd_wake_history(void *rows, uint32_t key, int64_t time, sd_context *ctx) {
  const sd_history_params *p = ctx->params;
  /* Always: whether a tick of any symbol lies between the timer and the next multiple is not known here, and without one the timer has not
   * fired there. */
  int code = keep(p, rows, key, time, ctx);
  if (!code) {
    ctx->params = p->params;
    code = p->wake(rows, key, time, ctx);
    ctx->params = p;
  }
  if (code) note_failure(p->history, key, time);
  return code;
}

int sd_finish_history(void *rows, uint32_t key, sd_context *ctx) {
  const sd_history_params *p = ctx->params;
  ctx->params = p->params;
  const int code = p->finish(rows, key, ctx);
  ctx->params = p;
  return code;
}
