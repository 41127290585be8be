/* Records that timers emitted and that wait to be handed out: by time, then by key, then as they came. The merger's alone. */
#ifndef SD_EMIT_ALARM_MERGE_H
#define SD_EMIT_ALARM_MERGE_H

#include <stdint.h>

/* The time of what the end of the run emitted: it comes after all timers, by key. */
#define SD_DUE_AT_END UINT64_MAX

typedef struct sd_due {
  uint64_t time;
  uint32_t key, ref;
} sd_due;

typedef struct sd_due_list {
  sd_due *due, *spare; /* of `room`; the second one to sort in */
  uint64_t at;         /* the next one to be handed out */
  uint64_t sorted;     /* from `at` to here they are in order, from here to `n` as they came */
  uint64_t n, room;
  /* by key, of `keys`: whether it is there, and which record is its; for a sort */
  uint64_t *there;
  uint32_t *place;
  uint64_t keys;
} sd_due_list;

/* Adds one behind the others. SD_E_NO_MEMORY. */
int sd_due_add(sd_due_list *list, uint64_t time, uint32_t key, uint32_t ref);
/* Puts what was added since the last time in its place. */
void sd_due_sort(sd_due_list *list);
void sd_due_free(sd_due_list *list);

/* The time of the next one; SD_DUE_AT_END where there is none. */
static inline uint64_t sd_due_time(const sd_due_list *list) {
  return list->at < list->n ? list->due[list->at].time : SD_DUE_AT_END;
}

#endif
