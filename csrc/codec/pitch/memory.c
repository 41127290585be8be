#include "codec/pitch/memory.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ORDERS = 1 << 12, NAMES = 1 << 17 };

static uint64_t mix(uint64_t key) {
  key *= UINT64_C(0x9E3779B97F4A7C15);
  return key ^ key >> 32;
}

sd_pitch_memory *sd_pitch_memory_new(void) {
  sd_pitch_memory *memory = calloc(1, sizeof *memory);
  if (!memory) return NULL;
  memory->orders = calloc(FIRST_ORDERS, sizeof *memory->orders);
  memory->mask = FIRST_ORDERS - 1;
  if (memory->orders) return memory;
  free(memory);
  return NULL;
}

void sd_pitch_memory_free(sd_pitch_memory *memory) {
  if (!memory) return;
  free(memory->orders);
  free(memory);
}

/* The order's place, or the free place where it would go. */
static uint64_t place_of(const sd_pitch_memory *memory, uint64_t id) {
  uint64_t at = mix(id) & memory->mask;
  while (memory->orders[at].instrument_id != 0 && memory->orders[at].id != id) at = (at + 1) & memory->mask;
  return at;
}

static int grow(sd_pitch_memory *memory) {
  uint64_t places = memory->mask + 1;
  sd_pitch_order *old = memory->orders;
  sd_pitch_order *grown = places > UINT64_MAX / sizeof *grown / 4 ? NULL : calloc(places * 2, sizeof *grown);
  if (!grown) return -1;
  memory->orders = grown;
  memory->mask = places * 2 - 1;
  for (uint64_t i = 0; i < places; i++)
    if (old[i].instrument_id != 0) grown[place_of(memory, old[i].id)] = old[i];
  free(old);
  return 0;
}

int sd_pitch_remember(sd_pitch_memory *memory, uint64_t id, uint32_t instrument_id, uint32_t shares) {
  if (memory->live > memory->mask / 2 && grow(memory) != 0) return -1;
  sd_pitch_order *order = &memory->orders[place_of(memory, id)];
  memory->live += order->instrument_id == 0;
  *order = (sd_pitch_order){.id = id, .instrument_id = instrument_id, .left = shares};
  return 0;
}

/* Frees a place, and moves up what a search would no longer reach. */
static void forget(sd_pitch_memory *memory, uint64_t hole) {
  for (uint64_t at = hole;;) {
    at = (at + 1) & memory->mask;
    if (memory->orders[at].instrument_id == 0) break;
    uint64_t home = mix(memory->orders[at].id) & memory->mask;
    if (((at - home) & memory->mask) < ((at - hole) & memory->mask)) continue;
    memory->orders[hole] = memory->orders[at];
    hole = at;
  }
  memory->orders[hole].instrument_id = 0;
  memory->live--;
}

uint32_t sd_pitch_take(sd_pitch_memory *memory, uint64_t id, uint32_t shares) {
  uint64_t at = place_of(memory, id);
  sd_pitch_order *order = &memory->orders[at];
  uint32_t instrument_id = order->instrument_id;
  if (instrument_id == 0) return 0;
  if (shares < order->left) order->left -= shares;
  else forget(memory, at);
  return instrument_id;
}

uint32_t *sd_pitch_find_name(sd_pitch_memory *memory, const char (*symbols)[8], uint64_t name) {
  uint64_t at = mix(name) & (NAMES - 1);
  while (memory->names[at] != 0 && memcmp(symbols[memory->names[at]], &name, sizeof name) != 0)
    at = (at + 1) & (NAMES - 1);
  return &memory->names[at];
}
