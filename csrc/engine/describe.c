#include "engine/describe.h"

#include "memory/samples.h"
#include "sd_error.h"

/* Returns the table of names, and creates it on the first call; NULL: out of memory. */
static sd_a64 *names_of(sd_dispatcher *d) {
  sd_arena *a = d->arena;
  return a->names ? sd_space_at(d->space, a->names) : sd_arena_get(d->space, a->n_symbols, sizeof(sd_a64), &a->names);
}

int sd_dispatcher_describe(sd_dispatcher *d, const char *text, uint64_t bytes) {
  sd_arena *a = d->arena;
  char *to = sd_arena_get(d->space, bytes, 1, &a->description);
  if (!to || !names_of(d)) return SD_E_NO_MEMORY;
  memcpy(to, text, bytes);
  a->description_bytes = bytes;
  return SD_OK;
}

int sd_dispatcher_name(sd_dispatcher *d, const uint32_t *keys, const uint32_t *lengths, uint32_t n, const char *text) {
  sd_a64 *names = names_of(d);
  uint64_t all = 0, at;
  if (!names) return SD_E_NO_MEMORY;
  for (uint32_t i = 0; i < n; i++) {
    if (keys[i] >= d->arena->n_symbols || lengths[i] > SD_LONGEST_NAME) return SD_E_ARGUMENT;
    all += lengths[i];
  }
  char *to = sd_arena_get(d->space, all ? all : 1, 1, &at);
  if (!to) return SD_E_NO_MEMORY;
  memcpy(to, text, all);
  for (uint32_t i = 0; i < n; at += lengths[i++]) {
    /* D2: release; pairs with the acquire of sd_outside_name: a reader that sees where a name lies sees its text. */
    sd_store(&names[keys[i]], sd_name_of(at, lengths[i]), release, D2);
  }
  return SD_OK;
}

int sd_dispatcher_keep_samples(sd_dispatcher *d, uint32_t ring, uint32_t slots, uint32_t words) {
  if (ring >= SD_SAMPLE_RINGS || slots < 2 || !words) return SD_E_ARGUMENT;
  const uint64_t bytes = sizeof(sd_samples) + (uint64_t)slots * words * sizeof(sd_a64);
  sd_samples *samples = sd_arena_get(d->space, 1, bytes, &d->arena->samples[ring]);
  if (!samples) return SD_E_NO_MEMORY;
  samples->slots = slots;
  samples->words = words;
  return SD_OK;
}

int sd_dispatcher_put_sample(sd_dispatcher *d, uint32_t ring, const uint64_t *from, uint32_t words) {
  const uint64_t at = ring < SD_SAMPLE_RINGS ? d->arena->samples[ring] : 0;
  sd_samples *samples = at ? sd_space_at(d->space, at) : NULL;
  if (!samples || samples->words != words) return SD_E_ARGUMENT;
  sd_samples_put(samples, from);
  return SD_OK;
}

void sd_dispatcher_show(sd_dispatcher *d) {
  /* D1: release; pairs with the acquire of sd_outside_open: a process that attaches sees all that the arena holds so far. */
  sd_store(&sd_space_head_of(d->space)->root, sd_space_offset(d->space, d->arena), release, D1);
}

void sd_dispatcher_hide(sd_dispatcher *d) { sd_store(&sd_space_head_of(d->space)->root, 0, release, D1); }
