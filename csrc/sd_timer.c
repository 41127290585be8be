/* Timers: arming, firing in the place of the records, and the clock that fires what no record does. */
#include "sd_timer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sd_clock.h"
#include "sd_error.h"
#include "sd_failure.h"
#include "sd_sink.h"
#include "sd_task.h"
#include "sd_visit.h"
#include "sd_watermark.h"

/* Timers whose rows are fetched together, and how much of each. */
enum { AT_A_GO = 8, MOST_LINES = 6 };

/* ---- wishes */

static void lower_next(sd_dispatcher *d, uint64_t ns) {
  sd_a64 *next = &d->arena->next_wish;
  uint64_t seen = sd_load(next, relaxed, K5);
  /* K5: acq_rel, and a read-modify-write even where it changes nothing: see sd_timer.h. */
  while (!sd_cas(next, &seen, ns < seen ? ns : seen, acq_rel, K5)) {
  }
}

static inline void arm_leaf(sd_dispatcher *d, const sd_wish_tree *t, uint32_t leaf, uint64_t ns) {
  if (!sd_wish_set(t, leaf, ns ? ns : SD_NEVER)) return;
  uint64_t next = sd_wish_next(t);
  if (next != SD_NEVER) lower_next(d, next);
}

static void arm(sd_dispatcher *d, uint32_t key, uint64_t ns) {
  const sd_wish_place place = d->wishes.place[key];
  arm_leaf(d, &d->wishes.tree[place.strand], place.leaf, ns);
}

void sd_wake_at(sd_context *ctx, uint32_t key, int64_t at) {
  sd_dispatcher *d = ctx->engine;
  if (key >= d->arena->n_symbols) return;
  const uint64_t ns = sd_wish_after(at, (int64_t)ctx->call_start);
  if (!ctx->marks) {
    ctx->wish = ns;
    return;
  }
  if (ns && ns <= ctx->call_end) {
    ctx->yield = 1;
    ctx->wake_key = key;
  }
  arm(d, key, ns);
}

void sd_timer_over(sd_dispatcher *d, uint32_t key, uint64_t wish) { arm(d, key, wish); }

void sd_timer_context(sd_context *ctx, uint32_t key, uint64_t time) {
  ctx->marks = NULL;
  ctx->keys = NULL;
  ctx->wake_key = key;
  ctx->wake_time = (int64_t)time;
  ctx->call_start = ctx->call_end = time;
  ctx->wish = 0;
}

/* Nonzero: it failed. */
static int fire(sd_dispatcher *d, const sd_handler *handler, sd_context *ctx, const sd_wish_tree *t, uint32_t leaf) {
  const uint32_t key = t->symbol[leaf - t->n];
  const uint64_t time = sd_wish_at(t, leaf);
  sd_timer_context(ctx, key, time);
  int code = handler->wake(d->rows, key, (int64_t)time, ctx);
  if (ctx->n_outputs) {
    if (code) sd_sinks_void(ctx, 0);
    else sd_sinks_commit(ctx);
  }
  arm_leaf(d, t, leaf, ctx->wish);
  if (!code) return 0;
  if (!ctx->error_code) ctx->error_code = code;
  sd_fail_symbol(d, ctx->slot, d->map[key], key, time, 0, ctx->error_code, ctx->message);
  ctx->stopped = 1;
  return 1;
}

int sd_timers_fire(sd_dispatcher *d, const sd_handler *handler, sd_context *ctx, uint32_t strand, uint64_t time) {
  const sd_wish_tree *t = &d->wishes.tree[strand];
  const uint64_t stride = d->arena->row_stride;
  uint32_t leaf[AT_A_GO], n;
  for (int any = 0; (n = sd_wish_due(t, time, leaf, AT_A_GO)) > 0; any = 1) {
    /* A timer may ask for the next one at once, for ever. Some have been fired, so the strand gets on. */
    if (any && sd_now() > ctx->until) {
      ctx->stopped = 1;
      return 1;
    }
    /* In which order is of no account, as each has its own symbol's row. */
    for (uint32_t i = 0; i < n; i++) {
      const unsigned char *row = d->rows + t->symbol[leaf[i] - t->n] * stride;
      for (uint64_t line = 0; line < stride && line < MOST_LINES * SD_LINE; line += SD_LINE)
        sd_prefetch_write(row + line);
    }
    for (uint32_t i = 0; i < n; i++)
      if (fire(d, handler, ctx, t, leaf[i])) return 1;
  }
  return 0;
}

/* ---- among records */

/* When the next timer is due on a record's strand, which is in hand. */
static inline uint64_t next_due(const sd_dispatcher *d, const unsigned char *record) {
  return sd_wish_next(&d->wishes.tree[d->map[sd_key_of(d, record)]]);
}

int64_t sd_timer_cut(const sd_dispatcher *d, uint32_t strand, const sd_mark *marks, int64_t n) {
  const uint64_t next = sd_wish_next(&d->wishes.tree[strand]);
  for (int64_t i = 0; i < n; i++)
    if (SD_UNLIKELY(next <= sd_wish_until(marks[i].time))) return i;
  return n;
}

/* The same for records of several strands. */
static int64_t cut_mixed(const sd_dispatcher *d, const unsigned char *records, const sd_mark *marks, int64_t n) {
  const size_t size = d->arena->record_size;
  for (int64_t i = 0; i < n; i++, records += size)
    if (SD_UNLIKELY(next_due(d, records) <= sd_wish_until(marks[i].time))) return i;
  return n;
}

/* Of n records, the first of which no timer comes before, those up to the next one that one does. */
static inline int64_t run_until_due(const sd_dispatcher *d, uint32_t strand, const unsigned char *records,
                                    const sd_mark *marks, int64_t n) {
  if (strand != SD_NONE) return 1 + sd_timer_cut(d, strand, marks + 1, n - 1);
  return 1 + cut_mixed(d, records + d->arena->record_size, marks + 1, n - 1);
}

int64_t sd_run_timed(sd_dispatcher *d, const sd_handler *handler, uint32_t strand, const unsigned char *records,
                     const sd_mark *marks, int64_t n, sd_context *ctx) {
  const size_t size = d->arena->record_size;
  int64_t at = 0;
  ctx->stopped = 0;
  while (at < n) {
    const unsigned char *from = records + (size_t)at * size;
    if (SD_UNLIKELY(next_due(d, from) <= sd_wish_until(marks[at].time))) {
      if (ctx->n_outputs) sd_sinks_commit(ctx);
      if (sd_timers_fire(d, handler, ctx, d->map[sd_key_of(d, from)], marks[at].time)) return at;
    }
    /* What a record asks for may come before the next one: only who returns then may be given more than one. */
    int64_t most = handler->yields ? run_until_due(d, strand, from, marks + at, n - at) : 1;
    ctx->marks = marks + at;
    ctx->keys = from + d->arena->key_offset;
    ctx->call_start = marks[at].time;
    ctx->call_end = marks[at + most - 1].time;
    ctx->yield = 0;
    int64_t done = handler->fn(d->rows, (const sd_tick *)from, most, ctx);
    if (SD_UNLIKELY(ctx->yield) && done > 0 && done <= most && !ctx->error_code) {
      /* The record that asked is the last one handled. */
      uint64_t time = sd_wish_until(marks[at + done - 1].time);
      const sd_wish_place place = d->wishes.place[ctx->wake_key];
      if (sd_wish_at(&d->wishes.tree[place.strand], place.leaf) <= time) arm(d, ctx->wake_key, time + 1);
    } else if (SD_UNLIKELY(done != most)) {
      if (done >= 0 && done < most) return at + done;
      snprintf(ctx->message, sizeof ctx->message, "the handler returned %lld for %lld records", (long long)done,
               (long long)most);
      return at;
    }
    at += done;
  }
  return n;
}

/* ---- the clock */

uint32_t sd_timer_due(sd_dispatcher *d, uint32_t strand, uint64_t time, uint64_t *wish) {
  const sd_wish_tree *t = &d->wishes.tree[strand];
  *wish = sd_wish_next(t);
  return *wish <= sd_wish_until(time) ? t->symbol[sd_wish_first(t) - t->n] : SD_NONE;
}

void sd_clock_over(sd_dispatcher *d, uint32_t strand) {
  /* K6: release; what the strand's holder arms from here on is not taken for covered. */
  sd_store(&d->clock_until[strand], 0, release, K6);
}

/* Puts a clock task for `time` on a strand that has none: nonzero. Else *until says up to when another sweep has put one there,
 * or 0: there is no room for tasks. */
static int queue_clock(sd_dispatcher *d, uint32_t strand, uint64_t time, uint64_t *until) {
  /* K6: relaxed; of two sweeps one finds 0, and the strand's holder has it by P2. */
  if (!sd_cas(&d->clock_until[strand], until, time, relaxed, K6)) return 0;
  /* This waits for publishers that hold the strand's lock, so no lock may be held here. */
  if (sd_task_queue(d, strand, SD_TASK_CLOCK | time) == SD_OK) return 1;
  sd_store(&d->clock_until[strand], 0, relaxed, K6);
  return 0;
}

/* `leaves`: strands with records are left to the merger's next look. From any thread, and several at a time. */
static uint32_t sweep(sd_dispatcher *d, int leaves) {
  uint64_t time, least = UINT64_MAX;
  uint32_t due = 0, later = 0;
  sd_lowest_unpublished(d, &time);
  /* K5: acq_rel; see sd_timer.h. */
  sd_exchange(&d->arena->next_wish, UINT64_MAX, acq_rel, K5);
  /* K8: acquire; pairs with the release below: the strands that it was set for are seen as they were then. */
  if (sd_load(&d->clock_later, relaxed, K8)) sd_exchange(&d->clock_later, 0u, acquire, K8);
  for (uint32_t strand = 0; strand < d->arena->n_strands; strand++) {
    /* K4: acquire; a wish that is seen is seen after the clock task that came before it. */
    uint64_t wish = sd_load(&d->wishes.tree[strand].node[1], acquire, K4);
    if (wish == SD_NEVER) continue;
    if (wish <= time) {
      uint64_t until = sd_load(&d->clock_until[strand], acquire, K6);
      /* P4: where the task is set aside with its strand nobody can wait for it. */
      if (!until || !(sd_load(&d->strands[strand].control, relaxed, P4) & SD_ASIDE)) due++;
      /* A1 */
      if (leaves && !until && sd_load(&d->strands[strand].pending, acquire, A1) > 0) {
        later = 1;
        continue;
      }
      if (!until && queue_clock(d, strand, time, &until)) continue;
      /* Those behind it are looked at when it has fired, which changes the root. */
      if (wish <= until) continue;
    }
    if (wish < least) least = wish;
  }
  if (least != UINT64_MAX) lower_next(d, least);
  /* K8: release; a sweep that takes it back has not looked at the strands yet. */
  if (later) sd_store(&d->clock_later, 1u, release, K8);
  return due;
}

uint32_t sd_clock_sweep(sd_dispatcher *d) { return sweep(d, 0); }

void sd_clock_look_at_all(sd_dispatcher *d) { sweep(d, d->outputs != NULL); }

uint64_t sd_earliest_wish(sd_dispatcher *d) {
  uint64_t least = SD_NEVER;
  if (!sd_timed(d)) return least;
  for (uint32_t strand = 0; strand < d->arena->n_strands; strand++) {
    /* K4: acquire; see sd_wish_set(). */
    uint64_t wish = sd_load(&d->wishes.tree[strand].node[1], acquire, K4);
    if (wish >= least) continue;
    /* A1: acquire; pairs with S4: what the strand emitted before it was quarantined is there. */
    if (sd_load(&d->strands[strand].control, acquire, A1) & SD_QUARANTINED) continue;
    least = wish;
  }
  return least;
}

/* ---- the end */

/* What a symbol's end emitted counts, or it failed. SD_E_HANDLER: nothing more is to be finished. */
static int finished(sd_dispatcher *d, uint32_t key, int code, const char *message, sd_context *ctx) {
  if (ctx->n_outputs) {
    if (code) sd_sinks_void(ctx, 0);
    else sd_sinks_commit(ctx);
  }
  if (!code) return SD_OK;
  sd_fail_symbol(d, 0, d->map[key], key, ctx->wake_time, 1, ctx->error_code ? ctx->error_code : code, message);
  return d->config.on_error == SD_ON_ERROR_STOP ? SD_E_HANDLER : SD_OK;
}

static void end_context(sd_dispatcher *d, uint32_t key, sd_context *ctx) {
  sd_context_of(d, 0, &d->handlers[d->strands[d->map[key]].handler], ctx);
  sd_timer_context(ctx, key, sd_load(&d->arena->feed_time, relaxed, N1));
  ctx->wake_number = SD_AT_END;
}

int sd_dispatcher_finish(sd_dispatcher *d) {
  for (uint32_t key = 0; d->seen && key < d->arena->n_symbols; key++) {
    const sd_handler *handler = &d->handlers[d->strands[d->map[key]].handler];
    if (!handler->finish || !sd_dispatcher_seen(d, key)) continue;
    d->seen[key] = 0;
    sd_context ctx;
    end_context(d, key, &ctx);
    int code = handler->finish(d->rows, key, &ctx);
    if (finished(d, key, code, ctx.message, &ctx)) return SD_E_HANDLER;
  }
  return SD_OK;
}

int sd_dispatcher_finished(sd_dispatcher *d, uint32_t key, int32_t code, const char *message) {
  d->seen[key] = 0;
  sd_context ctx;
  end_context(d, key, &ctx);
  return finished(d, key, code, message, &ctx);
}

void sd_note_seen(sd_dispatcher *d, const unsigned char *records, int64_t n) {
  const size_t size = d->arena->record_size;
  for (int64_t i = 0; i < n; i++, records += size) {
    /* Its neighbours are written by other cores: once only. */
    unsigned char *seen = &d->seen[sd_key_of(d, records)];
    if (SD_UNLIKELY(!*seen)) *seen = 1;
  }
}

int sd_dispatcher_seen(sd_dispatcher *d, uint32_t key) {
  /* P4: what a handler left when it failed is not to be made anything of. */
  return d->seen && d->seen[key] && !(sd_load(&d->strands[d->map[key]].control, relaxed, P4) & SD_QUARANTINED);
}

/* ---- making and unmaking */

int sd_timers_connect(sd_dispatcher *d) {
  const sd_arena *a = d->arena;
  int finishes = 0, timed = 0;
  for (uint32_t i = 0; i < d->n_handlers; i++) {
    const sd_handler *h = &d->handlers[i];
    if (h->fn ? h->wake != NULL : h->wakes) timed = 1;
    finishes |= h->fn ? h->finish != NULL : h->finishes;
  }
  if (finishes && !(d->seen = calloc(a->n_symbols, 1))) return SD_E_NO_MEMORY;
  if (!timed) return SD_OK;
  if (!d->config.sizes.marked) return SD_E_ARGUMENT;
  d->clock_until = calloc(a->n_strands, sizeof *d->clock_until);
  if (!d->clock_until) return SD_E_NO_MEMORY;
  if (sd_wishes_create(&d->wishes, d->map, a->n_symbols, a->n_strands)) return SD_E_NO_MEMORY;
  /* K7: release; see sd_timed(). */
  sd_store(&d->timed, 1u, release, K7);
  return SD_OK;
}

void sd_timers_destroy(sd_dispatcher *d) {
  free(d->seen);
  free(d->clock_until);
  sd_wishes_destroy(&d->wishes);
}
