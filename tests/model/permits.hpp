/* What waits for a permit, and workers that sleep: what park.cpp and a wrong variant of it share. */
#include "model.hpp"
#include "schedule/permits.h"

struct right_deferring {
  static void defer(world &w, sd_permits *permits) {
    w.put_on_list(0);
    sd_permits_pass_through(permits);
  }
  static int wanted(sd_permits *permits, sd_list *deferred) { return sd_permits_wanted(permits, deferred, 1); }
};

/* One permit. Worker 0 has it, gives it back, and goes elsewhere for ever. Worker 1 wants it for what it took, and defers that if it gets
 * none. It looks once more, and then goes elsewhere for ever too. The other workers have nothing to do. If the wake-up for what was
 * deferred is lost they sleep, and that is a deadlock. */
template <typename deferring, int workers> struct permits : rl::test_suite<permits<deferring, workers>, workers> {
  world w;
  sd_permits all;
  sd_a32 stopping;
  SD_PLAIN(uint32_t) entry; /* what whoever defers writes, and whoever takes reads */
  int ran, inside;
  void before() {
    w.begin();
    w.got(0);
    sd_init(&all.lock, 0u);
    sd_init(&all.held, 1u);
    sd_init(&stopping, 0u);
    ran = 0, inside = 1;
    model_waiters.n = 0;
  }
  sd_list *deferred() { return &w.list[0]; }
  void run() {
    RL_ASSERT(++inside == 1);
    RL_ASSERT((uint32_t)entry == 7 && !ran);
    ran = 1;
    inside--;
    sd_permits_give(&all, deferred());
    sd_store(&stopping, 1u, relaxed, M1);
    sd_idle_wake_all(&w.idle);
  }
  /* Nonzero: it took and ran what is deferred. */
  int look() {
    uint32_t s;
    if (!sd_list_length(deferred()) || !sd_permits_take(&all, 1)) return 0;
    if (sd_list_pop(deferred(), w.ring[0], NULL, &s, 1, 4)) {
      run();
      return 1;
    }
    sd_permits_give(&all, deferred());
    return 0;
  }
  void thread(unsigned index) {
    if (index == 0) {
      inside--;
      if (sd_permits_give(&all, deferred())) sd_idle_wake_one(&w.idle);
      return;
    }
    if (index == 1) {
      entry = 7;
      if (sd_permits_take(&all, 1)) {
        run();
        return;
      }
      deferring::defer(w, &all);
      look();
      return;
    }
    while (!sd_load(&stopping, relaxed, M1)) {
      if (look()) continue;
      const uint32_t epoch = sd_idle_enter(&w.idle);
      if (!sd_load(&stopping, relaxed, M1) && !deferring::wanted(&all, deferred())) sd_idle_sleep(&w.idle, epoch);
      sd_idle_leave(&w.idle);
    }
  }
  void after() { RL_ASSERT(ran && sd_permits_held(&all) == 0); }
};
