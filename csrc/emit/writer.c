/* The participants' side of outputs: chunks to fill, and saying how far they are filled. */
#include <stdlib.h>
#include <string.h>

#include "emit/writer.h"

#include "emit/buffer.h"
#include "sd_error.h"

enum { FIRST_SLABS = 2 };

/* Adds memory for a slab of chunks. Zero: there is none. */
static int add_slab(const sd_chunk_pool *pool) {
  sd_chunk_list *list = pool->list;
  const uint32_t left = list->maximum - list->filled, n = left < SD_SLAB_CHUNKS ? left : SD_SLAB_CHUNKS;
  const uint64_t at = sd_space_offset(pool->space, chunk_at(pool, list->filled));
  if (sd_space_fill(pool->space, at, n * (uint64_t)SD_CHUNK_BYTES)) return 0;
  list->filled += n;
  return 1;
}

/* Takes a chunk from the pool. NULL: all chunks are in use, or there is no memory. */
static sd_chunk *get_chunk(const sd_chunk_pool *pool) {
  sd_chunk_list *list = pool->list;
  sd_chunk *chunk = NULL;
  sd_lock(&list->lock);
  if (list->free != SD_NONE) {
    chunk = chunk_at(pool, list->free);
    list->free = chunk->next;
  } else if (list->n < list->maximum && (list->n < list->filled || add_slab(pool))) {
    chunk = chunk_at(pool, list->n++);
  }
  sd_unlock(&list->lock);
  /* E3 */
  if (chunk) sd_fetch_add(&list->bytes, (uint64_t)SD_CHUNK_BYTES, relaxed, E3);
  return chunk;
}

/* Pre-faults the first chunks, so that no emit pays for a page fault, and so that the publisher's cost model does not measure one. With one
 * core, or with the caller's driver, whoever would do that emits as well, and perhaps less. */
static int touch_first_chunks(const sd_chunk_pool *pool) {
  sd_chunk_list *list = pool->list;
  for (int i = 0; i < FIRST_SLABS && list->filled < list->maximum; i++)
    if (!add_slab(pool)) return SD_E_NO_MEMORY;
  volatile unsigned char *at = pool->chunks;
  for (size_t i = 0; i < (size_t)list->filled * SD_CHUNK_BYTES; i += SD_SPACE_PAGE) at[i] = 0;
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
  chunk->next = SD_NONE;
  chunk->top = 0;
  /* E4: relaxed; a reader gets the right value through E1, or it may use the old one. */
  sd_store(&chunk->mixed, 0u, relaxed, E4);
  if (buffer->chunk) {
    buffer->chunk->next = index_of(buffer->pool, chunk);
    buffer->before += buffer->chunk_bytes;
  } else {
    buffer->so_far->first = index_of(buffer->pool, chunk);
    buffer->done_chunk = chunk;
    buffer->done = entries_of(chunk);
  }
  buffer->chunk = chunk;
  writer->at = entries_of(chunk);
  writer->end = writer->at + buffer->chunk_bytes;
  return 0;
}

/* Returns whether the numbers of the entries from `at` to `end` rise, beginning with at least *minimum. If so, sets *minimum to one more
 * than the last number. */
static inline int rise(const unsigned char *at, const unsigned char *end, uint32_t size, uint64_t *minimum) {
  uint64_t before = *minimum - 1;
  int rises = *minimum < SD_VOID;
  for (; at < end; at += size) {
    const uint64_t number = ((const sd_emitted *)at)->number;
    rises &= number + 1 > before + 1;
    before = number;
  }
  rises &= before + 1 < SD_VOID;
  if (rises) *minimum = before + 1;
  return rises;
}

/* For a commit that goes beyond a chunk whose numbers do not rise: the numbers of the next chunk have to be above all those that the
 * commit left there. Earlier commits were for other records, which have other numbers. */
static SD_NOINLINE void look_beyond(sd_emit_buffer *buffer) {
  const uint32_t size = buffer->writer.entry_bytes;
  const unsigned char *at = buffer->done;
  for (sd_chunk *chunk = buffer->done_chunk;; chunk = chunk_at(buffer->pool, chunk->next), at = entries_of(chunk)) {
    const unsigned char *end = chunk == buffer->chunk ? buffer->writer.at : entries_of(chunk) + buffer->chunk_bytes;
    int rises = !sd_load(&chunk->mixed, relaxed, E4);
    for (; at < end; at += size) {
      const uint64_t number = ((const sd_emitted *)at)->number;
      const int beyond = number >= buffer->minimum && number < SD_VOID;
      rises &= beyond;
      if (beyond) buffer->minimum = number + 1;
    }
    if (!rises) sd_store(&chunk->mixed, 1u, relaxed, E4);
    if (chunk == buffer->chunk) return;
  }
}

/* Checks whether the numbers still rise with what was emitted since the last commit. */
static inline void look_at_numbers(sd_emit_buffer *buffer) {
  if (SD_UNLIKELY(buffer->done_chunk != buffer->chunk)) {
    look_beyond(buffer);
  } else if (!sd_load(&buffer->chunk->mixed, relaxed, E4) &&
             !rise(buffer->done, buffer->writer.at, buffer->writer.entry_bytes, &buffer->minimum)) {
    sd_store(&buffer->chunk->mixed, 1u, relaxed, E4);
  }
}

static void commit(sd_emit_buffer *buffer) {
  unsigned char *at = buffer->writer.at;
  if (at == buffer->done) return;
  if (!buffer->timers) look_at_numbers(buffer);
  buffer->done = at;
  buffer->done_chunk = buffer->chunk;
  /* E1: release; pairs with E2: the merger sees the entries below it. */
  sd_store(&buffer->so_far->filled, buffer->before + (uint64_t)(at - entries_of(buffer->chunk)), release, E1);
}

void sd_writers_commit(sd_context *ctx) {
  for (uint32_t i = 0; i < 2 * ctx->n_outputs; i++) commit((sd_emit_buffer *)ctx->writers[i]);
}

/* Marks what was emitted since the last commit as void, chunk by chunk. */
static void make_void(sd_emit_buffer *buffer, uint64_t number) {
  sd_chunk *chunk = buffer->done_chunk;
  unsigned char *at = buffer->done;
  while (chunk && at != buffer->writer.at) {
    if (at == entries_of(chunk) + buffer->chunk_bytes) {
      chunk = chunk_at(buffer->pool, chunk->next);
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

uint64_t sd_outputs_minimum(const sd_dispatcher *d, uint32_t n) {
  return (uint64_t)d->n_participants * n * 4 * SD_CHUNK_BYTES;
}

static int make_buffer(sd_dispatcher *d, const sd_output *output, uint32_t index, int timers) {
  sd_outputs *o = d->outputs;
  sd_emit_buffer *buffer = o->buffer[index] = aligned_alloc(2 * SD_LINE, sizeof *buffer);
  if (!buffer) return SD_E_NO_MEMORY;
  memset(buffer, 0, sizeof *buffer);
  buffer->d = d;
  buffer->pool = &o->pool;
  buffer->so_far = (sd_emitted_so_far *)sd_space_at(d->space, d->arena->emitted) + index;
  buffer->timers = timers;
  buffer->writer.more = more;
  buffer->writer.record_bytes = output->record_bytes;
  buffer->writer.entry_bytes = output->entry_bytes;
  buffer->chunk_bytes = (SD_CHUNK_BYTES - SD_CHUNK_HEADER) / output->entry_bytes * output->entry_bytes;
  return SD_OK;
}

/* Makes the chunks of all buffers. They take only addresses until they are used. */
static int make_pool(sd_dispatcher *d, sd_chunk_pool *pool, uint64_t soft_bytes) {
  const uint64_t maximum = soft_bytes / SD_CHUNK_BYTES * SD_OUTPUT_SLACK, named = (SD_BY_PYTHON - 1) >> SD_REF_BITS;
  pool->list = sd_arena_get(d->space, 1, sizeof *pool->list, &d->arena->chunk_list);
  if (!pool->list) return SD_E_NO_MEMORY;
  pool->list->free = SD_NONE;
  pool->list->maximum = (uint32_t)(maximum < named ? maximum : named);
  pool->space = d->space;
  pool->soft_bytes = soft_bytes;
  d->arena->chunks = sd_space_take(d->space, pool->list->maximum * (uint64_t)SD_CHUNK_BYTES, SD_HUGE_PAGE);
  if (!d->arena->chunks) return SD_E_NO_MEMORY;
  pool->chunks = sd_space_at(d->space, d->arena->chunks);
  return d->config.one_core ? SD_OK : touch_first_chunks(pool);
}

int sd_dispatcher_outputs(sd_dispatcher *d, const uint32_t *record_bytes, uint32_t n, uint64_t soft_bytes) {
  if (d->outputs || !n || !d->config.sizes.has_positions || soft_bytes < sd_outputs_minimum(d, n)) return SD_E_ARGUMENT;
  sd_outputs *o = d->outputs = calloc(1, sizeof *o);
  if (!o) return SD_E_NO_MEMORY;
  o->n = n;
  o->n_participants = d->n_participants;
  o->armed = UINT64_MAX;
  const uint64_t buffers = (uint64_t)o->n_participants * 2 * n;
  o->output = calloc(n, sizeof *o->output);
  o->buffer = calloc(buffers, sizeof *o->buffer);
  if (!o->output || !o->buffer || !sd_arena_get(d->space, buffers, sizeof(sd_emitted_so_far), &d->arena->emitted) ||
      make_pool(d, &o->pool, soft_bytes))
    return SD_E_NO_MEMORY;
  for (uint32_t i = 0; i < n; i++) {
    sd_output *output = &o->output[i];
    output->record_bytes = record_bytes[i];
    output->entry_bytes = (uint32_t)(sizeof(sd_emitted) + record_bytes[i] + 7) / 8 * 8;
    output->merged_bytes = SD_MERGED_HEAD + record_bytes[i];
    if (output->entry_bytes > (SD_CHUNK_BYTES - SD_CHUNK_HEADER) / 2 || !record_bytes[i]) return SD_E_ARGUMENT;
    for (uint32_t participant = 0; participant < o->n_participants; participant++)
      for (uint32_t timers = 0; timers < 2; timers++)
        if (make_buffer(d, output, participant * 2 * n + timers * n + i, (int)timers)) return SD_E_NO_MEMORY;
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
  for (uint32_t i = 0; o->buffer && i < o->n_participants * 2 * o->n; i++) free(o->buffer[i]);
  for (uint32_t i = 0; o->writers && i < o->n_participants; i++) free(o->writers[i]);
  for (uint32_t i = 0; o->output && i < o->n; i++) {
    sd_output *output = &o->output[i];
    for (uint64_t p = 0; p < output->n_pages; p++) free(output->pages[p]);
    free(output->pages);
    free(output->spare);
    sd_alarm_records_free(&output->timers);
  }
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
  return o && sd_load(&o->pool.list->bytes, relaxed, E3) > o->pool.soft_bytes;
}
