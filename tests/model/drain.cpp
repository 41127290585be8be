/* Publishing, draining, stealing, handling inline and shedding beside one another. */
#include "model.hpp"

enum { PUBLISH_ONLY = 0, INLINE = 1, SHED = 2 };

/* Two publishers, two workers, two strands: each publisher sends two batches to the first strand and one to the other. */
template <int mode> struct drain : rl::test_suite<drain<mode>, 4> {
  world w;
  void before() { w.begin(); }
  void send(unsigned me, uint32_t s, uint32_t first, uint32_t n) {
    if ((mode & INLINE) && w.handle_inline(s, 2 + me, me, first, n)) return;
    w.publish(s, 2 + me, me, first, n);
  }
  void thread(unsigned index) {
    if (index < 2) {
      send(index, 0, 1, 2);
      send(index, 1, 1, 1);
      send(index, 0, 3, 1);
      w.o.published++;
    } else {
      while (w.o.published < 2 || w.o.handled < w.o.accepted)
        if (!w.work(index - 2, index - 2, mode & SHED)) sd_pause();
    }
  }
  void after() { w.end(); }
};

/* The pool runs dry: a publisher that finds no segment takes the one its idle strand still has. Four segments: the worker comes
 * to hold two, and each strand keeps one that is used up. */
struct dry_pool : rl::test_suite<dry_pool, 2> {
  world w;
  void before() { w.begin(false, 1000, 4); }
  bool try_publish(uint32_t s, uint32_t sequence) {
    sd_strand *q = &w.strand[s];
    sd_segment_cache *cache = &w.cache[1];
    sd_byte record;
    record = record_of(0, sequence);
    sd_lock(&q->publish_lock);
    uint32_t done = sd_strand_link(q, &w.pool, cache, &record, NULL, 1);
    if (!done) {
      sd_strand_reclaim(q, &w.pool, cache);
      done = sd_strand_link(q, &w.pool, cache, &record, NULL, 1);
    }
    int mine = done && sd_strand_add(q, 1);
    if (mine) w.got(s);
    w.o.accepted += done;
    sd_unlock(&q->publish_lock);
    if (mine) w.put_on_list(s);
    return done;
  }
  void thread(unsigned index) {
    if (index == 0) {
      for (uint32_t i = 1; i <= 6; i++)
        for (uint32_t s = 0; s < 2; s++)
          while (!try_publish(s, i)) sd_pause();
      w.o.published++;
    } else {
      while (w.o.published < 1 || w.o.handled < w.o.accepted)
        if (!w.work(0, 0, false)) sd_pause();
    }
  }
  void after() { w.end(); }
};

/* Small enough for a search to the end: one publisher of two batches, one worker. */
struct drain_small : rl::test_suite<drain_small, 2> {
  world w;
  void before() { w.begin(); }
  void thread(unsigned index) {
    if (index == 0) {
      w.publish(0, 2, 0, 1, 1);
      w.publish(0, 2, 0, 2, 1);
      w.o.published++;
    } else {
      while (w.o.published < 1 || w.o.handled < w.o.accepted)
        if (!w.work(0, 0, true)) sd_pause();
    }
  }
  void after() { w.end(); }
};

static const model_program programs[] = {
    {"publish_drain", "", model_simulate<drain<PUBLISH_ONLY>>},
    {"publish_inline_drain", "", model_simulate<drain<INLINE>>},
    {"publish_shed_drain", "", model_simulate<drain<SHED>>},
    {"publish_inline_shed", "", model_simulate<drain<INLINE | SHED>>},
    {"publish_dry_pool", "", model_simulate<dry_pool>},
    {"publish_drain_small", "full", model_simulate<drain_small>},
};

int main(int argc, char **argv) { return model_main(argc, argv, programs, sizeof programs / sizeof *programs); }
