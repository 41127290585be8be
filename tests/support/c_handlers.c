/* Handlers that tests compile into a shared object, as a user would. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "sd_error.h"
#include "sd_handler.h"

static void *row_of(void *rows, const sd_tick *t, const sd_context *ctx) {
  return (char *)rows + t->instrument_id * ctx->row_stride;
}

/* Each publisher (publisher_id) numbers a symbol's ticks 1, 2, 3 ... in `sequence`. */
typedef struct order_row {
  _Atomic uint32_t busy;
  uint32_t overlaps; /* two at a time */
  uint64_t disorder; /* not the publisher's next */
  uint64_t ticks;
  uint64_t last[8];
} order_row;

int64_t on_order(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) {
    order_row *row = row_of(rows, &ticks[i], ctx);
    if (atomic_exchange(&row->busy, 1)) row->overlaps++;
    uint64_t *last = &row->last[ticks[i].publisher_id & 7];
    if ((uint64_t)sd_sequence(&ticks[i]) != *last + 1) row->disorder++;
    *last = (uint64_t)sd_sequence(&ticks[i]);
    row->ticks++;
    if (row->ticks % 97 == 0) sched_yield(); /* leaves time to be caught in the middle */
    atomic_store(&row->busy, 0);
  }
  return n;
}

/* Passes a tick on to the next symbol, or across the table where side is B, until it has gone order_id steps. */
typedef struct relay_row {
  uint64_t ticks;
  uint64_t refused;
} relay_row;

int64_t on_relay(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) {
    relay_row *row = row_of(rows, &ticks[i], ctx);
    row->ticks++;
    if (ticks[i].order_id == 0) continue;
    sd_tick next = ticks[i];
    int64_t accepted;
    next.order_id--;
    next.instrument_id =
        (uint32_t)((ticks[i].side == 'B' ? ctx->n_rows - 1 - ticks[i].instrument_id : ticks[i].instrument_id + 1) %
                   ctx->n_rows);
    if (ctx->publish(ctx, &next, 1, &accepted) != SD_OK || accepted != 1) row->refused++;
  }
  return n;
}

/* Publishes order_id ticks to its own symbol; the row keeps the code it got and how many went in. */
typedef struct burst_row {
  uint64_t ticks;
  int64_t code;
  int64_t accepted;
} burst_row;

int64_t on_burst(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) {
    burst_row *row = row_of(rows, &ticks[i], ctx);
    row->ticks++;
    if (ticks[i].order_id == 0) continue;
    sd_tick more[64];
    int64_t count = ticks[i].order_id < 64 ? (int64_t)ticks[i].order_id : 64;
    for (int64_t j = 0; j < count; j++) {
      more[j] = ticks[i];
      more[j].order_id = 0;
    }
    row->code = ctx->publish(ctx, more, count, &row->accepted);
  }
  return n;
}

/* Sums sizes, and fails on a tick whose action is X. */
typedef struct sum_row {
  uint64_t ticks;
  uint64_t total;
} sum_row;

int64_t on_sum(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) {
    if (ticks[i].action == 'X') {
      ctx->error_code = 42;
      snprintf(ctx->message, sizeof ctx->message, "action X at sequence %llu",
               (unsigned long long)sd_sequence(&ticks[i]));
      return i;
    }
    sum_row *row = row_of(rows, &ticks[i], ctx);
    row->ticks++;
    row->total += ticks[i].size;
  }
  return n;
}

/* Notes where the symbol's last tick lay. */
int64_t on_where(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) {
    sum_row *row = row_of(rows, &ticks[i], ctx);
    row->ticks++;
    row->total = (uintptr_t)&ticks[i];
  }
  return n;
}

/* Fails without a word. */
int64_t on_fail(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  (void)rows, (void)ticks, (void)n, (void)ctx;
  return 0;
}

/* Returns what no handler may. */
int64_t on_nonsense(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  (void)rows, (void)ticks, (void)ctx;
  return n + 7;
}

/* Any record with a u32 at params[0] bytes: counts, and fails where the u32 at params[1] is not 0. */
typedef struct raw_row {
  uint64_t ticks;
} raw_row;

int64_t on_raw(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  const uint32_t *at = ctx->params;
  for (int64_t i = 0; i < n; i++) {
    const char *record = (const char *)ticks + (uint64_t)i * ctx->record_size;
    uint32_t key, fails;
    memcpy(&key, record + at[0], sizeof key);
    memcpy(&fails, record + at[1], sizeof fails);
    if (fails) return i;
    ((raw_row *)((char *)rows + key * ctx->row_stride))->ticks++;
  }
  return n;
}

/* Sleeps on the scheduler until the flag that params points to is set. */
int64_t on_gate(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  _Atomic uint64_t *open = *(_Atomic uint64_t *const *)ctx->params;
  for (int64_t i = 0; i < n; i++) {
    if (ticks[i].action == 'W')
      while (!atomic_load(open)) sched_yield();
    sum_row *row = row_of(rows, &ticks[i], ctx);
    row->ticks++;
  }
  return n;
}

/* As on_sum. At a symbol's tick params[0] it says so in params[1], and goes on when params[2] is set. */
int64_t on_halt(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  _Atomic uint64_t *halt = *(_Atomic uint64_t *const *)ctx->params;
  for (int64_t i = 0; i < n; i++) {
    sum_row *row = row_of(rows, &ticks[i], ctx);
    row->total += ticks[i].size;
    if (++row->ticks != atomic_load(halt)) continue;
    atomic_store(halt + 1, 1);
    while (!atomic_load(halt + 2)) sched_yield();
  }
  return n;
}

/* Emits to its first output as many records a tick as `depth` says, to its second one every fifth of a symbol's ticks. Fails,
 * after it has emitted, on a tick whose flags are 255. */
typedef struct echo_row {
  uint64_t ticks;
} echo_row;

typedef struct echoed {
  uint64_t count; /* the symbol's tick, from 1 */
  uint32_t size;
  uint8_t place;
} echoed;

int64_t on_echo(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) {
    echo_row *row = row_of(rows, &ticks[i], ctx);
    row->ticks++;
    for (uint8_t place = 0; place < ticks[i].depth; place++) {
      echoed record;
      memset(&record, 0, sizeof record);
      record.count = row->ticks;
      record.size = ticks[i].size;
      record.place = place;
      if (sd_emit(ctx, 0, i, &record)) return i;
    }
    uint32_t fifth = (uint32_t)row->ticks;
    if (row->ticks % 5 == 0 && sd_emit(ctx, 1, i, &fifth)) return i;
    if (ticks[i].flags != 255) continue;
    ctx->error_code = 7;
    return i;
  }
  return n;
}

/* Emits as on_echo does to its first output, but the first records of all ticks of a call before the others of any. */
int64_t on_echo_in_turns(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  int more = 1;
  for (uint8_t place = 0; more; place++) {
    more = 0;
    for (int64_t i = 0; i < n; i++) {
      echoed record;
      if (place == 0) ((echo_row *)row_of(rows, &ticks[i], ctx))->ticks++;
      if (place >= ticks[i].depth) continue;
      more = 1;
      memset(&record, 0, sizeof record);
      record.size = ticks[i].size;
      record.place = place;
      if (sd_emit(ctx, 0, i, &record)) return i;
    }
  }
  return n;
}

/* Asks for timers at times drawn from what it has seen, and says at each what that was. params: two u64: a multiplier, and
 * whether it returns where it is told to yield. */
typedef struct alarm_row {
  uint64_t ticks;
  uint64_t wakes;
  uint64_t hash;
  uint64_t finished;
} alarm_row;

typedef struct alarm_out {
  uint64_t hash;
  uint32_t ticks;
  uint32_t what; /* 0 a tick, 1 a timer, 2 the end */
} alarm_out;

static uint64_t mixed(uint64_t hash, uint64_t value, const sd_context *ctx) {
  return (hash ^ value) * (((const uint64_t *)ctx->params)[0] | 1);
}

static int say(const alarm_row *row, uint32_t what, int64_t i, sd_context *ctx) {
  alarm_out out = {row->hash, (uint32_t)row->ticks, what};
  return ctx->n_outputs ? sd_emit(ctx, 0, i, &out) : 0;
}

/* Sometimes a time before now, which is as good as the next ns; sometimes none. */
static void ask(const alarm_row *row, uint32_t key, uint64_t now, sd_context *ctx) {
  uint64_t draw = row->hash >> 33;
  if (draw % 3 == 0) ctx->wake_at(ctx, key, draw % 7 == 0 ? 0 : now + draw % 50 - 3);
}

int64_t on_alarm(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) {
    alarm_row *row = row_of(rows, &ticks[i], ctx);
    row->ticks++;
    row->hash = mixed(row->hash, (uint64_t)sd_sequence(&ticks[i]) * 0x9e3779b97f4a7c15u, ctx);
    if (row->hash >> 62 == 0 && say(row, 0, i, ctx)) return i;
    ctx->yield = 0;
    ask(row, ticks[i].instrument_id, ctx->positions[i].time, ctx);
    if (ctx->yield && ((const uint64_t *)ctx->params)[1]) return i + 1;
  }
  return n;
}

int wake_alarm(void *rows, uint32_t key, int64_t time, sd_context *ctx) {
  alarm_row *row = (alarm_row *)((char *)rows + key * ctx->row_stride);
  row->wakes++;
  row->hash = mixed(row->hash, time, ctx);
  ask(row, key, time, ctx);
  return say(row, 1, -1, ctx);
}

int finish_alarm(void *rows, uint32_t key, sd_context *ctx) {
  alarm_row *row = (alarm_row *)((char *)rows + key * ctx->row_stride);
  row->finished++;
  row->hash = mixed(row->hash, key + 1, ctx);
  return say(row, 2, -1, ctx);
}

/* Fails at its timer, which its first tick asks for. */
int64_t on_bomb(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) {
    sum_row *row = row_of(rows, &ticks[i], ctx);
    if (row->ticks++ == 0) ctx->wake_at(ctx, ticks[i].instrument_id, ctx->positions[i].time + 5);
  }
  return n;
}

int wake_bomb(void *rows, uint32_t key, int64_t time, sd_context *ctx) {
  (void)rows, (void)key;
  snprintf(ctx->message, sizeof ctx->message, "boom at %llu", (unsigned long long)time);
  ctx->error_code = 7;
  return -1;
}

int finish_bomb(void *rows, uint32_t key, sd_context *ctx) {
  (void)rows;
  snprintf(ctx->message, sizeof ctx->message, "no end of %u", key);
  return 9;
}

/* Counts how often the task was told to run. */
void count_task(sd_task_context *ctx, void *argument, int why) {
  (void)ctx;
  if (why == SD_TASK_RUN) atomic_fetch_add((_Atomic uint64_t *)argument, 1);
}

/* Of (trades, volume, notional), each i64: what trades sum up to. */
int64_t on_trades(void *rows, const sd_traded *trades, int64_t n, sd_context *ctx) {
  for (int64_t i = 0; i < n; i++) {
    int64_t *row = (int64_t *)(void *)((unsigned char *)rows + trades[i].instrument_id * ctx->row_stride);
    row[0]++;
    if (sd_add_total(&row[1], trades[i].size, ctx)) return i;
    row[2] += trades[i].price * trades[i].size;
  }
  return n;
}
