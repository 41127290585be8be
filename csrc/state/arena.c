#define _GNU_SOURCE
#include "state/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sd_error.h"

static uint64_t place(uint64_t *end, uint64_t bytes, uint64_t align) {
  uint64_t at = (*end + align - 1) / align * align;
  *end = at + bytes;
  return at;
}

static uint32_t power_of_two(uint32_t n) {
  uint32_t p = 1;
  while (p < n) p <<= 1;
  return p;
}

/* One given up may stay on every strand that is held; the others are for calls under way. */
enum { SD_TASKS_AT_WORK = 1024 };
static uint32_t tasks_for(const sd_sizes *z) { return z->n_strands + SD_TASKS_AT_WORK; }

static void lay_out(sd_arena *a, const sd_sizes *z) {
  const uint64_t line = 2 * SD_LINE, page = 4096;
  uint32_t participants = z->n_workers + z->n_publishers;
  uint64_t end = sizeof(sd_arena);
  a->magic = SD_MAGIC;
  a->abi_version = SD_ABI_VERSION;
  a->header_bytes = sizeof(sd_arena);
  a->n_symbols = z->n_symbols;
  a->n_strands = z->n_strands;
  a->n_workers = z->n_workers;
  a->n_publishers = z->n_publishers;
  a->record_size = z->record_size;
  a->key_offset = z->key_offset;
  a->sequence = sd_sequence_at_of(z->key_offset, z->sequence_offset, z->sequence_high);
  a->row_bytes = z->row_bytes;
  /* Rows of neighbours are written by different cores: whole lines each. */
  a->row_stride = (z->row_bytes + SD_LINE - 1) / SD_LINE * SD_LINE;
  a->segment_records = (SD_SEGMENT_BYTES - SD_SEGMENT_HEADER) / z->record_size;
  a->n_segments = z->n_segments;
  a->segment_bytes = SD_SEGMENT_BYTES;
  if (z->has_positions) {
    a->positions_at = (uint32_t)(SD_SEGMENT_HEADER + a->segment_records * z->record_size + 7) / 8 * 8;
    a->segment_bytes =
        (uint32_t)(a->positions_at + a->segment_records * sizeof(sd_position) + SD_LINE - 1) / SD_LINE * SD_LINE;
  }
  a->lists = place(&end, (uint64_t)participants * sizeof(sd_list), line);
  a->participants = place(&end, (uint64_t)participants * sizeof(sd_participant), line);
  a->rings = place(&end, (uint64_t)participants * power_of_two(z->n_strands) * sizeof(uint32_t), line);
  a->map = place(&end, (uint64_t)z->n_symbols * sizeof(uint32_t), line);
  a->stack = place(&end, ((uint64_t)z->n_segments + SD_FREE_RUN) * sizeof(uint32_t), line);
  a->strands = place(&end, (uint64_t)z->n_strands * sizeof(sd_strand), page);
  a->tasks = place(&end, (uint64_t)tasks_for(z) * sizeof(sd_task), line);
  a->rows = place(&end, (uint64_t)z->n_symbols * a->row_stride, page);
  a->segments = place(&end, (uint64_t)z->n_segments * a->segment_bytes, page);
  a->bytes = (end + page - 1) / page * page;
}

static void start(sd_arena *a, const sd_sizes *z) {
  uint32_t participants = z->n_workers + z->n_publishers, places = power_of_two(z->n_strands);
  sd_list *lists = sd_arena_at(a, a->lists);
  sd_participant *participant = sd_arena_at(a, a->participants);
  sd_strand *strands = sd_arena_at(a, a->strands);
  a->free_list.n_segments = z->n_segments;
  sd_init(&a->next_alarm, UINT64_MAX);
  a->task_list.n = tasks_for(z);
  sd_init(&a->next_sequence, z->counters_start);
  for (uint32_t i = 0; i < participants; i++) {
    lists[i].mask = places - 1;
    lists[i].ring = a->rings + (uint64_t)i * places * sizeof(uint32_t);
    sd_init(&lists[i].head, (uint32_t)z->counters_start);
    sd_init(&lists[i].tail, (uint32_t)z->counters_start);
    participant[i].most_a_call = a->segment_records;
    participant[i].py_batch_maximum = a->segment_records;
    sd_init(&participant[i].publishing, UINT64_MAX);
    sd_init(&participant[i].counters.accepted, z->counters_start);
    sd_init(&participant[i].counters.handled, z->counters_start);
  }
  for (uint32_t i = 0; i < z->n_strands; i++) {
    sd_init(&strands[i].head, SD_NONE);
    strands[i].tail = SD_NONE;
    strands[i].last = i % z->n_workers;
    sd_init(&strands[i].accepted, z->counters_start);
    sd_init(&strands[i].handled, z->counters_start);
  }
}

/* Segments that are used before any comes back: what caches hold, two for each of the first strands, and those in flight. */
enum { SD_BUSY_STRANDS = 8192, SD_SEGMENTS_IN_FLIGHT = 4096 };

void sd_arena_touch_segments(sd_arena *a, const sd_sizes *z, uint64_t records_in_flight) {
  uint64_t participants = z->n_workers + z->n_publishers;
  uint64_t strands = z->n_strands < SD_BUSY_STRANDS ? z->n_strands : SD_BUSY_STRANDS;
  uint64_t in_flight = records_in_flight / a->segment_records;
  if (in_flight > SD_SEGMENTS_IN_FLIGHT) in_flight = SD_SEGMENTS_IN_FLIGHT;
  uint64_t n = 2 * SD_FREE_RUN * participants + 2 * strands + in_flight;
  if (n > z->n_segments) n = z->n_segments;
  volatile unsigned char *segments = sd_arena_at(a, a->segments);
  for (uint64_t at = 0; at < n * a->segment_bytes; at += 4096) segments[at] = 0;
}

int sd_arena_create(const sd_sizes *z, int shared, sd_arena **arena, int *fd) {
  *fd = -1;
  *arena = NULL;
  if (!z->n_symbols || !z->n_strands || !z->n_workers || !z->n_publishers || !z->n_segments) return SD_E_ARGUMENT;
  if (z->n_strands > 1u << 30 || z->n_symbols > 1u << 31) return SD_E_ARGUMENT;
  if (z->record_size < 4 || z->record_size > SD_SEGMENT_BYTES - SD_SEGMENT_HEADER) return SD_E_ARGUMENT;
  if (z->key_offset > z->record_size - 4) return SD_E_ARGUMENT;
  sd_arena plan;
  memset(&plan, 0, sizeof plan);
  lay_out(&plan, z);
  void *at;
  if (shared) {
    int file = memfd_create("strand", MFD_CLOEXEC);
    if (file < 0) return SD_E_NO_MEMORY;
    /* Reserved now: a page that cannot be had at first touch would kill the process with SIGBUS. */
    if (posix_fallocate(file, 0, (off_t)plan.bytes)) {
      close(file);
      return SD_E_NO_MEMORY;
    }
    at = mmap(NULL, plan.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) {
      close(file);
      return SD_E_NO_MEMORY;
    }
    *fd = file;
  } else {
    at = mmap(NULL, plan.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return SD_E_NO_MEMORY;
    /* Segments and rows are touched all over: fewer misses of the address cache. Only advice. */
    madvise(at, plan.bytes, MADV_HUGEPAGE);
  }
  memcpy(at, &plan, sizeof plan);
  start(at, z);
  *arena = at;
  return SD_OK;
}

void sd_arena_destroy(sd_arena *arena, int fd) {
  if (arena) munmap(arena, arena->bytes);
  if (fd >= 0) close(fd);
}
