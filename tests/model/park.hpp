/* Workers that sleep: what park.cpp and the wrong variants of it share. */
#include "model.hpp"

struct right_parking {
  static void list_and_wake(world &w, uint32_t s) {
    w.put_on_list(s);
    sd_idle_wake_one(&w.idle);
  }
  static uint32_t enter(sd_idle *idle) { return sd_idle_enter(idle); }
  static void sleep(sd_idle *idle, uint32_t epoch) { sd_idle_sleep(idle, epoch); }
  static void sleep_for(world *w, uint32_t epoch, sd_a32 *due) {
    sd_idle_sleep_for(&w->idle, epoch, 1);
    const uint32_t left = sd_load(due, relaxed, M1);
    if (left) sd_store(due, left - 1, relaxed, M1);
  }
  static void leave(sd_idle *idle) { sd_idle_leave(idle); }
};

/* Who handles the last record stops the run. So when a wake-up is lost nobody does: all sleep, and that is a deadlock. */
/* `held`: what is listed is held back until a worker that waits for it has seen a time-out, or another one has; so workers come upon a
 * pool that is held, and leave one of them to come back. */
template <typename parking, int publishers, int workers, int batches, bool held = false>
struct park : rl::test_suite<park<parking, publishers, workers, batches, held>, publishers + workers> {
  world w;
  sd_a32 stopping;
  int stopped;
  sd_a32 due; /* looks until the pool is let go */
  void before() {
    w.begin();
    sd_init(&stopping, 0u);
    stopped = 0;
    sd_init(&due, held ? 2u : 0u);
    memset(sent, 0, sizeof sent);
    model_waiters.n = 0;
  }
  void stop_at_the_end() {
    if (stopped || w.o.published < publishers || w.o.handled < w.o.accepted) return;
    stopped = 1;
    sd_store(&stopping, 1u, relaxed, M1);
    sd_idle_wake_all(&w.idle);
  }
  void publisher(unsigned me) {
    for (uint32_t i = 0; i < batches; i++) {
      uint32_t s = (me + i) % MODEL_STRANDS;
      sd_strand *q = &w.strand[s];
      sd_byte record;
      sd_lock(&q->publish_lock);
      record = record_of(me, ++sent[me][s]);
      sd_strand_link(q, &w.pool, &w.cache[3 + me], &record, NULL, 1);
      int mine = sd_strand_add(q, 1);
      if (mine) w.got(s);
      w.o.accepted++;
      sd_unlock(&q->publish_lock);
      if (mine) parking::list_and_wake(w, s);
    }
    w.o.published++;
    stop_at_the_end();
  }
  void worker(unsigned me) {
    uint32_t participant = me;
    while (!sd_load(&stopping, relaxed, M1)) {
      if (!holds() && w.work(me, participant)) {
        stop_at_the_end();
        continue;
      }
      uint32_t epoch = parking::enter(&w.idle);
      uint32_t found = 0;
      for (auto &l : w.list) found += sd_list_length_locked(&l);
      const bool waits = !sd_load(&stopping, relaxed, M1);
      if (waits && !found) parking::sleep(&w.idle, epoch);
      else if (waits && holds()) parking::sleep_for(&w, epoch, &due);
      parking::leave(&w.idle);
    }
  }
  /* The time goes on while somebody sleeps for it. */
  bool holds() { return held && sd_load(&due, relaxed, M1) != 0; }
  void thread(unsigned index) {
    if (index < publishers) publisher(index);
    else worker(index - publishers);
  }
  void after() {
    w.end();
    RL_ASSERT(sd_load(&w.idle.state, relaxed, I3) == 0);
  }
  uint32_t sent[MODEL_SOURCES][MODEL_STRANDS];
};
