#include "blocks/blocks.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "emit/writer.h"
#include "numbering/failure.h"
#include "numbering/positions.h"
#include "sd_error.h"
#include "worker/accounting.h"
#include "worker/call.h"

#if defined(SD_MODEL_SCHEDULER)
enum { GATHERED = 2, BEHIND = 2, TURNS = 1, SAMPLE = 4, WINDOW_NS = 1000000, GIVE_WAY_NS = 50, TIMERS_NS = 500 };
#else
enum {
  GATHERED = 128,        /* records gathered for one call of the handler */
  BEHIND = 6,            /* a home so many blocks behind is handled by whoever comes by */
  TURNS = 64,            /* looks that found nothing before a thread yields its core */
  GIVE_WAY_NS = 5000000, /* how long the strands are free after a run, at most, while others wait for them */
  WINDOW_NS = 20000000,  /* how long a full window of blocks may take */
  TIMERS_NS = 20000000,  /* how long a block's timers of a home may take, if one asks for the next one for ever */
  SAMPLE = 1 << 18,      /* strands are dealt again when they have had so many records more, and then twice as many */
};
#endif
enum { KEYS_AHEAD = 16, MOST_IN_VAIN = 5 };
/* Of a key's count: the handler failed on one record more. Its strand is held then, so there is one at most. */
#define FAILED (UINT32_C(1) << 31)

/* What one thread that takes part writes. */
typedef struct member {
  SD_ALIGNED(2 * SD_LINE) uint32_t *counts; /* records handled in this run, by key */
  uint32_t *seen;                           /* the keys whose counts are not 0, each once */
  uint32_t n_seen;
  uint32_t stalls;                    /* how often the window had no slot for it */
  uint32_t in_vain;                   /* how often in a row others did not get on after a run that it published */
  uint64_t making, reading, handling; /* clock counts */
  unsigned char *records;             /* gathered */
  uint64_t places[GATHERED];          /* and their places, see sd_blocks_done */
  sd_position positions[GATHERED];    /* and their positions, if they have any */
  unsigned char *held;                /* records of strands whose handler failed before */
  uint64_t *held_places;
  sd_position *held_positions;
  uint64_t n_held, held_room;
  unsigned char *all_held; /* of a run that this participant published: what sd_blocks_done tells */
  uint64_t *all_places;
  sd_position *all_positions;
  uint64_t all_room;
} member;

struct sd_blocks {
  sd_window window;
  sd_home home[SD_MAX_HOMES];
  uint64_t home_handling[SD_MAX_HOMES]; /* clock counts of the run; written by the holder of its token */
  sd_a64 made[SD_BLOCK_SLOTS];
  sd_block slot[SD_BLOCK_SLOTS];
  sd_a32 running;                        /* a lock: one publisher at a time uses all of this */
  SD_ALIGNED(2 * SD_LINE) sd_a32 failed; /* a handler has failed in this run */
  /* written before the window opens */
  const sd_block_source *source;
  void *self;
  member *members;         /* per participant */
  uint8_t *home_of;        /* by key */
  uint8_t *home_of_strand; /* by strand; SD_NO_HOME: it has none */
  uint8_t *is_held;        /* by strand: its handler failed in this run; written by the holder of its home's token */
  uint32_t *strands;       /* that have a home, and how many */
  uint32_t n_strands;
  uint32_t *last_key; /* by strand: the last one of its keys, and by key: the one before it in its strand */
  uint32_t *key_before;
  uint32_t keys;
  uint64_t count_bytes; /* of a member's counts */
  uint64_t next_deal;   /* records handled when strands are dealt again */
  uint64_t handled;
  unsigned char *memory; /* of the slots */
  uint64_t memory_bytes;
  uint64_t taken; /* blocks of the last run */
  double cost;    /* clock counts per record of the last run, over all threads */
};

int sd_blocks_reason(const sd_dispatcher *d) {
  if (!d->policy->runs_inline) return SD_BLOCKS_ORDERED;
  if (!d->may_run_inline) return SD_BLOCKS_HANDLERS;
  if (d->config.on_full != SD_BLOCK || d->by_strand) return SD_BLOCKS_BOUND;
  if (!d->config.publisher_drains) return SD_BLOCKS_NO_DRAINING;
  if (d->config.one_core) return SD_BLOCKS_ONE_CORE;
  if (d->strand_time) return SD_BLOCKS_TIMED;
  return SD_BLOCKS_POSSIBLE;
}

/* ---- memory */

static void *zeros(uint64_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

static uint64_t in_lines(uint64_t bytes) { return (bytes + 2 * SD_LINE - 1) / (2 * SD_LINE) * (2 * SD_LINE); }

void sd_blocks_destroy(sd_dispatcher *d) {
  sd_blocks *b = d->blocks;
  if (!b) return;
  for (uint32_t i = 0; b->members && i < d->n_participants; i++) {
    if (b->members[i].counts) munmap(b->members[i].counts, b->count_bytes);
    if (b->members[i].seen) munmap(b->members[i].seen, b->count_bytes);
    free(b->members[i].records);
    free(b->members[i].held);
    free(b->members[i].held_places);
    free(b->members[i].held_positions);
    free(b->members[i].all_held);
    free(b->members[i].all_places);
    free(b->members[i].all_positions);
  }
  free(b->members);
  free(b->home_of);
  free(b->home_of_strand);
  free(b->strands);
  free(b->last_key);
  free(b->key_before);
  free(b->is_held);
  if (b->memory) munmap(b->memory, b->memory_bytes);
  free(b);
  d->blocks = NULL;
  sd_store(&d->joins_blocks, 0u, release, H9);
}

/* Memory for the slots' lists and bytes, of which only what is used is ever touched. */
static int make_room(sd_blocks *b, const sd_block_source *source, uint32_t n_homes) {
  const uint64_t lists = in_lines((uint64_t)n_homes * source->most * sizeof(sd_block_entry));
  const uint64_t a_slot = lists + in_lines(source->slot_bytes), bytes = a_slot * SD_BLOCK_SLOTS;
  if (b->memory_bytes < bytes) {
    if (b->memory) munmap(b->memory, b->memory_bytes);
    b->memory_bytes = 0;
    b->memory = zeros(bytes);
    if (!b->memory) return SD_E_NO_MEMORY;
    b->memory_bytes = bytes;
  }
  for (uint32_t i = 0; i < SD_BLOCK_SLOTS; i++) {
    b->slot[i].lists = (sd_block_entry *)(void *)(b->memory + i * a_slot);
    b->slot[i].bytes = b->memory + i * a_slot + lists;
    b->slot[i].room = source->most;
  }
  return SD_OK;
}

/* ---- homes */

typedef struct load {
  uint64_t records;
  uint32_t strand;
} load;

static int heavier(const void *one, const void *other) {
  const load *a = one, *c = other;
  if (a->records != c->records) return a->records < c->records ? 1 : -1;
  return a->strand < c->strand ? -1 : a->strand > c->strand;
}

/* Deals the strands to homes, the busiest first, each to the home that has least. */
static int deal(sd_dispatcher *d, sd_blocks *b, uint32_t n_homes) {
  load *of = calloc(b->n_strands, sizeof *of);
  uint64_t has[SD_MAX_HOMES] = {0};
  if (!of) return SD_E_NO_MEMORY;
  for (uint32_t i = 0; i < b->n_strands; i++) {
    const uint32_t strand = b->strands[i];
    /* C1: relaxed; the caller holds the publish locks of idle strands. */
    of[i] = (load){sd_load(&d->strands[strand].handled, relaxed, C1) - d->config.sizes.counters_start + 1, strand};
  }
  qsort(of, b->n_strands, sizeof *of, heavier);
  for (uint32_t i = 0; i < b->n_strands; i++) {
    uint32_t least = 0;
    for (uint32_t h = 1; h < n_homes; h++)
      if (has[h] < has[least]) least = h;
    has[least] += of[i].records;
    b->home_of_strand[of[i].strand] = (uint8_t)least;
  }
  free(of);
  for (uint32_t key = 0; key < b->keys; key++) b->home_of[key] = b->home_of_strand[d->map[key]];
  b->window.n_homes = n_homes;
  b->next_deal = b->handled < SAMPLE ? SAMPLE : 2 * b->handled;
  return SD_OK;
}

/* The strands of the first `keys` keys, each once. */
static void find_strands(sd_dispatcher *d, sd_blocks *b, uint32_t keys) {
  memset(b->home_of_strand, SD_NO_HOME, d->arena->n_strands);
  b->n_strands = 0;
  b->keys = keys;
  for (uint32_t key = 0; key < keys; key++) {
    const uint32_t strand = d->map[key];
    uint8_t *home = &b->home_of_strand[strand];
    const int is_new = *home == SD_NO_HOME;
    b->key_before[key] = is_new ? SD_NONE : b->last_key[strand];
    b->last_key[strand] = key;
    if (!is_new) continue;
    *home = 0;
    b->strands[b->n_strands++] = strand;
  }
}

static void let_go(sd_dispatcher *d, sd_blocks *b, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) sd_strand_disown(&d->strands[b->strands[i]]);
}

/* Owns all strands. SD_AGAIN: one is not idle, and none is owned; SD_E_FULL: one is held besides. */
static int own(sd_dispatcher *d, uint32_t participant, sd_blocks *b) {
  for (uint32_t i = 0; i < b->n_strands; i++) {
    sd_strand *s = &d->strands[b->strands[i]];
    if (SD_LIKELY(sd_strand_own_idle(s, participant))) continue;
    let_go(d, b, i);
    /* It is asked first from now on: with many strands, one that is paused would make each try dear. */
    b->strands[i] = b->strands[0];
    b->strands[0] = (uint32_t)(s - d->strands);
    /* P4: relaxed; a hint. */
    return sd_load(&s->control, relaxed, P4) ? SD_E_FULL : SD_AGAIN;
  }
  return SD_OK;
}

/* ---- handling */

static int more_room(member *m, size_t size) {
  const uint64_t room = m->held_room ? 2 * m->held_room : 1024;
  unsigned char *held = realloc(m->held, room * size);
  if (held) m->held = held;
  uint64_t *places = realloc(m->held_places, room * sizeof *places);
  if (places) m->held_places = places;
  sd_position *positions = realloc(m->held_positions, room * sizeof *positions);
  if (positions) m->held_positions = positions;
  if (!held || !places || !positions) return 0;
  m->held_room = room;
  return 1;
}

/* A record finds no memory. By who owns its strand. */
static void lose(sd_dispatcher *d, uint32_t participant, const unsigned char *record) {
  sd_strand *s = &d->strands[d->map[sd_key_of(d, record)]];
  sd_bump(&s->accepted, 1);
  /* C1: relaxed; the caller owns the strand. */
  sd_store(&s->lost, sd_load(&s->lost, relaxed, C1) + 1, relaxed, C1);
  sd_bump(&d->participants[participant].counters.accepted, 1);
  sd_bump(&d->participants[participant].counters.lost, 1);
}

/* Keeps gathered record i for its strand, which is held. */
static void hold(sd_dispatcher *d, uint32_t participant, uint32_t i) {
  const size_t size = d->arena->record_size;
  member *m = &d->blocks->members[participant];
  const unsigned char *record = m->records + i * size;
  if (m->n_held == m->held_room && !more_room(m, size)) {
    lose(d, participant, record);
    return;
  }
  memcpy(m->held + m->n_held * size, record, size);
  m->held_positions[m->n_held] = m->positions[i];
  m->held_places[m->n_held++] = m->places[i];
}

/* How many records of a strand the run has finished. By the holder of its home's token. */
static uint64_t finished_of(const sd_dispatcher *d, uint32_t strand) {
  const sd_blocks *b = d->blocks;
  uint64_t n = 0;
  for (uint32_t key = b->last_key[strand]; key != SD_NONE; key = b->key_before[key])
    for (uint32_t i = 0; i < d->n_participants; i++) n += b->members[i].counts[key] & ~FAILED;
  return n;
}

/* Adds `by` to the counts of the keys of n records. */
static inline void add(const sd_dispatcher *d, member *m, const unsigned char *record, uint32_t n, uint32_t by) {
  uint32_t *const counts = m->counts, *const seen = m->seen;
  uint32_t n_seen = m->n_seen;
  for (uint32_t i = 0; i < n; i++, record += d->arena->record_size) {
    const uint32_t key = sd_key_of(d, record);
    /* Without a branch: with many keys, nobody can tell which one comes for the first time. */
    seen[n_seen] = key;
    n_seen += counts[key] == 0;
    counts[key] += by;
  }
  m->n_seen = n_seen;
}

/* Whether a record's strand may not be handled any more in this run, even if somebody ends its quarantine meanwhile: what was kept back
 * comes first. */
static int is_held(const sd_dispatcher *d, const unsigned char *record) {
  return d->blocks->is_held[d->map[sd_key_of(d, record)]];
}

/* Notes where n gathered records lie. Returns n. */
static uint32_t place_all(member *m, const sd_block *block, const sd_block_entry *entry, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) m->places[i] = block->number << 32 | entry[i].place;
  return n;
}

/* Notes the positions of n gathered records. Another thread may have changed their times since the block was made; the feed's time stays
 * within those of its block. */
static void position_all(const sd_dispatcher *d, member *m, const sd_block *block, const sd_block_entry *entry,
                         uint32_t n) {
  const unsigned char *record = m->records;
  int64_t time = block->first.time;
  for (uint32_t i = 0; i < n; i++, record += d->arena->record_size) {
    const int64_t its = sd_time_at(d, record, time);
    time = its < block->latest ? its : block->latest;
    m->positions[i] =
        (sd_position){block->first.number + sd_block_number(d->blocks->source, block, entry[i].place), time};
  }
}

/* Leaves out those of n gathered records whose strands are held, and keeps them. Returns how many are left. */
static SD_NOINLINE uint32_t without_held(sd_dispatcher *d, uint32_t participant, uint32_t from, uint32_t n) {
  const size_t size = d->arena->record_size;
  member *m = &d->blocks->members[participant];
  uint32_t left = 0;
  for (uint32_t i = from; i < from + n; i++) {
    const unsigned char *record = m->records + i * size;
    if (is_held(d, record)) {
      hold(d, participant, i);
    } else {
      memmove(m->records + left * size, record, size);
      m->positions[left] = m->positions[i];
      m->places[left++] = m->places[i];
    }
  }
  return left;
}

/* The handler did not get past gathered record i: the record's strand is held, and no further block is taken. If it failed on the record,
 * the strand goes into quarantine. A timer before the record may have failed instead, or taken too long. Returns how many records
 * failed. */
static uint32_t fail(sd_dispatcher *d, uint32_t participant, uint32_t i, const sd_context *ctx) {
  sd_blocks *b = d->blocks;
  member *m = &b->members[participant];
  const unsigned char *record = m->records + i * (size_t)d->arena->record_size;
  const uint32_t strand = d->map[sd_key_of(d, record)];
  if (!ctx->stopped) {
    sd_fail(d, participant, strand, record, (int64_t)finished_of(d, strand), ctx->error_code, ctx->message);
    sd_account_failure(&d->strands[strand]);
    add(d, m, record, 1, FAILED);
  }
  if (d->config.sizes.has_positions) d->last_number[strand] = m->positions[i].number;
  b->is_held[strand] = 1;
  /* H7: relaxed; its own home's holders come after this one, and others need not know. */
  sd_store(&b->failed, 1u, relaxed, H7);
  sd_window_close(&b->window);
  return !ctx->stopped;
}

/* Handles n gathered records, those of `entry`. Returns how many were handled; *failed: adds those on which the handler failed. */
static uint32_t handle(sd_dispatcher *d, uint32_t participant, const sd_handler *handler, sd_context *ctx,
                       const sd_block *block, const sd_block_entry *entry, uint32_t n, uint64_t *failed) {
  member *m = &d->blocks->members[participant];
  const sd_position *positions = d->config.sizes.has_positions ? m->positions : NULL;
  uint32_t handled = 0;
  if (positions) position_all(d, m, block, entry, n);
  /* H7: relaxed; if a strand of this home failed, its token brought that here. */
  int may_be_held = sd_load(&d->blocks->failed, relaxed, H7) != 0;
  if (SD_UNLIKELY(may_be_held)) n = without_held(d, participant, 0, place_all(m, block, entry, n));
  while (n) {
    const uint32_t done = (uint32_t)sd_run_handler(d, handler, SD_NONE, m->records, positions, n, ctx);
    add(d, m, m->records, done, 1);
    handled += done;
    if (SD_LIKELY(done == n)) break;
    if (!may_be_held) place_all(m, block, entry, n);
    may_be_held = 1;
    const uint32_t past = fail(d, participant, done, ctx);
    *failed += past;
    ctx->error_code = 0;
    ctx->message[0] = 0;
    n = without_held(d, participant, done + past, n - done - past);
  }
  return handled;
}

/* Handles a home's list of a block. By the holder of its token. */
static void handle_list(sd_dispatcher *d, uint32_t participant, const sd_handler *handler, uint32_t h,
                        const sd_block *block) {
  const sd_blocks *b = d->blocks;
  const sd_block_entry *entry = block->lists + (size_t)h * block->room, *end = entry + block->n[h];
  const uint64_t stride = d->arena->row_stride, start = sd_now();
  unsigned char *records = b->members[participant].records, *rows = d->rows;
  uint64_t handled = 0, failed = 0;
  sd_context ctx;
  sd_context_of(d, participant, handler, &ctx);
  ctx.until = start + sd_clock_counts(TIMERS_NS);
  const sd_block_entry *asked = entry;
  while (entry < end) {
    const uint32_t left = (uint32_t)(end - entry), n = left < GATHERED ? left : GATHERED;
    /* The rows of the next records are asked for while these are handled. */
    for (; asked < end && asked < entry + 2 * GATHERED; asked++) sd_prefetch_write(rows + asked->key * stride);
    b->source->gather(b->self, block, entry, n, left, records);
    handled += handle(d, participant, handler, &ctx, block, entry, n, &failed);
    entry += n;
  }
  sd_counters *c = &d->participants[participant].counters;
  sd_bump(&c->accepted, handled + failed);
  sd_bump(&c->handled_in_blocks, handled);
  const uint64_t spent = sd_now() - start;
  sd_account_records(c, sd_counts_at(d, participant, 0), handled, failed, 0, spent);
  d->blocks->home_handling[h] += spent;
  d->blocks->members[participant].handling += spent;
}

/* Handles what a home has. Zero: nothing. */
static int visit_home(sd_dispatcher *d, uint32_t participant, const sd_handler *handler, uint32_t h) {
  sd_blocks *b = d->blocks;
  uint64_t from;
  const uint64_t to = sd_home_begin(&b->window, h, &from);
  if (!to) return 0;
  for (uint64_t block = from; block < to; block++) {
    handle_list(d, participant, handler, h, &b->slot[block % b->window.n_slots]);
    sd_home_passed(&b->window, h, block);
  }
  sd_home_end(&b->window, h);
  return 1;
}

/* ---- taking part */

static void wait_a_little(void) {
  sd_yield();
  sd_pause();
}

/* C1: relaxed; one thread writes at a time. */
static void tell(sd_a64 *count, uint64_t value) { sd_store(count, value, relaxed, C1); }

/* Gives an adopted block's records their numbers. The publisher's bound, of when the run began, is below them. */
static void number_block(sd_dispatcher *d, sd_block *block) {
  uint32_t n = 0;
  for (uint32_t h = 0; h < d->blocks->window.n_homes; h++) n += block->n[h];
  block->first = sd_numbers_begin(d);
  if (block->latest < block->first.time) block->latest = block->first.time;
  sd_numbers_end(d, n, (uint64_t)block->latest);
}

/* Adopts what is made. Zero: nothing. */
static int adopt(sd_dispatcher *d) {
  sd_blocks *b = d->blocks;
  sd_block_counts *told = &d->arena->blocks;
  int any = 0;
  for (uint64_t number; (number = sd_window_begin_adopting(&b->window)) != SD_NO_BLOCK; any = 1) {
    sd_block *block = &b->slot[number % b->window.n_slots];
    const int is_part = b->source->adopt(b->self, number, block, b->home_of);
    const uint64_t slowest = sd_window_slowest(&b->window);
    tell(&told->used, sd_window_taken(&b->window) - slowest);
    tell(&told->behind, number + (uint64_t)is_part - slowest);
    sd_bump(&told->adopted, (uint64_t)is_part);
    if (is_part && d->config.sizes.has_positions) number_block(d, block);
    sd_window_end_adopting(&b->window, number, is_part);
  }
  return any;
}

static int make(sd_blocks *b, member *m) {
  const uint64_t number = sd_window_take(&b->window);
  if (number == SD_NO_BLOCK) return 0;
  sd_block *block = &b->slot[number % b->window.n_slots];
  memset(block->n, 0, sizeof block->n);
  memset(block->notes, 0, sizeof block->notes);
  block->odd = 0;
  block->number = number;
  block->numbers = NULL;
  block->reading = 0;
  const uint64_t start = sd_now();
  b->source->make(b->self, number, block, number == 0, b->home_of);
  m->making += sd_now() - start;
  m->reading += block->reading;
  sd_window_made(&b->window, number);
  return 1;
}

/* Works until all is done. `ends`: the clock at which no further block is taken. */
static void take_part(sd_dispatcher *d, uint32_t participant, uint64_t ends) {
  sd_blocks *b = d->blocks;
  const sd_handler *handler = &d->handlers[d->strands[0].handler];
  const uint32_t n_homes = b->window.n_homes, first = participant * SD_HOMES_A_THREAD;
  for (uint32_t turn = 0; !sd_window_over(&b->window);) {
    int any = 0;
    if (sd_now() > ends || sd_dispatcher_stopping(d) || sd_outputs_full(d)) sd_window_close(&b->window);
    for (uint32_t i = 0; i < n_homes; i++) {
      const uint32_t h = (first + i) % n_homes;
      if (i < SD_HOMES_A_THREAD || sd_home_behind(&b->window, h) >= BEHIND)
        any |= visit_home(d, participant, handler, h);
    }
    any |= adopt(d);
    if (any) continue;
    if (make(b, &b->members[participant])) {
      adopt(d);
      turn = 0;
      continue;
    }
    for (uint32_t i = SD_HOMES_A_THREAD; i < n_homes && !any; i++)
      any |= visit_home(d, participant, handler, (first + i) % n_homes);
    b->members[participant].stalls += turn == 0;
    if (any) {
      turn = 0;
    } else if (++turn < TURNS) {
      sd_pause();
    } else {
      wait_a_little();
    }
  }
}

static int join(sd_dispatcher *d, uint32_t participant, int looks) {
  sd_blocks *b = d->blocks;
  if (!sd_window_is_open(&b->window)) return 0;
  if (looks) return 1;
  if (!sd_window_enter(&b->window)) return 0;
  take_part(d, participant, UINT64_MAX);
  sd_window_leave(&b->window);
  return 1;
}

static int create(sd_dispatcher *d) {
  sd_blocks *b = aligned_alloc(2 * SD_LINE, in_lines(sizeof *b));
  if (!b) return SD_E_NO_MEMORY;
  memset(b, 0, sizeof *b);
  const uint64_t members = in_lines(d->n_participants * sizeof *b->members);
  b->members = aligned_alloc(2 * SD_LINE, members);
  b->home_of = malloc(d->arena->n_symbols);
  b->home_of_strand = malloc(d->arena->n_strands);
  b->is_held = calloc(d->arena->n_strands, sizeof *b->is_held);
  b->strands = calloc(d->arena->n_strands, sizeof *b->strands);
  if (b->members) memset(b->members, 0, members);
  b->last_key = calloc(d->arena->n_strands, sizeof *b->last_key);
  b->key_before = calloc(d->arena->n_symbols, sizeof *b->key_before);
  b->count_bytes = (d->arena->n_symbols + UINT64_C(1)) * sizeof *b->members->counts;
  int code = b->members && b->home_of && b->home_of_strand && b->is_held && b->strands && b->last_key && b->key_before
                 ? SD_OK
                 : SD_E_NO_MEMORY;
  for (uint32_t i = 0; !code && i < d->n_participants; i++) {
    /* Not calloc(), which may write the zeros: most dispatchers have no blocks, and many have a million symbols. */
    b->members[i].counts = zeros(b->count_bytes);
    b->members[i].records = aligned_alloc(SD_LINE, in_lines(GATHERED * (uint64_t)d->arena->record_size));
    b->members[i].seen = zeros(b->count_bytes);
    if (!b->members[i].counts || !b->members[i].seen || !b->members[i].records) code = SD_E_NO_MEMORY;
  }
  b->window.home = b->home;
  b->window.made = b->made;
  d->blocks = b;
  if (code) {
    sd_blocks_destroy(d);
    return code;
  }
  d->join_blocks = join;
  /* H9: release; pairs with H9 of workers, which may run already. */
  sd_store(&d->joins_blocks, 1u, release, H9);
  return SD_OK;
}

int sd_blocks_decide(sd_dispatcher *d) {
  const int reason = sd_blocks_reason(d);
  sd_blocks_destroy(d);
  /* C1: relaxed; nobody else writes it. */
  sd_store(&d->arena->blocks.reason, (uint64_t)reason + 1, relaxed, C1);
  return reason == SD_BLOCKS_POSSIBLE ? create(d) : SD_OK;
}

typedef struct held {
  uint64_t place;
  const unsigned char *record;
  const sd_position *position;
} held;

static int is_behind(const void *one, const void *other) {
  const held *a = one, *c = other;
  return a->place < c->place ? -1 : a->place > c->place;
}

/* Collects what the members kept back, in the order of the source: a home may have passed from one member to another and back. */
static void collect(sd_dispatcher *d, sd_blocks *b, uint32_t participant, sd_blocks_done *done) {
  const size_t size = d->arena->record_size;
  member *own = &b->members[participant];
  uint64_t n = 0, at = 0;
  for (uint32_t i = 0; i < d->n_participants; i++) n += b->members[i].n_held;
  if (!n) return;
  held *order = malloc(n * sizeof *order);
  if (own->all_room < n) {
    free(own->all_held);
    free(own->all_places);
    free(own->all_positions);
    own->all_held = malloc(n * size);
    own->all_places = malloc(n * sizeof *own->all_places);
    own->all_positions = malloc(n * sizeof *own->all_positions);
    own->all_room = own->all_held && own->all_places && own->all_positions ? n : 0;
  }
  const int fits = order && own->all_room >= n;
  for (uint32_t i = 0; i < d->n_participants; i++) {
    member *m = &b->members[i];
    for (uint64_t j = 0; j < m->n_held; j++) {
      if (fits) order[at++] = (held){m->held_places[j], m->held + j * size, m->held_positions + j};
      else lose(d, participant, m->held + j * size);
    }
    m->n_held = 0;
  }
  if (fits) {
    qsort(order, n, sizeof *order, is_behind);
    for (uint64_t i = 0; i < n; i++) {
      memcpy(own->all_held + i * size, order[i].record, size);
      own->all_places[i] = order[i].place;
      own->all_positions[i] = *order[i].position;
    }
    const sd_position *positions = d->config.sizes.has_positions ? own->all_positions : NULL;
    *done = (sd_blocks_done){done->records, own->all_held, own->all_places, positions, n};
  }
  free(order);
}

/* Adds what the run handled to the strands' counts. */
static void settle(sd_dispatcher *d, sd_blocks *b, uint32_t participant, sd_blocks_done *done) {
  /* N1: relaxed; this thread, or one that has left, took the run's last number. */
  const uint64_t last = sd_load(&d->arena->next_sequence, relaxed, N1) - d->config.sizes.counters_start - 1;
  for (uint32_t i = 0; i < d->n_participants; i++) {
    member *m = &b->members[i];
    for (uint32_t j = 0; j < m->n_seen; j++) {
      if (j + 2 * KEYS_AHEAD < m->n_seen) {
        sd_prefetch_write(&m->counts[m->seen[j + 2 * KEYS_AHEAD]]);
        sd_prefetch(&d->map[m->seen[j + 2 * KEYS_AHEAD]]);
        sd_prefetch_write(&d->strands[d->map[m->seen[j + KEYS_AHEAD]]].accepted);
      }
      const uint32_t key = m->seen[j], n = m->counts[key] & ~FAILED, failed = m->counts[key] >> 31;
      sd_strand *s = &d->strands[d->map[key]];
      m->counts[key] = 0;
      sd_bump(&s->accepted, n + failed);
      sd_account_strand(sd_counts_at(d, participant, 0), s, n);
      if (d->config.sizes.has_positions && !b->is_held[d->map[key]]) d->last_number[d->map[key]] = last;
      if (b->source->counts) b->source->counts[key] += (int64_t)n + failed;
      done->records += n + failed;
    }
    m->n_seen = 0;
  }
  b->handled += done->records;
  collect(d, b, participant, done);
}

/* Tells what the run took, of which the caller is the publisher, and all others have left. */
static void tell_times(const sd_dispatcher *d, sd_blocks *b, uint64_t elapsed, uint32_t threads) {
  sd_block_counts *told = &d->arena->blocks;
  uint64_t busiest = 0;
  for (uint32_t i = 0; i < d->n_participants; i++) {
    member *m = &b->members[i];
    sd_bump(&told->reading, m->reading);
    sd_bump(&told->listing, m->making - m->reading);
    sd_bump(&told->handling, m->handling);
    m->making = m->reading = m->handling = 0;
  }
  for (uint32_t h = 0; h < b->window.n_homes; h++) {
    if (b->home_handling[h] > busiest) busiest = b->home_handling[h];
    b->home_handling[h] = 0;
  }
  sd_bump(&told->busiest, busiest);
  sd_bump(&told->elapsed, elapsed);
  sd_bump(&told->threads, elapsed * threads);
  sd_bump(&told->runs, 1);
  tell(&told->slots, b->window.n_slots);
  tell(&told->homes, b->window.n_homes);
  tell(&told->used, 0);
  tell(&told->behind, 0);
}

/* How many slots what is emitted leaves room for, if each record emits one to each output: handlers fail at SD_OUTPUT_SLACK times what
 * makes publishers wait. */
static uint64_t slots_to_emit(const sd_dispatcher *d, const sd_block_source *source) {
  const sd_outputs *o = d->outputs;
  uint64_t bytes = 0;
  for (uint32_t i = 0; o && i < o->n; i++) bytes += o->output[i].entry_bytes;
  return bytes ? (SD_OUTPUT_SLACK - 1) * o->pool.soft_bytes / (bytes * source->most) : SD_BLOCK_SLOTS;
}

/* How long the window is. It is short as long as nobody waits for a slot, so that slots stay in the cores' caches; longer if a thread
 * loses its core at times. With dear handlers it is short, because a run ends only with what was taken. */
static uint32_t slots(const sd_dispatcher *d, const sd_block_source *source, uint32_t threads) {
  const sd_blocks *b = d->blocks;
  const uint64_t most_slots = slots_to_emit(d, source);
  const uint32_t longest = most_slots < SD_BLOCK_SLOTS ? (uint32_t)most_slots : SD_BLOCK_SLOTS;
  const uint32_t fewest = 2 * threads < longest ? 2 * threads : longest;
  uint64_t stalls = 0;
  for (uint32_t i = 0; i < d->n_participants; i++) stalls += b->members[i].stalls;
  uint32_t n = b->window.n_slots;
  if (4 * stalls > b->taken) n *= 2;
  else if (16 * stalls < b->taken) n /= 2;
  const double most = b->cost > 0 ? (double)sd_clock_counts(WINDOW_NS) * threads / (b->cost * source->most) : fewest;
  if (n > most) n = (uint32_t)most;
  return n < fewest ? fewest : n < longest ? n : longest;
}

/* As sd_blocks_run, by the one publisher that may. */
static int run(sd_dispatcher *d, uint32_t participant, const sd_block_source *source, void *self, uint64_t slice,
               sd_blocks_done *done) {
  sd_blocks *b = d->blocks;
  const uint32_t threads = sd_active_workers(d) + 1;
  const uint32_t n_homes = threads * SD_HOMES_A_THREAD < SD_MAX_HOMES ? threads * SD_HOMES_A_THREAD : SD_MAX_HOMES;
  if (b->keys != source->keys) {
    find_strands(d, b, source->keys);
    b->next_deal = 0;
  }
  if (!slots_to_emit(d, source)) return SD_E_FULL;
  int code = make_room(b, source, n_homes);
  if (code) return code;
  code = own(d, participant, b);
  if (code) return code;
  if (b->handled >= b->next_deal || b->window.n_homes != n_homes) code = deal(d, b, n_homes);
  if (!code) {
    b->source = source;
    b->self = self;
    b->window.n_blocks = source->n_blocks;
    b->window.n_slots = slots(d, source, threads);
    for (uint32_t i = 0; i < d->n_participants; i++) b->members[i].stalls = 0;
    /* H7: relaxed; all who wrote it have left. */
    if (sd_load(&b->failed, relaxed, H7)) memset(b->is_held, 0, d->arena->n_strands);
    sd_init(&b->failed, 0u);
    sd_window_open(&b->window);
    sd_idle_wake_all(&d->arena->idle);
    const uint64_t start = sd_now();
    take_part(d, participant, start + slice);
    sd_window_shut(&b->window);
    while (!sd_window_empty(&b->window)) wait_a_little();
    b->taken = sd_window_taken(&b->window);
    settle(d, b, participant, done);
    const uint64_t elapsed = sd_now() - start;
    if (done->records) b->cost = (double)elapsed * threads / (double)done->records;
    tell_times(d, b, elapsed, threads);
  }
  let_go(d, b, b->n_strands);
  return code;
}

void sd_give_way(sd_dispatcher *d, uint32_t participant) {
  const uint64_t start = sd_now();
  uint32_t none = 0, *in_vain = d->blocks ? &d->blocks->members[participant].in_vain : &none;
  const uint64_t most = sd_clock_counts(GIVE_WAY_NS) << *in_vain;
  for (;;) {
    /* H10: relaxed; a hint. */
    const int is_over = !sd_load(&d->waiting, relaxed, H10), is_late = sd_now() - start >= most;
    if (is_over) *in_vain = 0;
    else if (is_late) *in_vain += *in_vain < MOST_IN_VAIN;
    if (is_over || is_late) return;
    wait_a_little();
  }
}

int sd_blocks_run(sd_dispatcher *d, uint32_t participant, const sd_block_source *source, void *self, uint64_t slice,
                  sd_blocks_done *done) {
  *done = (sd_blocks_done){0};
  if (!sd_try_lock(&d->blocks->running)) return SD_AGAIN;
  const int code = run(d, participant, source, self, slice, done);
  if (code) sd_bump(&d->arena->blocks.refused, 1);
  sd_unlock(&d->blocks->running);
  sd_give_way(d, participant);
  return code;
}
