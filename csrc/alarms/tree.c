#include "alarms/tree.h"

enum { A_LINE = SD_LINE / sizeof(uint64_t), DEEPEST = 32 };

/* A strand without symbols has a root too. */
static uint64_t nodes_of(uint32_t symbols) { return (2 * (uint64_t)symbols / A_LINE + 1) * A_LINE; }

/* The bound for every distribution of symbols to strands: two nodes for each symbol, and at most one line more for each tree. */
uint64_t sd_alarm_nodes(uint32_t n_symbols, uint32_t n_strands) {
  return 2 * (uint64_t)n_symbols + (uint64_t)n_strands * A_LINE;
}

void sd_alarms_start(const sd_alarms *w, const uint32_t *strand_of, uint32_t n_symbols, uint32_t n_strands) {
  uint64_t nodes = 0;
  uint32_t symbols = 0;
  for (uint32_t i = 0; i < n_symbols; i++) w->span[strand_of[i]].n++;
  for (uint32_t i = 0; i < n_strands; i++) {
    sd_alarm_span *span = &w->span[i];
    span->node = nodes;
    span->symbol = symbols;
    nodes += nodes_of(span->n);
    symbols += span->n;
    span->n = 0;
  }
  for (uint64_t i = 0; i < nodes; i++) sd_init(&w->nodes[i], SD_NEVER);
  for (uint32_t i = 0; i < n_symbols; i++) {
    sd_alarm_span *span = &w->span[strand_of[i]];
    w->place[i] = (sd_alarm_place){strand_of[i], span->n};
    w->symbols[span->symbol + span->n++] = i;
  }
  for (uint32_t i = 0; i < n_symbols; i++) w->place[i].leaf += w->span[strand_of[i]].n;
}

uint32_t sd_alarm_first(const sd_alarm_tree *t) {
  uint32_t at = 1;
  while (at < t->n) at = 2 * at + (sd_alarm_at(t, 2 * at + 1) < sd_alarm_at(t, 2 * at));
  return at;
}

uint32_t sd_alarm_due(const sd_alarm_tree *t, uint64_t time, uint32_t *leaf, uint32_t maximum) {
  uint32_t rest[DEEPEST], n_rest = 0, found = 0;
  if (!sd_alarm_precedes(sd_alarm_next(t), time)) return 0;
  rest[n_rest++] = 1;
  while (n_rest && found < maximum) {
    uint32_t at = rest[--n_rest];
    while (at < t->n) {
      int left = sd_alarm_precedes(sd_alarm_at(t, 2 * at), time),
          right = sd_alarm_precedes(sd_alarm_at(t, 2 * at + 1), time);
      if (left && right) rest[n_rest++] = 2 * at + 1;
      at = 2 * at + !left;
    }
    leaf[found++] = at;
  }
  return found;
}
