#define _GNU_SOURCE
#include "outside/attach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/dispatcher.h"
#include "schedule/policy.h"
#include "sd_error.h"

static int refuse(char *why, const char *text) {
  snprintf(why, SD_WHY_BYTES, "%s", text);
  return SD_E_FORMAT;
}

/* Whether n objects of `size` bytes at `offset` lie within the space. */
static int within(const sd_space *space, uint64_t offset, uint64_t n, uint64_t size, uint64_t align) {
  return offset % align == 0 && offset >= sizeof(sd_space_head) && offset <= space->reserved &&
         n <= (space->reserved - offset) / size;
}

static int good_head(const sd_space_head *head, uint64_t file_bytes, char *why) {
  if (head->magic != SD_MAGIC) return refuse(why, "it is not a dispatcher's memory");
  if (head->abi_version != SD_ABI_VERSION || head->head_bytes != sizeof *head) {
    snprintf(why, SD_WHY_BYTES, "another build of strand made it: its layout is %u, and this build reads %u",
             head->abi_version, SD_ABI_VERSION);
    return SD_E_FORMAT;
  }
  if (head->reserved != file_bytes) return refuse(why, "it is damaged: its size is not the one in its header");
  return SD_OK;
}

/* Checks the sizes and offsets in the arena that are read here, before any of them is used. */
static int good_arena(const sd_space *space, const sd_arena *a) {
  const sd_sizes *z = &a->config.sizes;
  const uint64_t participants = (uint64_t)a->n_workers + a->n_publishers;
  if (a->n_symbols != z->n_symbols || a->n_strands != z->n_strands || a->n_workers != z->n_workers ||
      a->n_publishers != z->n_publishers || !a->n_symbols || !a->n_strands || !a->n_workers || !a->n_publishers ||
      a->n_workers > UINT32_MAX - a->n_publishers)
    return 0;
  const sd_policy *policy = sd_policy_of(a->config.policy.number);
  if (!policy) return 0;
  if (a->row_bytes > a->row_stride || a->row_bytes != z->row_bytes) return 0;
  return within(space, a->strands, a->n_strands, sizeof(sd_strand), SD_LINE) &&
         within(space, a->lists, sd_lists_for(a->n_workers), sizeof(sd_list), SD_LINE) &&
         within(space, a->participants, participants, sizeof(sd_participant), 2 * SD_LINE) &&
         within(space, a->by_level, participants * sd_levels_in(policy), sizeof(sd_level_counts), 2 * SD_LINE) &&
         within(space, a->policy,
                policy->state_bytes(&a->config.policy, sd_lists_for(a->n_workers), a->n_strands,
                                    a->n_strands + a->task_list.n),
                1, SD_LINE) &&
         within(space, a->map, a->n_symbols, sizeof(uint32_t), SD_LINE) &&
         within(space, a->rows, a->n_symbols, a->row_stride ? a->row_stride : 1, SD_LINE) &&
         within(space, a->stack, a->n_segments, sizeof(uint32_t), SD_LINE) &&
         within(space, a->segments, a->n_segments, a->segment_bytes ? a->segment_bytes : 1, SD_LINE) &&
         a->task_list.n <= UINT32_MAX - a->n_strands &&
         within(space, a->tasks, a->task_list.n, sizeof(sd_task), SD_LINE) &&
         within(space, a->task_stack, a->task_list.n, sizeof(uint32_t), SD_LINE) &&
         within(space, a->description, a->description_bytes, 1, 1) &&
         within(space, a->names, a->n_symbols, sizeof(sd_a64), SD_LINE) &&
         within(space, a->last_numbers, a->n_strands, sizeof(uint64_t), SD_LINE) &&
         within(space, a->watermark_targets, a->n_strands, sizeof(uint64_t), SD_LINE) &&
         within(space, a->watermark_strands, a->n_strands, sizeof(uint32_t), SD_LINE) &&
         (!a->admitted || within(space, a->admitted, participants, sizeof(sd_admitted), SD_LINE)) &&
         (!a->admissions || within(space, a->admissions, a->n_strands, sizeof(sd_strand_admission), SD_LINE)) &&
         (!a->strand_times || within(space, a->strand_times, a->n_strands, sizeof(sd_strand_time), SD_LINE));
}

/* Takes up the rings of samples. Zero: one does not fit. */
static int good_samples(sd_outside *o) {
  for (uint32_t ring = 0; ring < SD_SAMPLE_RINGS; ring++) {
    const uint64_t at = o->d.arena->samples[ring];
    if (!at) continue;
    if (!within(&o->space, at, 1, sizeof(sd_samples), 2 * SD_LINE)) return 0;
    sd_samples *samples = sd_space_at(&o->space, at);
    const sd_sample_ring found = {samples, samples->slots, samples->words};
    const uint64_t words = (uint64_t)found.slots * found.words;
    if (found.slots < 2 || !found.words || !within(&o->space, at + sizeof *samples, words, sizeof(sd_a64), SD_LINE))
      return 0;
    o->rings[ring] = found;
  }
  return 1;
}

static int view(sd_outside *o, char *why) {
  /* D1: acquire; pairs with the release of sd_dispatcher_show: this process sees all that the arena held then. */
  const uint64_t root = sd_load(&sd_space_head_of(&o->space)->root, acquire, D1);
  if (!root) return SD_AGAIN;
  if (!within(&o->space, root, 1, sizeof(sd_arena), 2 * SD_LINE))
    return refuse(why, "it is damaged: its root is not a valid offset");
  o->d.space = &o->space;
  o->d.arena = sd_space_at(&o->space, root);
  if (!good_arena(&o->space, o->d.arena) || !good_samples(o))
    return refuse(why, "it is damaged: its sizes and offsets do not fit together");
  sd_dispatcher_view(&o->d);
  /* What was checked above may have changed since. */
  if (!o->d.policy) return refuse(why, "it is damaged: its policy is unknown");
  return SD_OK;
}

int sd_outside_open(int fd, sd_outside **out, char *why) {
  struct stat file;
  *out = NULL;
  *why = 0;
  if (fstat(fd, &file)) return refuse(why, errno == EBADF ? "it is not open" : "it cannot be read");
  if ((uint64_t)file.st_size < sizeof(sd_space_head)) return refuse(why, "it is not a dispatcher's memory");
  sd_outside *o = calloc(1, sizeof *o);
  if (!o) return SD_E_NO_MEMORY;
  o->space = (sd_space){.reserved = (uint64_t)file.st_size, .fd = -1};
  void *at = mmap(NULL, o->space.reserved, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED) {
    const char *text = errno == EACCES ? "it is not open for reading" : "it cannot be mapped";
    free(o);
    return refuse(why, text);
  }
  o->space.base = at;
  int code = good_head(at, o->space.reserved, why);
  if (!code) code = view(o, why);
  if (code) sd_outside_close(o);
  else *out = o;
  return code;
}

void sd_outside_close(sd_outside *o) {
  if (!o) return;
  munmap(o->space.base, o->space.reserved);
  free(o);
}

int sd_outside_is_shown(const sd_outside *o) { return sd_peek(&sd_space_head_of(&o->space)->root) != 0; }

const sd_config *sd_outside_config(const sd_outside *o) { return &o->d.arena->config; }
double sd_outside_ns_per_count(const sd_outside *o) { return o->d.arena->clock.ns_per_count; }
const uint32_t *sd_outside_map(const sd_outside *o) { return o->d.map; }
uint32_t sd_outside_row_bytes(const sd_outside *o) { return (uint32_t)o->d.arena->row_bytes; }
uint32_t sd_outside_handler(const sd_outside *o, uint32_t strand) { return o->d.strands[strand].handler; }
void sd_outside_accepted(const sd_outside *o, uint32_t first, uint32_t n, uint64_t *counts) {
  const uint64_t start = o->d.arena->config.sizes.counters_start;
  for (uint32_t i = 0; i < n; i++) counts[i] = sd_peek(&o->d.strands[first + i].accepted) - start;
}
sd_dispatcher *sd_outside_dispatcher(sd_outside *o) { return &o->d; }

const char *sd_outside_description(const sd_outside *o, uint64_t *bytes) {
  *bytes = o->d.arena->description_bytes;
  return sd_space_at(&o->space, o->d.arena->description);
}

const char *sd_outside_name(sd_outside *o, uint32_t key, uint32_t *bytes) {
  sd_a64 *names = sd_space_at(&o->space, o->d.arena->names);
  /* D2: acquire; pairs with the release of sd_dispatcher_name: this process sees the text. */
  const uint64_t name = key < o->d.arena->n_symbols ? sd_load(&names[key], acquire, D2) : 0;
  *bytes = sd_name_bytes(name);
  return name && within(&o->space, sd_name_at(name), *bytes, 1, 1) ? sd_space_at(&o->space, sd_name_at(name)) : NULL;
}

uint32_t sd_outside_sample_words(const sd_outside *o, uint32_t ring) {
  return ring < SD_SAMPLE_RINGS ? o->rings[ring].words : 0;
}

int sd_outside_sample(sd_outside *o, uint32_t ring, uint64_t back, uint64_t *to, uint64_t *number) {
  if (ring >= SD_SAMPLE_RINGS || !o->rings[ring].samples) return SD_E_ARGUMENT;
  const sd_sample_ring *r = &o->rings[ring];
  return sd_samples_get(r->samples, r->slots, r->words, back, to, number) ? SD_OK : SD_AGAIN;
}

/* ---- waiting */

/* Between two runs of up to a millisecond, a busy strand has no owner for only a few microseconds. A sleeping reader would miss them. */
enum { SPINS = 16000, PAUSES = 8, NAP_NS = 20000 };

sd_patience sd_patience_of(uint64_t ns) { return (sd_patience){sd_monotonic_ns() + ns, 0}; }

int sd_patience_ends(sd_patience *p) {
  if (sd_monotonic_ns() >= p->until) return 1;
  if (p->turns++ < SPINS)
    for (int i = 0; i < PAUSES; i++) sd_pause();
  else nanosleep(&(struct timespec){0, NAP_NS}, NULL);
  return 0;
}

/* ---- a strand with its rows */

/* Counts a strand's tasks, as far as the chain can be followed while it changes. */
static uint32_t count_tasks(sd_outside *o, sd_strand *s) {
  const uint32_t maximum = o->d.arena->task_list.n;
  uint32_t n = 0;
  const uint32_t last = sd_strand_tasks(s);
  for (uint32_t task = last; task && task <= maximum && n < maximum;) {
    n++;
    task = o->d.tasks.tasks[task - 1].next;
    if (task == last) break;
  }
  return n;
}

static void read_strand(sd_outside *o, uint32_t strand, const uint32_t *keys, uint32_t n, unsigned char *rows,
                        sd_inspection *counts) {
  const sd_arena *a = o->d.arena;
  sd_strand_counts(&o->d, strand, counts);
  counts->tasks = count_tasks(o, &o->d.strands[strand]);
  counts->pending = counts->pending > counts->tasks ? counts->pending - counts->tasks : 0;
  for (uint32_t i = 0; i < n; i++)
    memcpy(rows + i * a->row_bytes, o->d.rows + (uint64_t)keys[i] * a->row_stride, a->row_bytes);
}

int sd_outside_rows(sd_outside *o, uint32_t strand, const uint32_t *keys, uint32_t n, unsigned char *rows,
                    sd_inspection *counts, uint64_t patience_ns) {
  if (strand >= o->d.arena->n_strands) return SD_E_ARGUMENT;
  for (uint32_t i = 0; i < n; i++)
    if (keys[i] >= o->d.arena->n_symbols) return SD_E_ARGUMENT;
  sd_strand *s = &o->d.strands[strand];
  sd_patience patience = sd_patience_of(patience_ns);
  for (;;) {
    const uint64_t word = sd_strand_look(s);
    read_strand(o, strand, keys, n, rows, counts);
    if (sd_strand_unchanged(s, word)) return SD_OK;
    if (sd_patience_ends(&patience)) return SD_AGAIN;
  }
}
