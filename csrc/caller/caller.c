#include "caller/caller.h"

#include <string.h>

#include "memory/counters.h"
#include "numbering/failure.h"
#include "numbering/positions.h"
#include "publish/publish.h"
#include "publish/publisher.h"
#include "sd_error.h"
#include "worker/alarm.h"
#include "worker/call.h"

static int refuse(sd_context *ctx, const void *records, int64_t n, int64_t *accepted) {
  (void)records, (void)n;
  ((sd_dispatcher *)ctx->engine)->refused = 1;
  *accepted = 0;
  return SD_E_STOPPED;
}

void sd_caller_open(sd_caller *c, sd_dispatcher *d) {
  memset(c, 0, sizeof *c);
  c->d = d;
  c->participant = (uint32_t)sd_publisher_enter(d);
  d->publish = refuse;
  d->py_batches[c->participant] = &c->batch;
}

static void open_context(sd_caller *c, const sd_handler *handler, sd_context *ctx) {
  sd_context_of(c->d, c->participant, handler, ctx);
  /* There is nobody to run a task. */
  ctx->submit = NULL;
  ctx->until = UINT64_MAX;
}

/* ---- numbers */

/* Returns n, or the index of the first record whose key is out of range. `asks`: for the rows of the records. */
static inline int64_t check(const sd_dispatcher *d, const unsigned char *records, int64_t n, const int asks) {
  const size_t size = d->arena->record_size, stride = d->arena->row_stride;
  const uint32_t symbols = d->arena->n_symbols;
  for (int64_t i = 0; i < n; i++, records += size) {
    const uint32_t key = sd_key_of(d, records);
    if (SD_UNLIKELY(key >= symbols)) return i;
    if (asks) sd_prefetch_write(d->rows + key * stride);
  }
  return n;
}

static void number(sd_caller *c, const unsigned char *records, int64_t n, sd_position *positions) {
  sd_dispatcher *d = c->d;
  const size_t size = d->arena->record_size;
  sd_position next = sd_numbers_begin(d);
  for (int64_t i = 0; i < n; i++, records += size, next.number++) {
    next.time = sd_time_at(d, records, next.time);
    positions[i] = next;
  }
  sd_numbers_end(d, (uint32_t)n, (uint64_t)next.time);
  sd_bump(&d->participants[c->participant].counters.accepted, (uint64_t)n);
}

int64_t sd_caller_number(sd_caller *c, const void *records, int64_t n, sd_position *positions) {
  const size_t size = c->d->arena->record_size;
  for (int64_t at = 0; at < n;) {
    const unsigned char *from = (const unsigned char *)records + (size_t)at * size;
    const int64_t some = n - at < SD_CALLER_SLICE ? n - at : SD_CALLER_SLICE, good = check(c->d, from, some, 0);
    number(c, from, good, positions + at);
    at += good;
    if (SD_UNLIKELY(good < some)) return at;
  }
  return n;
}

void sd_caller_end_at(sd_caller *c, uint64_t number, uint64_t time) {
  sd_dispatcher *d = c->d;
  /* Timers that are due and have not fired will not fire, and hold nothing back. */
  for (uint32_t i = 0; i < d->arena->n_strands; i++) sd_strand_hold(&d->strands[i], SD_QUARANTINED);
  sd_publisher_bound(d, c->participant, number + d->config.sizes.counters_start, time);
}

void sd_caller_take_back(sd_caller *c, uint64_t time) {
  sd_numbers_begin(c->d);
  sd_numbers_end(c->d, 0, time);
}

/* ---- records */

/* Notes the failure of a timer. */
static void fail_timer(sd_caller *c) {
  c->failed = c->at_timer = 1;
  sd_failure_take(c->d, &c->failure);
}

/* Runs n records of one native handler, in pieces that stay in the first caches. */
static int64_t run(sd_caller *c, uint32_t strand, const unsigned char *records, const sd_position *positions,
                   int64_t n) {
  sd_dispatcher *d = c->d;
  const sd_handler *handler = &d->handlers[d->strands[strand].handler];
  sd_context ctx;
  open_context(c, handler, &ctx);
  int64_t done = sd_run_handler(d, handler, strand, records, positions, n, &ctx);
  if (SD_UNLIKELY(ctx.stopped)) {
    fail_timer(c);
  } else if (SD_UNLIKELY(done < n || d->refused)) {
    c->failed = 1;
    c->error_code = ctx.error_code;
    memcpy(c->message, ctx.message, sizeof c->message);
    sd_bump(&d->participants[c->participant].counters.failed, 1);
    if (done == n) done = n - 1;
  }
  sd_bump(&d->participants[c->participant].counters.handled, (uint64_t)done);
  sd_bump(&d->participants[c->participant].counters.handled_inline, (uint64_t)done);
  return done;
}

/* Returns how many of n records, from the first one on, have the same handler. */
static int64_t stretch(const sd_dispatcher *d, uint32_t strand, const unsigned char *records, int64_t n) {
  const size_t size = d->arena->record_size;
  if (d->arena->n_strands == 1) return n;
  int64_t i = 1;
  for (records += size; i < n && d->map[sd_key_of(d, records)] == strand; i++) records += size;
  return i;
}

int64_t sd_caller_run(sd_caller *c, const void *records, const sd_position *positions, int64_t n) {
  const sd_dispatcher *d = c->d;
  const size_t size = d->arena->record_size;
  for (int64_t at = 0; at < n;) {
    const unsigned char *from = (const unsigned char *)records + (size_t)at * size;
    const uint32_t strand = d->map[sd_key_of(d, from)];
    const int is_native = d->handlers[d->strands[strand].handler].fn != NULL;
    if (!is_native && !c->passes) return at;
    const int64_t left = n - at < SD_CALLER_SLICE ? n - at : SD_CALLER_SLICE, some = stretch(d, strand, from, left);
    const int64_t done = is_native ? run(c, strand, from, positions ? positions + at : NULL, some) : some;
    at += done;
    if (SD_UNLIKELY(done < some)) return at;
  }
  return n;
}

int64_t sd_caller_publish(sd_caller *c, const void *records, int64_t n) {
  sd_dispatcher *d = c->d;
  const size_t size = d->arena->record_size;
  for (int64_t at = 0; at < n;) {
    const unsigned char *from = (const unsigned char *)records + (size_t)at * size;
    const int64_t some = n - at < SD_CALLER_SLICE ? n - at : SD_CALLER_SLICE, good = check(d, from, some, 1);
    number(c, from, good, c->positions);
    const int64_t done = sd_caller_run(c, from, c->positions, good);
    at += done;
    if (SD_UNLIKELY(done < some)) return at;
  }
  return n;
}

/* ---- timers, and what Python emits */

int sd_caller_wake(sd_caller *c, uint64_t time) {
  sd_dispatcher *d = c->d;
  for (uint32_t strand = 0; strand < d->arena->n_strands; strand++) {
    const sd_handler *handler = &d->handlers[d->strands[strand].handler];
    if (!handler->fn || !handler->wake) continue;
    sd_context ctx;
    open_context(c, handler, &ctx);
    if (!sd_timers_fire(d, handler, &ctx, strand, time)) continue;
    fail_timer(c);
    return 1;
  }
  return 0;
}

void sd_caller_emitted(sd_caller *c, uint32_t handler, uint64_t below) {
  sd_context ctx;
  open_context(c, &c->d->handlers[handler], &ctx);
  if (below == UINT64_MAX) sd_writers_commit(&ctx);
  else sd_writers_void(&ctx, below);
}

int sd_caller_refused(const sd_caller *c) { return c->d->refused; }

uint64_t sd_caller_handled(const sd_caller *c) {
  return sd_peek(&c->d->participants[c->participant].counters.handled) - c->d->config.sizes.counters_start;
}
