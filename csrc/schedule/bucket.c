#include "schedule/bucket.h"

#include "base/clock.h"

void sd_bucket_start(sd_bucket *bucket, double cores, uint64_t burst_ns, uint64_t slice_ns) {
  bucket->rate = cores * sd_the_clock.ns_per_count;
  bucket->capacity = (int64_t)((double)burst_ns * cores);
  if (bucket->capacity < 1) bucket->capacity = 1;
  bucket->tokens = bucket->capacity;
  const int64_t half = (bucket->capacity + 1) / 2;
  bucket->enough = (int64_t)slice_ns < half ? (int64_t)slice_ns : half;
}

/* What is granted from the first look until `now`. */
static inline uint64_t granted_at(const sd_bucket *bucket, uint64_t now) {
  return now > bucket->epoch ? (uint64_t)((double)(now - bucket->epoch) * bucket->rate) : 0;
}

static void refill_bucket(sd_bucket *bucket, uint64_t now) {
  if (!bucket->looked) {
    bucket->looked = 1;
    bucket->epoch = now;
  }
  const uint64_t granted = granted_at(bucket, now);
  if (granted <= bucket->granted) return; /* threads' clocks may be a little out of order */
  const uint64_t more = granted - bucket->granted, missing = (uint64_t)(bucket->capacity - bucket->tokens);
  bucket->granted = granted;
  bucket->tokens += (int64_t)(more < missing ? more : missing);
}

int sd_bucket_holds(sd_bucket *bucket, int in_slice, uint64_t now) {
  refill_bucket(bucket, now);
  if (bucket->tokens >= (bucket->held || !in_slice ? bucket->enough : 1)) {
    bucket->held = 0;
    return 0;
  }
  bucket->holds += !bucket->held;
  bucket->held = 1;
  return 1;
}

uint64_t sd_bucket_due(sd_bucket *bucket, uint64_t now) {
  if (!bucket->held) return UINT64_MAX;
  refill_bucket(bucket, now);
  const int64_t missing = bucket->enough - bucket->tokens;
  const uint64_t goal = bucket->granted + (uint64_t)(missing > 0 ? missing : 0);
  uint64_t due = bucket->epoch + (uint64_t)((double)goal / bucket->rate);
  while (granted_at(bucket, due) < goal) due++;
  return due;
}
