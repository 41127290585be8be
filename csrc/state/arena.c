#include "state/arena.h"

#include <string.h>

#include "schedule/policy.h"
#include "sd_error.h"

/* Returns the next aligned offset for `bytes`, and moves *end behind them. */
static uint64_t lay(uint64_t *end, uint64_t bytes, uint64_t align) {
  uint64_t at = (*end + align - 1) / align * align;
  *end = at + bytes;
  return at;
}

/* Besides those asked for: a strand may have a turn for overdue alarms, and participants' caches may be full of entries. */
static uint32_t tasks_for(const sd_sizes *z) {
  return z->n_tasks + z->n_strands + (z->n_workers + z->n_publishers) * 2 * SD_TASK_RUN_OF;
}

/* Fills in the offsets of all parts, from 0 on: those that have memory from the start, those that get it with the tasks, and the segments.
 * Returns how many bytes the first ones take, and in *all all that come before the segments. */
static uint64_t lay_out(sd_arena *a, const sd_config *config, uint64_t *all) {
  const uint64_t line = 2 * SD_LINE, page = SD_SPACE_PAGE;
  const sd_sizes *z = &config->sizes;
  const uint64_t participants = z->n_workers + z->n_publishers, strands = z->n_strands;
  uint64_t end = sizeof(sd_arena);
  a->config = *config;
  a->config.policy.slack_ns = config->budget_ns;
  a->clock = sd_the_clock;
  a->n_symbols = z->n_symbols;
  a->n_strands = z->n_strands;
  a->n_workers = z->n_workers;
  a->n_publishers = z->n_publishers;
  a->record_size = z->record_size;
  a->key_offset = z->key_offset;
  a->sequence = sd_sequence_at_of(z->key_offset, z->sequence_offset, z->sequence_high);
  a->row_bytes = z->row_bytes;
  /* Different cores write neighbouring rows, so each row has whole lines. */
  a->row_stride = (z->row_bytes + SD_LINE - 1) / SD_LINE * SD_LINE;
  a->segment_records = (SD_SEGMENT_BYTES - SD_SEGMENT_HEADER) / z->record_size;
  a->n_segments = z->n_segments;
  a->segment_bytes = SD_SEGMENT_BYTES;
  if (z->has_positions) {
    a->positions_at = (uint32_t)(SD_SEGMENT_HEADER + a->segment_records * z->record_size + 7) / 8 * 8;
    a->segment_bytes =
        (uint32_t)(a->positions_at + a->segment_records * sizeof(sd_position) + SD_LINE - 1) / SD_LINE * SD_LINE;
  }
  a->lists = lay(&end, (uint64_t)sd_lists_for(z->n_workers) * sizeof(sd_list), line);
  a->participants = lay(&end, participants * sizeof(sd_participant), line);
  const sd_policy *policy = sd_policy_of(config->policy.number);
  a->by_level = lay(&end, participants * sd_levels_in(policy) * sizeof(sd_level_counts), line);
  a->map = lay(&end, (uint64_t)z->n_symbols * sizeof(uint32_t), line);
  a->stack = lay(&end, ((uint64_t)z->n_segments + SD_FREE_RUN) * sizeof(uint32_t), line);
  a->last_numbers = lay(&end, strands * sizeof(uint64_t), line);
  a->watermark_targets = lay(&end, strands * sizeof(uint64_t), line);
  a->watermark_strands = lay(&end, strands * sizeof(uint32_t), line);
  a->strands = lay(&end, strands * sizeof(sd_strand), page);
  a->rows = lay(&end, (uint64_t)z->n_symbols * a->row_stride, page);
  const uint64_t tasks = tasks_for(z), entries = z->n_strands + tasks;
  a->policy = lay(
      &end, policy->state_bytes(&config->policy, sd_lists_for(z->n_workers), z->n_strands, (uint32_t)entries), line);
  const uint64_t first = end - tasks * policy->entry_bytes;
  a->task_stack = lay(&end, tasks * sizeof(uint32_t), page);
  a->tasks = lay(&end, tasks * sizeof(sd_task), page);
  a->segments = *all = (end + page - 1) / page * page;
  return first;
}

/* Turns offsets from the arena into offsets from the start of the space; the arena lies at `at`. */
static void move_to(sd_arena *a, uint64_t at) {
  uint64_t *offsets[] = {
      &a->strands,  &a->lists,     &a->policy, &a->participants, &a->by_level,          &a->stack,
      &a->segments, &a->map,       &a->rows,   &a->last_numbers, &a->watermark_targets, &a->watermark_strands,
      &a->tasks,    &a->task_stack};
  for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) *offsets[i] += at;
}

static void start(const sd_space *space, sd_arena *a) {
  const sd_sizes *z = &a->config.sizes;
  const uint32_t participants = z->n_workers + z->n_publishers;
  sd_list *lists = sd_space_at(space, a->lists);
  sd_participant *participant = sd_space_at(space, a->participants);
  sd_strand *strands = sd_space_at(space, a->strands);
  a->free_list.n_segments = z->n_segments;
  sd_init(&a->next_alarm, UINT64_MAX);
  a->task_list.n = tasks_for(z);
  a->task_list.kept = (int32_t)z->n_strands;
  a->task_list.filled = sd_space_is_attachable(space) ? 0 : a->task_list.n;
  sd_init(&a->active, z->n_workers);
  sd_init(&a->next_sequence, z->counters_start);
  a->watermark.at = a->watermark.next = z->counters_start;
  for (uint32_t i = 0; i < sd_lists_for(z->n_workers); i++) {
    sd_init(&lists[i].head, (uint32_t)z->counters_start);
    sd_init(&lists[i].tail, (uint32_t)z->counters_start);
  }
  for (uint32_t i = 0; i < participants; i++) {
    participant[i].py_batch_maximum = a->segment_records;
    sd_init(&participant[i].publishing, z->counters_start - 1);
    sd_init(&participant[i].counters.accepted, z->counters_start);
    sd_init(&participant[i].counters.handled, z->counters_start);
  }
  const sd_ready ready = sd_arena_ready(space, a);
  sd_policy_of(a->config.policy.number)->start(&ready, &a->config.policy);
  for (uint32_t i = 0; i < z->n_strands; i++) {
    sd_init(&strands[i].head, SD_NONE);
    strands[i].calls = 1;
    strands[i].tail = SD_NONE;
    strands[i].last = i % z->n_workers;
    sd_init(&strands[i].accepted, z->counters_start);
    sd_init(&strands[i].handled, z->counters_start);
  }
}

/* An estimate of the segments that are used before the first ones come back: those in caches, two for each of the first strands, and those
 * that hold the records in flight. */
enum { SD_BUSY_STRANDS = 8192, SD_SEGMENTS_IN_FLIGHT = 4096 };

int sd_arena_fill_segments(sd_space *space, sd_arena *a, uint64_t records_in_flight, int touch) {
  const sd_sizes *z = &a->config.sizes;
  uint64_t participants = z->n_workers + z->n_publishers;
  uint64_t strands = z->n_strands < SD_BUSY_STRANDS ? z->n_strands : SD_BUSY_STRANDS;
  uint64_t in_flight = records_in_flight / a->segment_records;
  if (in_flight > SD_SEGMENTS_IN_FLIGHT) in_flight = SD_SEGMENTS_IN_FLIGHT;
  uint64_t n = 2 * SD_FREE_RUN * participants + 2 * strands + in_flight;
  if (n > z->n_segments) n = z->n_segments;
  /* In an attachable space, all that is filled uses memory. In a private one, pages use memory only once they are touched. */
  const uint64_t filled = sd_space_is_attachable(space) && touch ? n
                          : sd_space_is_attachable(space)        ? 0
                                                                 : z->n_segments;
  if (sd_space_fill(space, a->segments, filled * a->segment_bytes)) return SD_E_NO_MEMORY;
  a->free_list.filled = (uint32_t)filled;
  volatile unsigned char *segments = sd_space_at(space, a->segments);
  for (uint64_t at = 0; touch && at < n * a->segment_bytes; at += SD_SPACE_PAGE) segments[at] = 0;
  return SD_OK;
}

void *sd_arena_get(sd_space *space, uint64_t n, size_t size, uint64_t *offset) {
  void *memory = sd_space_get(space, n * size, 2 * SD_LINE);
  if (memory) *offset = sd_space_offset(space, memory);
  return memory;
}

sd_ready sd_arena_ready(const sd_space *space, const sd_arena *a) {
  return (sd_ready){.lists = sd_space_at(space, a->lists),
                    .n_lists = sd_lists_for(a->n_workers),
                    .n_workers = a->n_workers,
                    .n_strands = a->n_strands,
                    .n_entries = a->n_strands + a->task_list.n,
                    .state = sd_space_at(space, a->policy)};
}

static int good_sizes(const sd_sizes *z) {
  if (!z->n_symbols || !z->n_strands || !z->n_workers || !z->n_publishers || !z->n_segments) return 0;
  if (z->n_strands > 1u << 29 || z->n_symbols > 1u << 31 || z->n_tasks > 1u << 29) return 0;
  if (z->record_size < 4 || z->record_size > SD_SEGMENT_BYTES - SD_SEGMENT_HEADER) return 0;
  return z->key_offset <= z->record_size - 4;
}

int sd_arena_create(sd_space *space, const sd_config *config, sd_arena **arena) {
  *arena = NULL;
  if (!good_sizes(&config->sizes) || !sd_policy_of(config->policy.number)) return SD_E_ARGUMENT;
  sd_arena plan;
  memset(&plan, 0, sizeof plan);
  uint64_t all;
  const uint64_t first = lay_out(&plan, config, &all);
  const uint64_t at = sd_space_take(space, all + (uint64_t)plan.n_segments * plan.segment_bytes, SD_SPACE_PAGE);
  /* In a private space, pages use memory only once they are touched. */
  if (!at || sd_space_fill(space, at, sd_space_is_attachable(space) ? first : all)) return SD_E_NO_MEMORY;
  move_to(&plan, at);
  *arena = memcpy(sd_space_at(space, at), &plan, sizeof plan);
  start(space, *arena);
  return SD_OK;
}
