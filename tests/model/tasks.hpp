/* Tasks between records: what tasks.cpp and the wrong variants of it share. */
#include "model.hpp"
#include "strand/task_pool.h"

enum { MODEL_TASKS = 4 };

struct right_tasks {
  /* How many records the owner may handle. */
  static int64_t count(sd_task *tasks, sd_strand *q) {
    int64_t pending = sd_strand_pending(q);
    if (!sd_strand_tasks(q)) return pending;
    sd_lock(&q->publish_lock);
    int64_t ahead = (int64_t)sd_task_ahead(tasks, q);
    sd_unlock(&q->publish_lock);
    return ahead;
  }
  static int give_up(sd_task *tasks, sd_strand *q, uint64_t handle) {
    return sd_task_cancel(&tasks[(uint32_t)handle - 1], handle);
  }
};

/* A publisher that queues tasks between its batches and gives one up, another one beside it, and workers. */
template <typename rules, bool inlined> struct tasks : rl::test_suite<tasks<rules, inlined>, 4> {
  world w;
  sd_task_list list;
  sd_task table[MODEL_TASKS];
  SD_PLAIN(uint32_t) stack[MODEL_TASKS];
  sd_task_pool pool;
  uint32_t place[MODEL_TASKS + 1]; /* what the first publisher had published when it queued each; of tag 1, 2 ... */
  int queued, ran, given_up;
  void before() {
    w.begin();
    sd_init(&list.lock, 0u);
    list.free = list.unused = list.closed = 0u;
    list.kept = 0;
    list.filled = list.n = MODEL_TASKS;
    sd_init(&list.guests, 0u);
    for (int kind = 0; kind < SD_TASK_KINDS; kind++)
      sd_init(&list.counts.submitted[kind], 0u), sd_init(&list.counts.ended[kind], 0u);
    pool.list = &list;
    pool.stack = stack;
    pool.tasks = table;
    for (auto &t : table) sd_init(&t.word, 0u);
    queued = ran = given_up = 0;
    for (auto &s : w.strand) {
      sd_init(&s.tasks, 0u);
      sd_init(&s.failed, 0u);
      for (auto &d : s.dropped) sd_init(&d, 0u);
    }
  }

  void publish(uint32_t participant, uint32_t source, uint32_t first, uint32_t n) {
    sd_strand *q = &w.strand[0];
    if (inlined && sd_strand_own_idle(q, participant)) {
      RL_ASSERT(w.o.holders[0] == 0 && w.o.running[0] == 0);
      w.o.running[0] = 1;
      for (uint32_t i = 0; i < n; i++) w.handle(0, record_of(source, first + i));
      w.o.accepted += n;
      sd_store(&q->accepted, sd_load(&q->accepted, relaxed, C1) + n, relaxed, C1);
      sd_store(&q->handled, sd_load(&q->handled, relaxed, C1) + n, relaxed, C1);
      w.o.running[0] = 0;
      sd_strand_disown(q);
      return;
    }
    sd_byte batch[2];
    for (uint32_t i = 0; i < n; i++) batch[i] = record_of(source, first + i);
    sd_lock(&q->publish_lock);
    uint32_t done = sd_strand_link(q, &w.pool, &w.cache[participant], batch, NULL, n);
    RL_ASSERT(done == n);
    sd_store(&q->accepted, sd_load(&q->accepted, relaxed, C1) + n, relaxed, C1);
    int mine = sd_strand_add(q, n);
    if (mine) w.got(0);
    w.o.accepted += n;
    sd_unlock(&q->publish_lock);
    if (mine) w.put_on_list(0);
  }
  uint64_t enqueue_task(uint32_t tag, uint32_t published) {
    sd_strand *q = &w.strand[0];
    uint32_t index;
    RL_ASSERT(sd_guest_takes(&pool, &index, 1, SD_STRAND_TASKS, 0) == 1);
    place[tag] = published;
    table[index].call = tag;
    uint64_t handle = sd_task_handle(sd_task_fill(&table[index], SD_TASK_ON_STRAND), index);
    sd_lock(&q->publish_lock);
    queued++;
    int mine = 0;
    uint64_t revived = sd_task_revive(table, q, tag);
    if (!revived) {
      sd_task_link(table, q, index + 1);
      mine = sd_strand_add(q, 1);
      if (mine) w.got(0);
    }
    sd_unlock(&q->publish_lock);
    if (revived) {
      sd_task_end(&table[index]);
      sd_guest_gives(&pool, index, SD_STRAND_TASKS, 0);
    }
    if (mine) w.put_on_list(0);
    sd_guest_leaves(&pool);
    return revived ? revived : handle;
  }
  void give_up(uint64_t handle) { given_up += rules::give_up(table, &w.strand[0], handle); }

  /* The first task's turn, when no record is before it. */
  bool take_task() {
    sd_strand *q = &w.strand[0];
    sd_lock(&q->publish_lock);
    if (!sd_strand_tasks(q) || sd_task_ahead(table, q)) {
      sd_unlock(&q->publish_lock);
      return false;
    }
    sd_task *t = &table[sd_first_task(table, q) - 1];
    bool runs = sd_task_start(t) == SD_TASK_WAITS;
    uint64_t tag = t->call;
    sd_unlock(&q->publish_lock);
    if (runs) {
      RL_ASSERT(w.o.running[0] == 0);
      w.o.running[0] = 1;
      RL_ASSERT((uint64_t)w.row[0][0] == place[tag]);
      w.row[1][0] = tag; /* of a strand that nobody uses: tasks follow one another as records do */
      ran++;
      w.o.running[0] = 0;
    }
    sd_lock(&q->publish_lock);
    uint32_t task = sd_task_unlink(table, q);
    sd_unlock(&q->publish_lock);
    sd_task_end(&table[task - 1]);
    sd_guest_gives(&pool, task - 1, SD_STRAND_TASKS, 0);
    return true;
  }
  bool duty(uint32_t me) {
    uint32_t s;
    if (!w.take_off_list(me, &s)) return false;
    sd_strand *q = &w.strand[0];
    RL_ASSERT(sd_strand_take(q, me));
    int64_t n = 0;
    if (sd_strand_tasks(q) && take_task()) {
      n = 1;
    } else {
      n = rules::count(table, q);
      if (n > 2) n = 2;
      RL_ASSERT(w.o.running[0] == 0);
      w.o.running[0] = 1;
      for (int64_t left = n; left > 0;) {
        sd_byte *record;
        uint32_t run = sd_strand_front(q, &w.pool, &w.cache[me], (uint32_t)left, &record);
        for (uint32_t i = 0; i < run; i++) w.handle(0, record[i]);
        sd_strand_advance(q, &w.pool, &w.cache[me], run);
        left -= run;
      }
      w.o.running[0] = 0;
      sd_store(&q->handled, sd_load(&q->handled, relaxed, C1) + n, relaxed, C1);
    }
    q->last = me;
    if (!sd_strand_release(q, n)) w.let_go(0);
    else w.put_on_list(0);
    return true;
  }
  void thread(unsigned index) {
    if (index == 0) {
      publish(2, 0, 1, 1);
      enqueue_task(1, 1);
      publish(2, 0, 2, 2);
      give_up(enqueue_task(2, 3));
      enqueue_task(3, 3);
      publish(2, 0, 4, 1);
      w.o.published++;
    } else if (index == 1) {
      publish(3, 1, 1, 1);
      publish(3, 1, 2, 1);
      w.o.published++;
    } else {
      while (w.o.published < 2 || w.o.handled < w.o.accepted || ran + given_up < queued)
        if (!duty(index - 2)) sd_pause();
    }
  }
  void after() {
    /* What was given up last may still stand there, alone. */
    while (duty(0)) {
    }
    w.end();
    RL_ASSERT(ran + given_up == queued);
    RL_ASSERT(sd_load(&list.counts.submitted[SD_STRAND_TASKS], relaxed, X) ==
              sd_load(&list.counts.ended[SD_STRAND_TASKS], relaxed, X));
    sd_tasks_close(&pool);
  }
};
