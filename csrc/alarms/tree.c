#include "alarms/tree.h"

#include <stdlib.h>
#include <string.h>

#include "sd_error.h"

enum { A_LINE = SD_LINE / sizeof(uint64_t), DEEPEST = 32 };

/* A strand without symbols has a root too. */
static uint64_t nodes_of(uint32_t symbols) { return (2 * (uint64_t)symbols / A_LINE + 1) * A_LINE; }

int sd_alarms_create(sd_alarms *w, const uint32_t *strand_of, uint32_t n_symbols, uint32_t n_strands) {
  uint64_t nodes = 0;
  uint32_t symbols = 0;
  w->tree = calloc(n_strands, sizeof *w->tree);
  w->place = calloc(n_symbols, sizeof *w->place);
  w->symbols = calloc(n_symbols, sizeof *w->symbols);
  if (!w->tree || !w->place || !w->symbols) return SD_E_NO_MEMORY;
  for (uint32_t i = 0; i < n_symbols; i++) w->tree[strand_of[i]].n++;
  for (uint32_t i = 0; i < n_strands; i++) nodes += nodes_of(w->tree[i].n);
  w->nodes = aligned_alloc(SD_LINE, nodes * sizeof *w->nodes);
  if (!w->nodes) return SD_E_NO_MEMORY;
  for (uint64_t i = 0; i < nodes; i++) sd_init(&w->nodes[i], SD_NEVER);
  nodes = 0;
  for (uint32_t i = 0; i < n_strands; i++) {
    w->tree[i].node = w->nodes + nodes;
    w->tree[i].symbol = w->symbols + symbols;
    nodes += nodes_of(w->tree[i].n);
    symbols += w->tree[i].n;
    w->tree[i].n = 0;
  }
  for (uint32_t i = 0; i < n_symbols; i++) {
    sd_alarm_tree *t = &w->tree[strand_of[i]];
    w->place[i] = (sd_alarm_place){strand_of[i], t->n};
    w->symbols[(t->symbol - w->symbols) + t->n++] = i;
  }
  for (uint32_t i = 0; i < n_symbols; i++) w->place[i].leaf += w->tree[strand_of[i]].n;
  return SD_OK;
}

void sd_alarms_destroy(sd_alarms *w) {
  free(w->tree);
  free(w->place);
  free(w->nodes);
  free(w->symbols);
}

uint32_t sd_alarm_first(const sd_alarm_tree *t) {
  uint32_t at = 1;
  while (at < t->n) at = 2 * at + (sd_alarm_at(t, 2 * at + 1) < sd_alarm_at(t, 2 * at));
  return at;
}

uint32_t sd_alarm_due(const sd_alarm_tree *t, uint64_t time, uint32_t *leaf, uint32_t most) {
  uint32_t rest[DEEPEST], n_rest = 0, found = 0;
  time = sd_alarm_until(time);
  if (sd_alarm_next(t) > time) return 0;
  rest[n_rest++] = 1;
  while (n_rest && found < most) {
    uint32_t at = rest[--n_rest];
    while (at < t->n) {
      int left = sd_alarm_at(t, 2 * at) <= time, right = sd_alarm_at(t, 2 * at + 1) <= time;
      if (left && right) rest[n_rest++] = 2 * at + 1;
      at = 2 * at + !left;
    }
    leaf[found++] = at;
  }
  return found;
}
