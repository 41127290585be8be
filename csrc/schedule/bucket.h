/* A token bucket that caps the on-CPU time of all workers together. Its user has a lock for it.
 *
 * The bucket holds on-CPU nanoseconds. It is refilled at each look, and charged when visits end, so it may go below zero. When it is found
 * empty, or with less than a slice's worth where a group would begin its slice, the pool is held: nobody takes a strand until a slice's
 * worth is there. Otherwise workers would wake for each drop. If the bucket holds less than two slices, half of it is enough: what is
 * refilled until a worker has woken must find space. */
#pragma once

#include <stdint.h>

typedef struct sd_bucket {
  double rate;             /* ns per clock count */
  uint64_t epoch, granted; /* the first look, in clock counts, and what was granted since */
  int64_t tokens, capacity, enough;
  uint32_t looked, held;
  uint64_t holds; /* times that the pool began to be held */
} sd_bucket;

/* `cores`: how much on-CPU time is granted per time. The bucket is full, and holds what `burst_ns` refill. */
void sd_bucket_start(sd_bucket *bucket, double cores, uint64_t burst_ns, uint64_t slice_ns);
/* Whether nobody may run at `now`; `in_slice`: the first group has begun its slice. */
int sd_bucket_holds(sd_bucket *bucket, int in_slice, uint64_t now);
static inline void sd_bucket_take(sd_bucket *bucket, uint64_t on_cpu_ns) { bucket->tokens -= (int64_t)on_cpu_ns; }
/* Until when the pool is held, a clock reading; UINT64_MAX: it is not. */
uint64_t sd_bucket_due(sd_bucket *bucket, uint64_t now);
