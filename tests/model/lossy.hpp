/* Lossy strands: publishers discard the oldest under the publish lock, a worker copies its budget out under it. */
#include "model.hpp"

struct right_lossy {
  /* The token counts what is queued and what is in the owner's hands: one add of the difference, never through 0. */
  static int add(sd_strand *q, int64_t linked, int64_t discarded) { return sd_strand_add(q, linked - discarded); }
};

template <typename rules> struct lossy : rl::test_suite<lossy<rules>, 4> {
  world w;
  void before() { w.begin(true, 2); }

  void publish(uint32_t s, uint32_t participant, uint32_t source, uint32_t first, uint32_t n) {
    sd_strand *q = &w.strand[s];
    sd_byte batch[2];
    for (uint32_t i = 0; i < n; i++) batch[i] = record_of(source, first + i);
    sd_lock(&q->publish_lock);
    uint32_t room = q->capacity - q->queued, discard = n > room ? n - room : 0;
    if (discard) sd_strand_advance(q, &w.pool, &w.cache[participant], discard);
    uint32_t done = sd_strand_link(q, &w.pool, &w.cache[participant], batch, NULL, n);
    RL_ASSERT(done == n);
    q->queued = q->queued + done - discard;
    int mine = rules::add(q, done, discard);
    w.o.accepted += done;
    w.o.dropped += discard;
    if (mine) w.got(s);
    sd_unlock(&q->publish_lock);
    if (mine) w.put_on_list(s);
  }
  bool duty(uint32_t me) {
    uint32_t s;
    if (!w.take_off_list(me, &s)) return false;
    sd_strand *q = &w.strand[s];
    RL_ASSERT(sd_strand_take(q, me));
    RL_ASSERT(sd_strand_pending(q) > 0);
    sd_byte out[2];
    sd_lock(&q->publish_lock);
    uint32_t n = q->queued < 2 ? (uint32_t)q->queued : 2;
    RL_ASSERT(n > 0);
    sd_strand_gather(q, &w.pool, n, out);
    sd_strand_advance(q, &w.pool, &w.cache[me], n);
    q->queued = q->queued - n;
    sd_unlock(&q->publish_lock);
    for (uint32_t i = 0; i < n; i++) w.handle(s, out[i], true);
    q->last = me;
    if (!sd_strand_release(q, n)) w.let_go(s);
    else w.put_on_list(s);
    return true;
  }
  void thread(unsigned index) {
    if (index < 2) {
      publish(0, 2 + index, index, 1, 2);
      publish(0, 2 + index, index, 3, 1);
      publish(0, 2 + index, index, 4, 2);
      w.o.published++;
    } else {
      while (w.o.published < 2 || w.o.handled + w.o.dropped < w.o.accepted)
        if (!duty(index - 2)) sd_pause();
    }
  }
  void after() { w.end(); }
};
