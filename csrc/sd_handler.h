/* What the core expects of a handler. This header stands alone: a handler in your own shared object needs no other. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "sd_task.h"
#include "sd_tick.h"

/* Asks for a line that is to be written. This is assembly on x86-64, where compilers make a read prefetch of it without -mprfchw. */
#if defined(__x86_64__)
#define SD_FETCH_TO_WRITE(p) __asm__ __volatile__("prefetchw %0" ::"m"(*(const char *)(p)))
#else
#define SD_FETCH_TO_WRITE(p) __builtin_prefetch((p), 1)
#endif
enum { SD_EMIT_AHEAD = 1024 };

struct sd_context;

/* cffi: begin */
/* Where a record stands: its number in the order of publishing, and the feed's time there (the greatest ts_recv up to it). */
typedef struct sd_position {
  uint64_t number;
  int64_t time;
} sd_position;

/* Where records have the feed's sequence. Its lower 32 bits lie `low` bytes from the record's key. Its other bits are those from bit
 * `shift` on of the 32 bits that lie `high` bytes from the key. */
typedef struct sd_sequence_at {
  int32_t low, high;
  uint32_t shift;
  uint64_t none; /* SD_NO_SEQUENCE where records have none, else 0 */
} sd_sequence_at;

/* The sequence of a record without such a field, of a timer, and of the end of the run. */
#define SD_NO_SEQUENCE UINT64_MAX
/* cffi: end */

/* `offset`: where a record has a u64 sequence; UINT32_MAX: it has none. If `high` is not 0, the field at `offset` is a u32, and the byte
 * at `high` has the next eight bits, as in sd_tick. */
static inline sd_sequence_at sd_sequence_at_of(uint32_t key_offset, uint32_t offset, uint32_t high) {
  sd_sequence_at at = {0, 0, 0, SD_NO_SEQUENCE};
  if (offset == UINT32_MAX) return at;
  at.low = (int32_t)offset - (int32_t)key_offset;
  at.high = high ? (int32_t)high - 3 - (int32_t)key_offset : at.low + 4;
  at.shift = high ? 24 : 0;
  at.none = 0;
  return at;
}

/* The sequence of the record with this key. */
static inline uint64_t sd_sequence_of(const sd_sequence_at *at, const unsigned char *key) {
  uint32_t low, high;
  memcpy(&low, key + at->low, sizeof low);
  memcpy(&high, key + at->high, sizeof high);
  return at->none | (uint64_t)(high >> at->shift) << 32 | low;
}

/* cffi: begin */
/* What precedes an emitted record while it waits to be merged. */
typedef struct sd_emitted {
  uint64_t number; /* of the tick; SD_TIMER or SD_AT_END */
  uint64_t sequence;
  int64_t time;
  uint32_t key;
  uint32_t link; /* 0; then for the engine */
} sd_emitted;
/* cffi: end */

/* An alarm as the engine keeps it, for a handler at feed time `now`. 0 forgets the alarm. A time that is not after `now` becomes the next
 * ns. The greatest time stands for never, even if a record has it. */
static inline uint64_t sd_alarm_after(int64_t ns, int64_t now) {
  if (ns == 0) return 0;
  if (ns <= now) ns = now + (now != INT64_MAX);
  return ns == INT64_MAX ? 0 : (uint64_t)ns;
}

/* The number of a record that no tick emitted: from a timer, or from the end of the run. */
#define SD_TIMER UINT64_MAX
#define SD_AT_END (UINT64_MAX - 1)

/* cffi: begin */
/* One output of one participant: filled by that participant's thread alone. */
typedef struct sd_output_writer {
  unsigned char *at, *end; /* the next entry, and where the last one has to end */
  uint32_t record_bytes;   /* of a record as declared */
  uint32_t entry_bytes;    /* of a record with its sd_emitted, a multiple of 8 */
  int (*more)(struct sd_context *ctx,
              struct sd_output_writer *writer); /* gets memory for an entry; nonzero: there is none */
} sd_output_writer;

/* What a handler is called with, beside its records. */
typedef struct sd_context {
  const void *params;   /* what was registered with the handler */
  uint64_t row_stride;  /* bytes from one symbol's row to the next */
  uint64_t n_rows;      /* rows: one per symbol */
  uint64_t record_size; /* bytes per record */
  uint32_t participant; /* the worker (or publisher) that calls */
  int32_t error_code;   /* set by a handler that fails: its own number, shown in the error */
  char message[104];    /* likewise: what went wrong, zero-terminated; may stay empty */
  void *engine;         /* the dispatcher's own; not for handlers */
  /* Publishes records from inside a handler. Never waits: returns 0, SD_E_WOULD_DEADLOCK when a strand that would block is full, or
   * another code of sd_error.h. *accepted: how many records were accepted. */
  int (*publish)(struct sd_context *ctx, const void *records, int64_t n, int64_t *accepted);
  const sd_position *positions; /* of the records of this call; NULL unless the dispatcher has outputs or timers */
  /* Asks for a call of sd_wake_fn at feed time ns, for the symbol with this key: the symbol of the record or timer that runs. Replaces an
   * earlier alarm; 0 forgets it. A time that is not after the time of the record or timer becomes the next ns. NULL if the handler has no
   * sd_wake_fn. */
  void (*wake_at)(struct sd_context *ctx, uint32_t key, int64_t ns);
  /* for sd_emit; not for handlers */
  const unsigned char *keys;  /* the key of this call's first record; the next one's lies record_size further */
  sd_output_writer **writers; /* two per output: for what ticks emit, and for i = -1 */
  uint32_t n_outputs;
  uint32_t wake_key;    /* of i = -1: whose timer this call is, ... */
  int64_t wake_time;    /* ... for when it was set, ... */
  uint64_t wake_number; /* ... and SD_TIMER, or SD_AT_END */
  sd_sequence_at sequence;
  /* Set by wake_at for a time that later records of this call have reached. A handler that is registered to yield then returns at once:
   * it has handled record i and returns i + 1. The others follow in another call, after the timer. A handler that is not registered to
   * yield gets one record per call. */
  uint32_t yield;
  void *shared; /* for the parts of a chain that read one tape; NULL; not for handlers */
  /* for wake_at; not for handlers */
  uint32_t stopped;
  uint64_t call_start, call_end, alarm;
  uint64_t until; /* the clock's count after which no more timers are fired in a row */
  /* Submits tasks, as sd_task_context has it. A handler that is registered as one that never publishes submits free tasks alone: it gets
   * SD_E_WOULD_DEADLOCK for others. */
  int64_t (*submit)(struct sd_context *ctx, sd_task_spec *specs, uint32_t n);
} sd_context;

/* Runs over n records in publish order. The row of a record's symbol is at rows + key * row_stride, and no other thread touches it
 * meanwhile. Records of one call may belong to different symbols of the same strand. Returns n, or the index of the record on which it
 * failed: the records before it count as handled, that one as failed. */
typedef int64_t (*sd_handler_fn)(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);

/* A trade of the feed, as a handler with on="trade" gets it: it has a price, and is of whatever ticks are trades there. strand/ticks.py has
 * the same layout as TRADE. */
typedef struct sd_traded {
  int64_t ts_event, ts_recv; /* of its tick, as `sequence` and `publisher_id` */
  uint64_t order_id;         /* the resting order; 0: none is known */
  int64_t price, size;
  uint32_t instrument_id;
  uint16_t publisher_id;
  char aggressor; /* A seller, B buyer, N nobody can tell */
  uint8_t hidden;
  uint64_t match_id; /* 0: the feed has none */
  int64_t sequence;
  uint8_t cross;
  uint8_t unused[7];
} sd_traded;
/* cffi: end */

/* As sd_handler_fn, for a handler with on="trade": it is called with trades, and with no other tick. */
typedef int64_t (*sd_traded_fn)(void *rows, const sd_traded *trades, int64_t n, sd_context *ctx);

/* Adds to a total, a sum of sizes in a row. Nonzero: the sum is beyond 2^63 - 1, the total stays as it was, and *ctx says so: return i. */
static inline int sd_add_total(int64_t *total, int64_t more, sd_context *ctx) {
  int64_t sum;
  if (__builtin_expect(__builtin_add_overflow(*total, more, &sum), 0)) {
    ctx->error_code = -3; /* SD_E_ARGUMENT */
    snprintf(ctx->message, sizeof ctx->message,
             "a total is beyond 2**63 - 1: read its sizes in a coarser unit (size_unit)");
    return -1;
  }
  *total = sum;
  return 0;
}

/* cffi: begin */
/* Optional further functions of a handler. sd_wake_fn runs at a timer: before the symbol's first record at or after `time`, or when the
 * feed's time passes it. */
typedef int (*sd_wake_fn)(void *rows, uint32_t key, int64_t time, sd_context *ctx);
/* Runs once for each symbol after its last record, in the order of keys, when a run ends. */
typedef int (*sd_finish_fn)(void *rows, uint32_t key, sd_context *ctx);
/* cffi: end */

/* Returns the memory for a record of output `output` (0, 1, ... as the handler declares them), emitted for record i of this call, or for
 * the timer with i = -1. Fill it before you emit anything else. NULL: fail with what *ctx says. */
static inline void *sd_emit_reserve(sd_context *ctx, uint32_t output, int64_t i) {
  if (__builtin_expect(output >= ctx->n_outputs, 0)) {
    snprintf(ctx->message, sizeof ctx->message, "it emits to output %u but has declared %u", output, ctx->n_outputs);
    ctx->error_code = -3; /* SD_E_ARGUMENT */
    return NULL;
  }
  sd_output_writer *writer = ctx->writers[2 * output + (i < 0)];
  if (__builtin_expect(writer->at == writer->end, 0) && writer->more(ctx, writer)) return NULL;
  /* The merger used this line last. A prefetch beyond the chunk does no harm. */
  SD_FETCH_TO_WRITE(writer->at + SD_EMIT_AHEAD);
  /* The head is written field by field: one that is built elsewhere and copied would wait for its own stores. */
  sd_emitted *head = (sd_emitted *)(void *)writer->at;
  if (i >= 0) {
    const unsigned char *at = ctx->keys + (uint64_t)i * ctx->record_size;
    uint32_t key;
    memcpy(&key, at, sizeof key);
    head->number = ctx->positions[i].number;
    head->sequence = sd_sequence_of(&ctx->sequence, at);
    head->time = ctx->positions[i].time;
    head->key = key;
  } else {
    head->number = ctx->wake_number;
    head->sequence = SD_NO_SEQUENCE;
    head->time = ctx->wake_time;
    head->key = ctx->wake_key;
  }
  head->link = 0;
  writer->at += writer->entry_bytes;
  return head + 1;
}

/* Emits a copy of a record, with as many bytes as the output declared. Nonzero: fail with what *ctx says. */
static inline int sd_emit(sd_context *ctx, uint32_t output, int64_t i, const void *record) {
  void *to = sd_emit_reserve(ctx, output, i);
  if (!to) return -1;
  const uint32_t bytes = ctx->writers[2 * output]->record_bytes;
  /* A call of memcpy costs as much as all the rest. */
#define SD_IS(n) (bytes == (n) && __builtin_object_size(record, 0) >= (n))
  if (SD_IS(8)) memcpy(to, record, 8);
  else if (SD_IS(16)) memcpy(to, record, 16);
  else if (SD_IS(24)) memcpy(to, record, 24);
  else if (SD_IS(32)) memcpy(to, record, 32);
  else memcpy(to, record, bytes);
#undef SD_IS
  return 0;
}
