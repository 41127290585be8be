#include "handlers/chain.h"

#include <string.h>

#include "sd_atomic.h"

/* Each part has a context of its own, with its parameters; what it says of a failure is the chain's. */
static int64_t fail(sd_context *ctx, const sd_context *part, int64_t at) {
  ctx->error_code = part->error_code;
  memcpy(ctx->message, part->message, sizeof ctx->message);
  return at;
}

/* Records that are asked for together. */
enum { GROUP = 32 };

static void ask_for(const sd_chain *chain, void *rows, const sd_tick *records, int64_t n, const sd_context *own) {
  for (uint64_t p = 0; p < chain->n; p++) {
    const sd_chain_part *part = &chain->part[p];
    if (part->ahead) part->ahead((unsigned char *)rows + part->row_offset, records, n, &own[p]);
  }
}

int64_t sd_handle_chain(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const sd_chain *chain = ctx->params;
  const uint64_t parts = chain->n, size = ctx->record_size;
  sd_context own[SD_CHAIN_MOST];
  for (uint64_t p = 0; p < parts; p++) {
    own[p] = *ctx;
    own[p].params = chain->part[p].params;
    own[p].n_outputs = chain->part[p].n_outputs;
    if (own[p].n_outputs) own[p].sinks = ctx->sinks + 2 * chain->part[p].first_output;
  }
  for (int64_t i = 0; i < n; i++) {
    const sd_tick *record = (const sd_tick *)((const unsigned char *)ticks + (uint64_t)i * size);
    if (i % GROUP == 0) ask_for(chain, rows, record, n - i < GROUP ? n - i : GROUP, own);
    for (uint64_t p = 0; p < parts; p++) {
      const sd_chain_part *part = &chain->part[p];
      if (ctx->marks) {
        own[p].marks = ctx->marks + i;
        own[p].keys = ctx->keys + (uint64_t)i * size;
      }
      if (SD_UNLIKELY(part->fn((unsigned char *)rows + part->row_offset, record, 1, &own[p]) != 1))
        return fail(ctx, &own[p], i);
    }
  }
  return n;
}

int64_t sd_chain_track(sd_dispatcher *d, uint32_t slot, const sd_handler *handler, const void *records, int64_t n,
                       uint64_t width, void *after, sd_failure *failure) {
  const uint64_t size = d->arena->record_size, stride = d->arena->row_stride;
  sd_context ctx;
  sd_context_of(d, slot, handler, &ctx);
  /* What its parts emit goes where the whole chain's does, for the same ticks. What they emitted stays when Python fails on a
   * tick: they will not see it again. */
  const sd_claim *claim = d->claimed[slot];
  const sd_handler *whole = &d->handlers[claim->handler];
  const sd_mark *marks = claim->marks;
  if (marks) marks += (size_t)((const unsigned char *)records - (const unsigned char *)claim->records) / size;
  ctx.n_outputs = whole->n_outputs;
  ctx.sinks = ctx.n_outputs ? sd_sinks_of(d, slot, whole) : NULL;
  for (int64_t i = 0; i < n; i++) {
    const unsigned char *record = (const unsigned char *)records + (uint64_t)i * size;
    uint32_t key;
    if (sd_run_handler(d, handler, record, marks ? marks + i : NULL, 1, &ctx) != 1) {
      failure->code = ctx.error_code;
      memcpy(failure->message, ctx.message, sizeof ctx.message);
      return i;
    }
    memcpy(&key, record + d->arena->key_offset, sizeof key);
    memcpy((unsigned char *)after + (uint64_t)i * width, d->rows + key * stride, width);
  }
  return n;
}
