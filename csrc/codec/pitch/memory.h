/* What a reader of PITCH has to remember: the symbol of an order, and the index of a name. */
#ifndef SD_CODEC_PITCH_MEMORY_H
#define SD_CODEC_PITCH_MEMORY_H

#include <stdint.h>

/* A live order. instrument_id 0: the place is free. */
typedef struct sd_pitch_order {
  uint64_t id;
  uint32_t instrument_id;
  uint32_t left; /* shares */
} sd_pitch_order;

typedef struct sd_pitch_memory {
  sd_pitch_order *orders; /* open addressing, linear probing, at most half full */
  uint64_t mask;          /* number of places, minus 1 */
  uint64_t live;
  uint32_t names[1 << 17]; /* index of a symbol by its name's hash; 0: free. Twice as many as symbols: half full */
} sd_pitch_memory;

sd_pitch_memory *sd_pitch_memory_new(void); /* NULL: no memory */
void sd_pitch_memory_free(sd_pitch_memory *memory);

/* Remembers an order, or replaces the one of that id. Nonzero: no memory. */
int sd_pitch_remember(sd_pitch_memory *memory, uint64_t id, uint32_t instrument_id, uint32_t shares);

/* Takes `shares` off an order, and returns its symbol; 0: no such order. */
uint32_t sd_pitch_take(sd_pitch_memory *memory, uint64_t id, uint32_t shares);

/* Where a name's index is, or belongs; `symbols` holds the names by index. */
uint32_t *sd_pitch_find_name(sd_pitch_memory *memory, const char (*symbols)[8], uint64_t name);

#endif
