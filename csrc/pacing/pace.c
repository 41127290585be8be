#include "pace.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"

uint64_t sd_pace_now(void) { return sd_monotonic_ns(); }

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

int sd_pace_wait(uint64_t until, uint64_t spin) {
  for (;;) {
    uint64_t now = sd_monotonic_ns();
    if (now >= until) return 1;
    if (until - now > spin) {
      uint64_t wake = until - spin;
      struct timespec t = {(time_t)(wake / 1000000000u), (long)(wake % 1000000000u)};
      if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) return 0;
    } else {
      relax();
    }
  }
}

void sd_pace_note(sd_pace_book *book, const int64_t *due, uint64_t n, int64_t now, uint64_t late_after) {
  for (uint64_t i = 0; i < n; i++) {
    uint64_t behind = now > due[i] ? (uint64_t)(now - due[i]) : 0;
    book->bucket[sd_bucket_of(behind)]++;
    book->late += behind > late_after;
    if (behind > book->furthest) book->furthest = behind;
  }
  book->ticks += n;
}

void sd_pace_floors(uint64_t *floors) {
  for (unsigned bucket = 0; bucket < SD_BUCKETS; bucket++) floors[bucket] = sd_bucket_floor(bucket);
}
