/* The participants' side of outputs: chunks to fill, and saying how far they are filled. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emit/writer.h"

#include "emit/buffer.h"
#include "sd_error.h"

enum { FIRST_SLABS = 2 };

/* Slabs of dispatchers that are no more, for the next ones: pages that are new to the process cost more than filling them. The
 * system may have their pages where it runs short of them. Where the lock is taken, by a thread that a fork left behind too,
 * there are none. */
#ifdef __SANITIZE_ADDRESS__
enum { SPARE_SLABS = 0 }; /* what is used after its end is to be noticed */
#else
enum { SPARE_SLABS = 32 };
#endif
static const size_t SLAB_BYTES = (size_t)SD_SLAB_CHUNKS * SD_CHUNK_BYTES;
static struct {
  sd_a32 lock;
  int n;
  void *slab[SPARE_SLABS + 1];
} spare;

static void *get_slab(void) {
  void *slab = NULL;
  if (sd_try_lock(&spare.lock)) {
    if (spare.n) slab = spare.slab[--spare.n];
    sd_unlock(&spare.lock);
  }
  if (slab) return slab;
  slab = aligned_alloc(SLAB_BYTES, SLAB_BYTES);
  /* Only advice. */
  if (slab) madvise(slab, SLAB_BYTES, MADV_HUGEPAGE);
  return slab;
}

static void give_slab(void *slab) {
  int kept = 0;
  if (sd_try_lock(&spare.lock)) {
    kept = spare.n < SPARE_SLABS;
    if (kept) {
      madvise(slab, SLAB_BYTES, MADV_FREE);
      spare.slab[spare.n++] = slab;
    }
    sd_unlock(&spare.lock);
  }
  if (!kept) free(slab);
}

/* Room for more chunks. Zero: no memory. */
static int add_slab(sd_chunk_pool *pool) {
  unsigned char *slab = get_slab();
  if (!slab) return 0;
  for (uint32_t i = 0; i < SD_SLAB_CHUNKS && pool->room < pool->most; i++)
    pool->table[pool->room++] = (sd_chunk *)(slab + (size_t)i * SD_CHUNK_BYTES);
  return 1;
}

/* A chunk off the pool. NULL: there are as many as there may be, or no memory. */
static sd_chunk *get_chunk(sd_chunk_pool *pool) {
  sd_lock(&pool->lock);
  sd_chunk *chunk = pool->free;
  if (chunk) {
    pool->free = chunk->next;
  } else if (pool->n < pool->most && (pool->n < pool->room || add_slab(pool))) {
    chunk = pool->table[pool->n];
    chunk->index = pool->n++;
  }
  sd_unlock(&pool->lock);
  /* E3 */
  if (chunk) sd_fetch_add(&pool->bytes, (uint64_t)SD_CHUNK_BYTES, relaxed, E3);
  return chunk;
}

/* Brings the pages of the chunks in that are used first: who emits first would pay for them, and so would what a publisher learns
 * about its ways. */
static int touch_first_chunks(sd_chunk_pool *pool) {
  for (int i = 0; i < FIRST_SLABS && pool->room < pool->most; i++) {
    uint32_t from = pool->room;
    if (!add_slab(pool)) return SD_E_NO_MEMORY;
    volatile unsigned char *at = (unsigned char *)pool->table[from];
    for (size_t j = 0; j < (size_t)(pool->room - from) * SD_CHUNK_BYTES; j += 4096) at[j] = 0;
  }
  return SD_OK;
}

static int more(sd_context *ctx, sd_output_writer *writer) {
  sd_emit_buffer *buffer = (sd_emit_buffer *)writer;
  sd_chunk *chunk = get_chunk(&buffer->d->outputs->pool);
  if (!chunk) {
    ctx->error_code = SD_E_NO_MEMORY;
    snprintf(ctx->message, sizeof ctx->message,
             "what was emitted and cannot be merged yet takes too much: raise output_memory");
    return SD_E_NO_MEMORY;
  }
  chunk->next = NULL;
  chunk->top = 0;
  /* E4: relaxed; who reads it has E1 of what it says, or may as well not know yet. */
  sd_store(&chunk->mixed, 0u, relaxed, E4);
  if (buffer->chunk) {
    buffer->chunk->next = chunk;
    buffer->before += buffer->chunk_bytes;
  } else {
    buffer->first = buffer->done_chunk = chunk;
    buffer->done = entries_of(chunk);
  }
  buffer->chunk = chunk;
  writer->at = entries_of(chunk);
  writer->end = writer->at + buffer->chunk_bytes;
  return 0;
}

/* Whether the numbers of entries from `at` to `end` rise, the first one being at least *least; then *least is one more than the last. */
static inline int rise(const unsigned char *at, const unsigned char *end, uint32_t size, uint64_t *least) {
  uint64_t before = *least - 1;
  int rises = *least < SD_VOID;
  for (; at < end; at += size) {
    const uint64_t number = ((const sd_emitted *)at)->number;
    rises &= number + 1 > before + 1;
    before = number;
  }
  rises &= before + 1 < SD_VOID;
  if (rises) *least = before + 1;
  return rises;
}

/* A commit that goes beyond a chunk whose numbers do not rise: those of the next one have to be beyond all that it left there.
 * What was committed before is of other records, whose numbers are others. */
static SD_NOINLINE void look_beyond(sd_emit_buffer *buffer) {
  const uint32_t size = buffer->writer.entry_bytes;
  const unsigned char *at = buffer->done;
  for (sd_chunk *chunk = buffer->done_chunk;; chunk = chunk->next, at = entries_of(chunk)) {
    const unsigned char *end = chunk == buffer->chunk ? buffer->writer.at : entries_of(chunk) + buffer->chunk_bytes;
    int rises = !sd_load(&chunk->mixed, relaxed, E4);
    for (; at < end; at += size) {
      const uint64_t number = ((const sd_emitted *)at)->number;
      const int beyond = number >= buffer->least && number < SD_VOID;
      rises &= beyond;
      if (beyond) buffer->least = number + 1;
    }
    if (!rises) sd_store(&chunk->mixed, 1u, relaxed, E4);
    if (chunk == buffer->chunk) return;
  }
}

/* Finds out whether numbers still rise with what was emitted since the last commit. */
static inline void look_at_numbers(sd_emit_buffer *buffer) {
  if (SD_UNLIKELY(buffer->done_chunk != buffer->chunk)) {
    look_beyond(buffer);
  } else if (!sd_load(&buffer->chunk->mixed, relaxed, E4) &&
             !rise(buffer->done, buffer->writer.at, buffer->writer.entry_bytes, &buffer->least)) {
    sd_store(&buffer->chunk->mixed, 1u, relaxed, E4);
  }
}

static void commit(sd_emit_buffer *buffer) {
  unsigned char *at = buffer->writer.at;
  if (at == buffer->done) return;
  if (!buffer->timers) look_at_numbers(buffer);
  buffer->done = at;
  buffer->done_chunk = buffer->chunk;
  /* E1: release; pairs with E2: the entries below it are there. */
  sd_store(&buffer->filled, buffer->before + (uint64_t)(at - entries_of(buffer->chunk)), release, E1);
}

void sd_writers_commit(sd_context *ctx) {
  for (uint32_t i = 0; i < 2 * ctx->n_outputs; i++) commit((sd_emit_buffer *)ctx->writers[i]);
}

/* What was emitted since the last commit, one chunk after the other. */
static void make_void(sd_emit_buffer *buffer, uint64_t number) {
  sd_chunk *chunk = buffer->done_chunk;
  unsigned char *at = buffer->done;
  while (chunk && at != buffer->writer.at) {
    if (at == entries_of(chunk) + buffer->chunk_bytes) {
      chunk = chunk->next;
      at = entries_of(chunk);
      continue;
    }
    sd_emitted *e = (sd_emitted *)at;
    if (e->number >= number) e->number = SD_VOID;
    at += buffer->writer.entry_bytes;
  }
}

void sd_writers_void(sd_context *ctx, uint64_t number) {
  for (uint32_t i = 0; i < 2 * ctx->n_outputs; i++) {
    make_void((sd_emit_buffer *)ctx->writers[i], number);
    commit((sd_emit_buffer *)ctx->writers[i]);
  }
}

/* ---- making and unmaking */

uint64_t sd_outputs_least(const sd_dispatcher *d, uint32_t n) {
  return (uint64_t)d->n_participants * n * 4 * SD_CHUNK_BYTES;
}

static sd_emit_buffer *make_buffer(sd_dispatcher *d, const sd_output *output, int timers) {
  sd_emit_buffer *buffer =
      aligned_alloc(2 * SD_LINE, (sizeof *buffer + 2 * SD_LINE - 1) / (2 * SD_LINE) * (2 * SD_LINE));
  if (!buffer) return NULL;
  memset(buffer, 0, sizeof *buffer);
  buffer->d = d;
  buffer->timers = timers;
  buffer->writer.more = more;
  buffer->writer.record_bytes = output->record_bytes;
  buffer->writer.entry_bytes = output->entry_bytes;
  buffer->chunk_bytes = (SD_CHUNK_BYTES - SD_CHUNK_HEADER) / output->entry_bytes * output->entry_bytes;
  return buffer;
}

int sd_dispatcher_outputs(sd_dispatcher *d, const uint32_t *record_bytes, uint32_t n, uint64_t soft_bytes) {
  if (d->outputs || !n || !d->config.sizes.has_positions || soft_bytes < sd_outputs_least(d, n)) return SD_E_ARGUMENT;
  sd_outputs *o = d->outputs = calloc(1, sizeof *o);
  if (!o) return SD_E_NO_MEMORY;
  o->n = n;
  o->n_participants = d->n_participants;
  o->armed = UINT64_MAX;
  uint64_t most = soft_bytes / SD_CHUNK_BYTES * SD_OUTPUT_SLACK;
  if (most > (SD_BY_PYTHON - 1) >> SD_REF_BITS) most = (SD_BY_PYTHON - 1) >> SD_REF_BITS;
  o->pool.most = (uint32_t)most;
  o->pool.soft_bytes = soft_bytes;
  o->pool.table = calloc(most, sizeof *o->pool.table);
  o->output = calloc(n, sizeof *o->output);
  o->buffer = calloc((size_t)o->n_participants * 2 * n, sizeof *o->buffer);
  if (!o->pool.table || !o->output || !o->buffer || touch_first_chunks(&o->pool)) return SD_E_NO_MEMORY;
  for (uint32_t i = 0; i < n; i++) {
    sd_output *output = &o->output[i];
    output->record_bytes = record_bytes[i];
    output->entry_bytes = (uint32_t)(sizeof(sd_emitted) + record_bytes[i] + 7) / 8 * 8;
    output->merged_bytes = SD_MERGED_HEAD + record_bytes[i];
    if (output->entry_bytes > (SD_CHUNK_BYTES - SD_CHUNK_HEADER) / 2 || !record_bytes[i]) return SD_E_ARGUMENT;
    for (uint32_t participant = 0; participant < o->n_participants; participant++)
      for (uint32_t timers = 0; timers < 2; timers++) {
        sd_emit_buffer *buffer = o->buffer[participant * 2 * n + timers * n + i] = make_buffer(d, output, (int)timers);
        if (!buffer) return SD_E_NO_MEMORY;
      }
  }
  return SD_OK;
}

int sd_outputs_connect(sd_dispatcher *d) {
  sd_outputs *o = d->outputs;
  if (!o) return SD_OK;
  size_t in_all = 0;
  o->first_writer = calloc(d->n_handlers, sizeof *o->first_writer);
  if (!o->first_writer) return SD_E_NO_MEMORY;
  for (uint32_t h = 0; h < d->n_handlers; h++) {
    o->first_writer[h] = in_all;
    for (uint32_t i = 0; i < d->handlers[h].n_outputs; i++)
      if (d->handlers[h].outputs[i] >= o->n) return SD_E_ARGUMENT;
    in_all += 2 * d->handlers[h].n_outputs;
  }
  o->writers = calloc((size_t)o->n_participants, sizeof *o->writers);
  if (!o->writers) return SD_E_NO_MEMORY;
  for (uint32_t participant = 0; participant < o->n_participants; participant++) {
    sd_output_writer **to = o->writers[participant] = calloc(in_all + 1, sizeof *to);
    if (!to) return SD_E_NO_MEMORY;
    for (uint32_t h = 0; h < d->n_handlers; h++) {
      const sd_handler *handler = &d->handlers[h];
      for (uint32_t i = 0; i < 2 * handler->n_outputs; i++)
        *to++ = &o->buffer[participant * 2 * o->n + (i % 2) * o->n + handler->outputs[i / 2]]->writer;
    }
  }
  return SD_OK;
}

sd_output_writer **sd_writers_of(sd_dispatcher *d, uint32_t participant, const sd_handler *handler) {
  sd_outputs *o = d->outputs;
  return o->writers[participant] + o->first_writer[handler - d->handlers];
}

void sd_outputs_destroy(sd_dispatcher *d) {
  sd_outputs *o = d->outputs;
  if (!o) return;
  for (uint32_t i = 0; o->pool.table && i < o->pool.room; i += SD_SLAB_CHUNKS) give_slab(o->pool.table[i]);
  for (uint32_t i = 0; o->buffer && i < o->n_participants * 2 * o->n; i++) free(o->buffer[i]);
  for (uint32_t i = 0; o->writers && i < o->n_participants; i++) free(o->writers[i]);
  for (uint32_t i = 0; o->output && i < o->n; i++) {
    sd_output *output = &o->output[i];
    for (uint64_t p = 0; p < output->n_pages; p++) free(output->pages[p]);
    free(output->pages);
    free(output->spare);
    sd_alarm_records_free(&output->timers);
  }
  free(o->pool.table);
  free(o->output);
  free(o->buffer);
  free(o->writers);
  free(o->first_writer);
  free(o);
  d->outputs = NULL;
}

int sd_outputs_full(sd_dispatcher *d) {
  sd_outputs *o = d->outputs;
  /* E3: relaxed; a bound. */
  return o && sd_load(&o->pool.bytes, relaxed, E3) > o->pool.soft_bytes;
}
