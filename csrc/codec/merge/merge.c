#include "codec/merge/merge.h"

#include <string.h>

/* Ticks may lie in a mapped file, at any offset, so C has to load them byte by byte. */
static inline uint64_t receive_time(const sd_tick *tick) {
  uint64_t time;
  memcpy(&time, (const char *)tick + offsetof(sd_tick, ts_recv), sizeof time);
  return time;
}

/* It has no branch: if sources alternate, nobody can predict which one is next. */
static inline int before(sd_merge_node a, sd_merge_node b) {
  return (a.time < b.time) | ((a.time == b.time) & (a.source < b.source));
}

/* The place of a source: at its next tick, or, until that is known, before all others. */
static inline sd_merge_node place_of(const sd_merge *merge, uint64_t index) {
  const sd_merge_source *s = &merge->sources[index];
  if (s->at != s->end) return (sd_merge_node){receive_time(s->at), index};
  return s->ended ? (sd_merge_node){UINT64_MAX, UINT64_MAX} : (sd_merge_node){0, index};
}

/* Plays `now`, the new place of the source that won last, against the losers on its way up the tree. */
static inline void replay(sd_merge *merge, uint64_t source, sd_merge_node now) {
  for (uint64_t at = (merge->n_sources + source) / 2; at > 0; at /= 2) {
    sd_merge_node other = merge->nodes[at];
    int lost = before(other, now);
    merge->nodes[at].time = lost ? now.time : other.time;
    merge->nodes[at].source = lost ? now.source : other.source;
    now.time = lost ? other.time : now.time;
    now.source = lost ? other.source : now.source;
  }
  merge->nodes[0] = now;
}

/* The best of all sources except the winner. Only the winner has beaten it, so it waits on the winner's way. */
static inline sd_merge_node runner_up(const sd_merge *merge, uint64_t source) {
  sd_merge_node best = {UINT64_MAX, UINT64_MAX};
  for (uint64_t at = (merge->n_sources + source) / 2; at > 0; at /= 2)
    if (before(merge->nodes[at], best)) best = merge->nodes[at];
  return best;
}

/* Plays the first games. Leaf i is node n + i, and the children of node k are 2k and 2k + 1. */
static sd_merge_node winner_below(sd_merge *merge, uint64_t at) {
  if (at >= merge->n_sources) return place_of(merge, at - merge->n_sources);
  sd_merge_node a = winner_below(merge, 2 * at), b = winner_below(merge, 2 * at + 1);
  int first = before(a, b);
  merge->nodes[at] = first ? b : a;
  return first ? a : b;
}

static inline int copy_tick(const sd_merge_source *s, sd_tick *out) {
  memcpy(out, s->at, sizeof *out);
  if (!s->ids) return 1;
  if (out->instrument_id >= s->n_ids) return 0;
  out->instrument_id = s->ids[out->instrument_id];
  return out->instrument_id != SD_MERGE_UNMAPPED;
}

int sd_merge_take(sd_merge *merge, sd_tick *out, int32_t *from, uint64_t capacity) {
  if (!merge->built) {
    merge->nodes[0] = winner_below(merge, 1);
    merge->built = 1;
  } else if (merge->wanted < merge->n_sources) {
    replay(merge, merge->wanted, place_of(merge, merge->wanted));
  }
  merge->wanted = UINT64_MAX;
  merge->made = 0;
  uint64_t made = 0, last = UINT64_MAX;
  int code = SD_OK;
  while (made < capacity) {
    sd_merge_node first = merge->nodes[0];
    if (first.source == UINT64_MAX) break;
    sd_merge_source *s = &merge->sources[first.source];
    if (s->at == s->end) {
      code = SD_AGAIN;
    } else {
      /* After a first win the runner-up is not searched for, because that costs as much as a replay. */
      sd_merge_node bound = first.source == last ? runner_up(merge, first.source) : first;
      last = first.source;
      do {
        if (!copy_tick(s, &out[made])) {
          code = SD_E_KEY;
          break;
        }
        from[made] = (int32_t)first.source;
        s->at++;
        made++;
      } while (made < capacity && s->at != s->end && before((sd_merge_node){receive_time(s->at), first.source}, bound));
    }
    if (code != SD_OK) {
      /* The source may stand where it stood, or get more ticks: the next call plays it again. */
      merge->wanted = first.source;
      break;
    }
    replay(merge, first.source, place_of(merge, first.source));
  }
  merge->made = made;
  return code;
}

uint64_t sd_merge_ordered(const sd_tick *ticks, uint64_t n, uint64_t latest, uint64_t *reached) {
  uint64_t i = 0;
  for (; i < n; i++) {
    uint64_t time = receive_time(&ticks[i]);
    if (time < latest) break;
    latest = time;
  }
  *reached = latest;
  return i;
}
