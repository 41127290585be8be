#include "lab/generate/picker.h"

#include <stdlib.h>
#include <string.h>

#include "sd_error.h"

int sd_picker_init(sd_picker *p, const uint64_t *weights, const uint32_t *run_lengths, uint32_t symbols,
                   uint64_t seed) {
  memset(p, 0, sizeof *p);
  uint64_t *by_run = malloc(symbols * sizeof *by_run);
  p->run_lengths = malloc(symbols * sizeof *p->run_lengths);
  int status = by_run && p->run_lengths ? SD_OK : SD_E_NO_MEMORY;
  for (uint32_t i = 0; status == SD_OK && i < symbols; i++) {
    if (!run_lengths[i] || run_lengths[i] > 1 << 20) status = SD_E_ARGUMENT;
    else by_run[i] = weights[i] / run_lengths[i];
  }
  if (status == SD_OK) status = sd_alias_init(&p->alone, weights, symbols);
  if (status == SD_OK) status = sd_alias_init(&p->runs, by_run, symbols);
  if (status == SD_OK) {
    memcpy(p->run_lengths, run_lengths, symbols * sizeof *run_lengths);
    sd_prng_seed(&p->random, seed, 3);
  } else {
    sd_picker_destroy(p);
  }
  free(by_run);
  return status;
}

void sd_picker_destroy(sd_picker *p) {
  sd_alias_destroy(&p->alone);
  sd_alias_destroy(&p->runs);
  free(p->run_lengths);
  p->run_lengths = NULL;
}
