/* The dispatcher itself under Relacy: the core's own files, compiled as they are, with the small sizes of the seeded scheduler.
 *
 * What the checker sees are atomic operations and SD_PLAIN variables. What lies in ordinary memory beside them (records in
 * segments, positions, emitted entries, a failure's text) has a shadow here: an SD_PLAIN that is written before the engine is told
 * and read after it has told somebody else.
 */
#pragma once

#define SD_MODEL_RELACY 1
#define SD_MODEL_SCHEDULER 1

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/atomic.h"

#include "alarms/tree.c"
#include "base/meter.c"
#include "emit/alarm_merge.c"
#include "emit/writer.c"
#include "engine/describe.c"
#include "engine/finish.c"
#include "engine/inspect.c"
#include "memory/space.c"
#include "merge/merge.c"
#include "merge/rounds.c"
#include "numbering/failure.c"
#include "numbering/watermark.c"
#include "publish/admission.c"
#include "publish/chunk.c"
#include "publish/cost_model.c"
#include "publish/listing.c"
#include "publish/numbers.c"
#include "publish/one_by_one.c"
#include "publish/publish.c"
#include "worker/overdue.c"

#include "all_of_schedule.c" /* run.sh writes it */

#include "worker/alarm.c"
#include "worker/call.c"
#include "worker/free_task.c"
#include "worker/permit.c"
#include "worker/py_batch.c"
#include "worker/py_emit.c"
#include "worker/py_worker.c"
#include "worker/submit.c"
#include "worker/suspend.c"
#include "worker/task.c"
#include "worker/visit.c"
#include "worker/yield.c"
/* Files that have a name in common with one before. */
#define RECORDS_AHEAD RECORDS_AHEAD_INLINE
#include "publish/inline.c"
#define PAUSES PAUSES_OF_A_WORKER
#include "worker/waiting.c"
#include "worker/worker.c"
/* Memory for atomics comes from the model. */
#define sd_arena_get arena_get
#include "state/arena.c"
#undef sd_arena_get
#include "engine/dispatcher.c"
/* Blocks have a model of their own (blocks.cpp): records go the other ways here. */
void sd_blocks_destroy(sd_dispatcher *) {}
int sd_blocks_decide(sd_dispatcher *) { return SD_OK; }
void sd_give_way(sd_dispatcher *, uint32_t) {}
int sd_blocks_reason(const sd_dispatcher *) { return SD_BLOCKS_HANDLERS; }
int sd_publish_in_blocks(sd_dispatcher *, uint32_t, sd_publisher *) { return 0; }
int sd_run_in_blocks(sd_dispatcher *, uint32_t, const sd_block_source *, void *, uint64_t, sd_blocks_done *) {
  return SD_AGAIN;
}
uint64_t sd_choice_tried_after(uint64_t) { return 0; }
void sd_choice_learn(sd_choice *, const sd_dispatcher *, uint64_t, uint64_t, int) {}

#include "model_run.hpp"

enum {
  STRANDS = 2,
  WORKERS = 1,
  PUBLISHERS = 2,
  PARTICIPANTS = WORKERS + PUBLISHERS,
  SYMBOLS = 2,
  SEGMENTS = 24,
  SEGMENT_RECORDS = 2,
  TASKS = 16,
  RING = 16, /* entries: strands, and tasks */
  CHUNKS = 12,
  NODES = 2 * SYMBOLS + 8 * STRANDS,
  MOST = 16, /* records, and timers, in all */
  BATCH = 2
};

struct record {
  uint32_t key, id; /* id: of a model's records, from 0 */
  uint64_t time;
};

struct emission {
  uint64_t place; /* of its shadow */
};

struct segment {
  sd_segment head;
  unsigned char unused[SD_SEGMENT_HEADER - sizeof(sd_segment)];
  record records[SEGMENT_RECORDS];
  sd_position positions[SEGMENT_RECORDS];
};

struct chunk {
  sd_chunk head;
  unsigned char unused[SD_CHUNK_BYTES - sizeof(sd_chunk)];
};

struct engine;
static engine *E;

static int64_t handle(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx);
static int wake(void *rows, uint32_t key, int64_t time, sd_context *ctx);

/* One worker, publishers, and perhaps a merger. */
struct engine {
  sd_space_head head; /* where a space begins */
  sd_arena arena;
  sd_space space; /* all of this */
  sd_dispatcher d;
  sd_strand strands[STRANDS];
  sd_list lists[PARTICIPANTS];
  sd_a32 rings[PARTICIPANTS][RING];
  sd_participant participants[PARTICIPANTS];
  sd_level_counts by_level[PARTICIPANTS];
  sd_task tasks[TASKS];
  SD_PLAIN(uint32_t) task_stack[TASKS];
  SD_PLAIN(uint32_t) stack[SEGMENTS];
  segment segments[SEGMENTS];
  uint32_t map[SYMBOLS];
  unsigned char rows[SYMBOLS][SD_LINE];
  sd_handler handler;
  const sd_py_batch *py_batches[PARTICIPANTS];
  sd_watch watch[PARTICIPANTS][PARTICIPANTS], *watches[PARTICIPANTS];
  uint64_t last_number[STRANDS], target[STRANDS];
  uint32_t target_strand[STRANDS];
  sd_a64 until[STRANDS], nodes[NODES];
  uint64_t of_alarms[3][2 * STRANDS]; /* where alarms are */
  uint32_t n_of_alarms;
  /* outputs */
  sd_outputs outputs;
  sd_output output;
  sd_emit_buffer buffers[PARTICIPANTS][2], *buffer[PARTICIPANTS * 2];
  sd_output_writer *writer[PARTICIPANTS][2], **writers[PARTICIPANTS];
  size_t first_writer;
  uint32_t declared;
  sd_emitted_so_far so_far[PARTICIPANTS][2];
  sd_chunk_list chunk_list;
  chunk chunks[CHUNKS];

  /* what the checker sees beside the engine */
  SD_PLAIN(uint64_t) row[SYMBOLS];
  SD_PLAIN(uint64_t) done[MOST];                    /* by number, or without positions by id */
  SD_PLAIN(uint64_t) shadow[PARTICIPANTS][2][MOST]; /* of what was emitted: in each buffer one after the other */

  /* the oracle: ordinary variables */
  uint64_t now;
  uint32_t handled, published, others;
  bool was_done[MOST];
  uint64_t passed;                          /* the greatest watermark that somebody was told */
  uint64_t time_of[MOST], least_time[MOST]; /* by number; by id, the earliest time that the record may get */
  uint32_t emitted[PARTICIPANTS][2], seen[PARTICIPANTS][2], merged[2];
  uint64_t alarm[SYMBOLS], last_time[SYMBOLS], fired[SYMBOLS];
  uint32_t fires;
  uint64_t merged_number, merged_time;
  int merged_timer;
  uint32_t merged_key;
  bool emits, timed;

  void begin(bool has_positions, bool with_outputs, bool with_timers, bool inlined) {
    E = this;
    now = passed = handled = published = others = fires = 0;
    memset(was_done, 0, sizeof was_done);
    memset(time_of, 0, sizeof time_of);
    memset(least_time, 0, sizeof least_time);
    memset(emitted, 0, sizeof emitted);
    memset(seen, 0, sizeof seen);
    memset(merged, 0, sizeof merged);
    memset(alarm, 0, sizeof alarm);
    memset(last_time, 0, sizeof last_time);
    memset(fired, 0, sizeof fired);
    merged_number = merged_time = 0, merged_timer = 0, merged_key = 0;
    emits = with_outputs, timed = with_timers;

    sd_arena *a = &arena;
    memset(&d.config, 0, sizeof d.config);
    d.failures = NULL;
    d.config.sizes = (sd_sizes){SYMBOLS,  STRANDS,       WORKERS, PUBLISHERS, sizeof(record), 0, SD_NONE, 0, SD_LINE,
                                SEGMENTS, has_positions, 0,       0};
    a->config = d.config;
    a->names = 0;
    sd_init(&head.root, 0u);
    a->n_symbols = SYMBOLS, a->n_strands = STRANDS, a->n_workers = WORKERS, a->n_publishers = PUBLISHERS;
    a->record_size = sizeof(record), a->key_offset = 0, a->row_stride = SD_LINE;
    a->sequence = sd_sequence_at_of(0, SD_NONE, 0);
    a->segment_records = SEGMENT_RECORDS, a->n_segments = SEGMENTS, a->segment_bytes = sizeof(segment);
    a->positions_at = has_positions ? offsetof(segment, positions) : 0;
    d.space = &space;
    space.base = (unsigned char *)this, space.fd = -1;
    a->strands = sd_space_offset(&space, strands), a->lists = sd_space_offset(&space, lists);
    a->policy = sd_space_offset(&space, rings), a->participants = sd_space_offset(&space, participants);
    start(&space, a);
    a->free_list.filled = SEGMENTS;
    RL_ASSERT(a->task_list.n <= TASKS && a->n_strands + a->task_list.n <= RING);

    d.arena = a, d.strands = strands, d.participants = participants, d.map = map, d.rows = rows[0];
    d.by_level = by_level, d.n_levels = 1;
    d.ready = sd_arena_ready(&space, a);
    d.policy = &sd_policy_fifo;
    d.pool.list = &a->free_list, d.pool.stack = stack, d.pool.segments = (unsigned char *)segments;
    d.pool.segment_bytes = sizeof(segment), d.pool.record_size = sizeof(record), d.pool.records = SEGMENT_RECORDS;
    d.pool.positions_at = a->positions_at;
    d.tasks.list = &a->task_list, d.tasks.tasks = tasks, d.tasks.stack = task_stack, d.tasks.space = &space;
    declared = 0;
    memset(&handler, 0, sizeof handler);
    handler.fn = handle, handler.never_publishes = 1;
    handler.n_outputs = emits, handler.outputs = &declared;
    handler.wake = timed ? wake : NULL;
    d.handlers = &handler, d.n_handlers = 1, d.n_workers = WORKERS, d.n_participants = PARTICIPANTS;
    d.config.time_offset = has_positions ? offsetof(record, time) : SD_NONE;
    d.config.on_error = SD_ON_ERROR_STOP;
    d.config.on_full = SD_BLOCK, d.config.capacity = 1000, d.config.budget_records = 2;
    d.config.batch_records = BATCH, d.config.ahead_records = 1000, d.config.publisher_drains = inlined;
    d.budget_counts = 1000000;
    d.all_native = 1, d.may_run_inline = inlined, d.cache_cold = d.lossy = d.shed = 0;
    for (auto &s : strands) {
      s.capacity = d.config.capacity, s.on_full = SD_BLOCK, s.lossy = 0, s.handler = 0;
      last_number[&s - strands] = 0;
    }
    for (uint32_t i = 0; i < SYMBOLS; i++) map[i] = i % STRANDS;
    memset(watch, 0, sizeof watch);
    for (uint32_t i = 0; i < PARTICIPANTS; i++)
      watches[i] = watch[i], py_batches[i] = NULL, participants[i].own_turns = 0;
    d.watches = watches, d.py_batches = py_batches, d.last_number = last_number;
    d.scratch = NULL, d.scratch_positions = NULL, d.seen = NULL, d.strand_time = NULL, d.overdue_until = NULL;
    d.watermark_target = target, d.watermark_strand = target_strand;
    a->watermark.left = 0, a->watermark.next = a->watermark.at = a->watermark.next_time = a->watermark.time = 0;
    d.outputs = NULL;
    RL_ASSERT(sd_publishers_create(&d) == SD_OK);
    memset(&d.alarms, 0, sizeof d.alarms);
    memset(of_alarms, 0, sizeof of_alarms);
    n_of_alarms = 0;
    if (emits) make_outputs();
  }

  void make_outputs() {
    sd_outputs *o = d.outputs = &outputs;
    o->n = 1, o->n_participants = PARTICIPANTS, o->output = &output, o->buffer = buffer, o->writers = writers,
    o->first_writer = &first_writer;
    first_writer = 0;
    chunk_list.free = SD_NONE, chunk_list.n = 0, chunk_list.filled = chunk_list.maximum = CHUNKS;
    o->pool.list = &chunk_list, o->pool.chunks = (unsigned char *)chunks, o->pool.space = &space;
    o->pool.soft_bytes = 1 << 20;
    o->frontier = o->time = o->looked = o->passed = o->late = 0, o->armed = UINT64_MAX, o->ended = 0;
    memset(&output, 0, sizeof output);
    output.record_bytes = sizeof(emission);
    output.entry_bytes = sizeof(sd_emitted) + sizeof(emission);
    output.merged_bytes = SD_MERGED_HEAD + sizeof(emission);
    for (uint32_t participant = 0; participant < PARTICIPANTS; participant++) {
      writers[participant] = writer[participant];
      for (uint32_t timers = 0; timers < 2; timers++) {
        sd_emit_buffer *l = buffer[participant * 2 + timers] = &buffers[participant][timers];
        writer[participant][timers] = &l->writer;
        l->writer.at = l->writer.end = NULL;
        l->writer.more = more, l->writer.record_bytes = output.record_bytes, l->writer.entry_bytes = output.entry_bytes;
        l->d = &d, l->timers = (int)timers;
        l->pool = &o->pool, l->so_far = &so_far[participant][timers];
        l->chunk = l->done_chunk = l->reading = l->oldest = NULL;
        l->done = l->at = NULL, l->before = l->minimum = l->read = l->straight = 0;
        l->chunk_bytes = (SD_CHUNK_BYTES - SD_CHUNK_HEADER) / output.entry_bytes * output.entry_bytes;
      }
    }
  }

  void end() {
    sd_publishers_destroy(&d);
    if (!emits) return;
    for (uint64_t p = 0; p < output.n_pages; p++) free(output.pages[p]);
    free(output.pages);
    free(output.spare);
    sd_alarm_records_free(&output.timers);
  }

  /* ---- moves */

  void publish(uint32_t participant, const record *records, int64_t n) {
    published += (uint32_t)n;
    RL_ASSERT(sd_publish(&d, participant, records, n, 1000000) == SD_OK);
  }
  /* All below a watermark has been handled, and what its handlers wrote may be read. Without positions nobody says which record has
   * which number, and some numbers are given out twice. */
  void pass(uint64_t position) {
    RL_ASSERT(position <= MOST);
    if (position > passed) passed = position;
    if (!d.config.sizes.has_positions) RL_ASSERT(handled >= position);
    if (!d.config.sizes.has_positions && position < published) return;
    for (uint64_t number = 0; number < position; number++)
      if (!d.config.sizes.has_positions || was_done[number]) RL_ASSERT((uint64_t)done[number] == 1);
  }
  bool anything_pending() {
    for (auto &s : strands)
      if (s.pending.debug_value() != 0) return true;
    return false;
  }
  /* Works until all others are done, and nothing is left. */
  void work(uint32_t n_others) {
    while (others < n_others || anything_pending())
      if (!sd_help(&d, 0)) sd_pause();
  }

  /* ---- handlers */

  void emit(sd_context *ctx, int64_t i, int timer, uint64_t what) {
    if (!emits) return;
    uint32_t n = emitted[ctx->participant][timer]++;
    RL_ASSERT(n < MOST);
    shadow[ctx->participant][timer][n] = what;
    emission e = {n | (uint64_t)ctx->participant << 8 | (uint64_t)timer << 16};
    RL_ASSERT(sd_emit(ctx, 0, i, &e) == 0);
  }
  static uint64_t some_alarm(uint64_t id, uint64_t time) { return id % 3 == 2 ? 0 : time + (id % 3 ? 10 : 4); }
  void on_record(const record *r, int64_t i, sd_context *ctx) {
    const uint32_t key = r->key;
    row[key] = row[key] + 1;
    handled++;
    RL_ASSERT(r->id < MOST);
    if (!ctx->positions) {
      done[r->id] = 1;
      return;
    }
    const sd_position m = ctx->positions[i];
    RL_ASSERT(m.number < MOST && m.number >= passed);
    done[m.number] = 1;
    was_done[m.number] = true;
    time_of[m.number] = m.time;
    RL_ASSERT((uint64_t)m.time >= r->time && (uint64_t)m.time >= least_time[r->id]);
    RL_ASSERT(!alarm[key] || alarm[key] > (uint64_t)m.time);
    RL_ASSERT((uint64_t)m.time >= fired[key]);
    last_time[key] = m.time;
    emit(ctx, i, 0, m.number);
    if (!timed) return;
    uint64_t ns = some_alarm(r->id, m.time);
    if (!ns) return;
    alarm[key] = ns;
    ctx->wake_at(ctx, key, ns);
  }
  void on_timer(uint32_t key, uint64_t time, sd_context *ctx) {
    row[key] = row[key] + 1;
    RL_ASSERT(alarm[key] == time && last_time[key] < time);
    fired[key] = time;
    emit(ctx, -1, 1, time);
    alarm[key] = fires++ < 2 ? time + 7 : 0;
    if (alarm[key]) ctx->wake_at(ctx, key, alarm[key]);
  }

  /* ---- the merger */

  /* All that buffers say they have is there, and may be read. */
  void look_at_buffers() {
    for (uint32_t participant = 0; participant < PARTICIPANTS; participant++)
      for (uint32_t timers = 0; timers < 2; timers++) {
        sd_emit_buffer *l = &buffers[participant][timers];
        uint64_t to = (l->read > l->straight ? l->read : l->straight) / output.entry_bytes;
        for (uint32_t &i = seen[participant][timers]; i < to; i++) (void)(uint64_t)shadow[participant][timers][i];
      }
  }
  void give_out() {
    unsigned char merged_records[8 * 64];
    for (int64_t n; (n = sd_outputs_take(&d, 0, merged_records, 8)) > 0;)
      for (int64_t i = 0; i < n; i++) {
        const unsigned char *at = merged_records + i * output.merged_bytes;
        uint64_t number, time;
        uint32_t key;
        memcpy(&number, at, 8), memcpy(&time, at + 16, 8), memcpy(&key, at + 24, 4);
        int timer = number == SD_TIMER;
        RL_ASSERT(time >= merged_time);
        if (time == merged_time && timer) RL_ASSERT(merged_timer ? key > merged_key : !merged[0] && !merged[1]);
        if (!timer) RL_ASSERT(number >= merged_number);
        if (!timer) merged_number = number + 1;
        merged_time = time, merged_timer = timer, merged_key = key;
        merged[timer]++;
      }
  }
  void merge(int how = SD_FINAL_LIVE) {
    RL_ASSERT(sd_outputs_round(&d, how) == SD_OK);
    look_at_buffers();
    give_out();
  }
  void end_merging() {
    merge(SD_FINAL_ALL);
    uint32_t all[2] = {0, 0};
    for (auto &participant : emitted)
      for (int timers = 0; timers < 2; timers++) all[timers] += participant[timers];
    RL_ASSERT(merged[0] == all[0] && merged[1] == all[1] && outputs.late == 0 && handled == published);
  }
};

static int64_t handle(void *rows, const sd_tick *ticks, int64_t n, sd_context *ctx) {
  (void)rows;
  for (int64_t i = 0; i < n; i++) E->on_record((const record *)ticks + i, i, ctx);
  return n;
}

static int wake(void *rows, uint32_t key, int64_t time, sd_context *ctx) {
  (void)rows;
  E->on_timer(key, (uint64_t)time, ctx);
  return 0;
}

void *sd_arena_get(sd_space *, uint64_t n, size_t size, uint64_t *offset) {
  *offset = SD_LINE;
  if (size == sizeof(sd_a64)) {
    RL_ASSERT(n == STRANDS || n == NODES);
    return n == STRANDS ? E->until : E->nodes;
  }
  RL_ASSERT(n * size <= sizeof E->of_alarms[0] && E->n_of_alarms < 3);
  return E->of_alarms[E->n_of_alarms++];
}
uint64_t sd_schedule_now() { return E->now++; }
uint64_t sd_schedule_on_cpu() { return E->now; }
sd_clock sd_the_clock = {0, 1.0};
void sd_clock_init() {}
/* Nobody sleeps. */
void sd_futex_wait(sd_a32 *, uint32_t) { RL_ASSERT(false); }
void sd_futex_wait_for(sd_a32 *, uint32_t, uint64_t) { RL_ASSERT(false); }
void sd_futex_wake(sd_a32 *, uint32_t) {}
