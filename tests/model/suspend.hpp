/* Tasks that give their participant back before they are over, on a strand and free: what tasks.cpp and the wrong variants share. */
#include "tasks.hpp"

struct right_pauses {
  enum { LISTED_FIRST = 0 };
  static int pause(sd_task *t, uint32_t to) { return sd_task_pause(t, to); }
  static int end_away(sd_task_pool *pool, uint32_t index) { return sd_guest_ends(pool, index, SD_FREE_TASKS); }
};
/* It does not look whether a stop ends the task. */
struct ends_behind_a_stop : right_pauses {
  static int end_away(sd_task_pool *pool, uint32_t index) {
    sd_task_end(&pool->tasks[index]);
    sd_guest_gives(pool, index, SD_FREE_TASKS, 0);
    return 1;
  }
};
/* The word changes when others may have the task. */
struct lists_before_it_says : right_pauses {
  enum { LISTED_FIRST = 1 };
};
/* The mark of a stop that came in between is lost. */
struct pauses_by_a_store : right_pauses {
  static int pause(sd_task *t, uint32_t to) {
    const uint64_t word = sd_task_word(t);
    if (word & SD_TASK_LAST_TURN) return 0;
    sd_store(&t->word, (word & ~(uint64_t)SD_TASK_STATES) | to, release, J3);
    return 1;
  }
};

/* A task of a strand has three turns: it goes away behind the first one, and is suspended behind the second. Publishers add records
 * meanwhile, another thread ends the block, and two workers take what is listed. */
template <typename rules> struct suspended : rl::test_suite<suspended<rules>, 4> {
  world w;
  sd_task table[1];
  SD_PLAIN(uint32_t) kept; /* what the task keeps from turn to turn */
  int turns, over;
  sd_a32 away; /* in the engine one thread goes away and comes back */
  void before() {
    w.begin();
    sd_init(&away, 0u);
    sd_init(&table[0].word, 0u);
    for (auto &s : w.strand) {
      sd_init(&s.tasks, 0u);
      sd_init(&s.failed, 0u);
      for (auto &d : s.dropped) sd_init(&d, 0u);
    }
    kept = 0u;
    turns = over = 0;
  }
  void publish(uint32_t participant, uint32_t source, uint32_t sequence) {
    sd_strand *q = &w.strand[0];
    sd_byte batch[1];
    batch[0] = record_of(source, sequence);
    sd_lock(&q->publish_lock);
    const uint32_t linked = sd_strand_link(q, &w.pool, &w.cache[participant], batch, NULL, 1);
    RL_ASSERT(linked == 1);
    sd_store(&q->accepted, sd_load(&q->accepted, relaxed, C1) + 1, relaxed, C1);
    const int mine = sd_strand_add(q, 1);
    if (mine) w.got(0);
    w.o.accepted++;
    sd_unlock(&q->publish_lock);
    if (mine) w.put_on_list(0);
  }
  void enqueue_task() {
    sd_strand *q = &w.strand[0];
    sd_task_fill(&table[0], SD_TASK_ON_STRAND);
    sd_lock(&q->publish_lock);
    sd_task_link(table, q, 1);
    const int mine = sd_strand_add(q, 1);
    if (mine) w.got(0);
    sd_unlock(&q->publish_lock);
    if (mine) w.put_on_list(0);
  }
  /* Lets the strand go, and lists it again: the task still counts. */
  void list_again() {
    const int left = sd_strand_release(&w.strand[0], 0);
    RL_ASSERT(left);
    w.put_on_list(0);
  }
  void turn(uint32_t me) {
    sd_strand *q = &w.strand[0];
    const uint32_t state = sd_task_start(&table[0]);
    RL_ASSERT(state == (turns ? SD_TASK_SUSPENDED : SD_TASK_WAITS));
    RL_ASSERT((uint64_t)w.row[0][0] == 1u); /* what was published before the task, and nothing behind it */
    RL_ASSERT((uint32_t)kept == (uint32_t)turns);
    kept = (uint32_t)++turns;
    q->last = me;
    if (turns == 3) {
      sd_lock(&q->publish_lock);
      sd_task_unlink(table, q);
      sd_unlock(&q->publish_lock);
      over = 1;
      if (sd_strand_release(q, 1)) w.put_on_list(0);
      else w.let_go(0);
      return;
    }
    if (turns == 2 && rules::LISTED_FIRST) {
      list_again();
      rules::pause(&table[0], SD_TASK_SUSPENDED);
      return;
    }
    RL_ASSERT(rules::pause(&table[0], turns == 1 ? SD_TASK_AWAY : SD_TASK_SUSPENDED));
    if (turns == 2) return list_again();
    /* The token stays with the task. */
    sd_strand_end(q);
    sd_store(&away, 1u, release, X);
  }
  void duty(uint32_t me) {
    uint32_t s;
    if (!w.take_off_list(me, &s)) {
      sd_pause();
      return;
    }
    sd_strand *q = &w.strand[0];
    RL_ASSERT(sd_strand_take(q, me));
    if (sd_strand_tasks(q)) {
      sd_lock(&q->publish_lock);
      const int its_turn = sd_task_ahead(table, q) == 0;
      sd_unlock(&q->publish_lock);
      if (its_turn) return turn(me);
    }
    int64_t n = right_tasks::count(table, q);
    for (int64_t left = n; left > 0;) {
      sd_byte *record;
      const uint32_t run = sd_strand_front(q, &w.pool, &w.cache[me], (uint32_t)left, &record);
      for (uint32_t i = 0; i < run; i++) w.handle(0, record[i]);
      sd_strand_advance(q, &w.pool, &w.cache[me], run);
      left -= run;
    }
    sd_store(&q->handled, sd_load(&q->handled, relaxed, C1) + n, relaxed, C1);
    q->last = me;
    if (sd_strand_release(q, n)) w.put_on_list(0);
    else w.let_go(0);
  }
  void thread(unsigned index) {
    if (index == 0) {
      publish(2, 0, 1);
      enqueue_task();
      publish(2, 0, 2);
      w.o.published++;
    } else if (index == 1) {
      publish(3, 1, 1);
      w.o.published++;
      while (!sd_load(&away, acquire, X)) sd_pause();
      RL_ASSERT(sd_task_come_back(&table[0]));
      w.put_on_list(0);
    } else {
      while (w.o.published < 2 || w.o.handled < w.o.accepted || !over) duty(index - 2);
    }
  }
  void after() { w.end(); }
};

/* Free tasks of three turns each, one of which goes away behind its first turn, and comes back or ends there, while a stop ends whatever is
 * left. */
template <typename rules> struct suspended_free : rl::test_suite<suspended_free<rules>, 4> {
  enum { N = 2, TURNS = 3 };
  sd_task table[N];
  sd_task_list pool_list;
  SD_PLAIN(uint32_t) stack[N];
  sd_task_pool pool;
  sd_list list;
  sd_a32 ring[4];
  SD_PLAIN(uint32_t) kept[N];
  uint32_t turns[N], told[N];
  bool stopping;
  sd_a32 away;      /* as above */
  sd_a32 submitted; /* in the engine a stop waits for those that submit (J6) */
  void before() {
    sd_init(&list.lock, 0u), sd_init(&list.head, 0u), sd_init(&list.tail, 0u);
    list.mask = 3;
    list.first = list.last = 0u;
    for (auto &place : ring) sd_init(&place, 0u);
    for (uint32_t i = 0; i < N; i++) {
      sd_init(&table[i].word, 0u);
      kept[i] = 0u;
      turns[i] = told[i] = 0;
    }
    stopping = false;
    sd_init(&away, 0u), sd_init(&submitted, 0u);
    sd_init(&pool_list.lock, 0u), sd_init(&pool_list.guests, 0u);
    pool_list.free = pool_list.closed = 0u;
    pool_list.unused = pool_list.filled = pool_list.n = N;
    pool_list.kept = 0;
    for (int kind = 0; kind < SD_TASK_KINDS; kind++)
      sd_init(&pool_list.counts.submitted[kind], 0u), sd_init(&pool_list.counts.ended[kind], 0u);
    sd_init(&pool_list.counts.cancelled, 0u);
    pool.list = &pool_list, pool.stack = stack, pool.tasks = table;
  }
  void end(uint32_t index) {
    RL_ASSERT(!told[index] && (uint32_t)kept[index] == turns[index]);
    kept[index] = 9u;
    told[index] = 1;
    sd_task_end(&table[index]);
  }
  void work() {
    uint32_t index;
    if (!sd_list_pop(&list, ring, NULL, &index, 1, 4)) {
      sd_pause();
      return;
    }
    if (!sd_task_may_start(sd_task_start(&table[index]))) return;
    RL_ASSERT(!told[index] && (uint32_t)kept[index] == turns[index]);
    kept[index] = ++turns[index];
    if (turns[index] == TURNS) return end(index);
    const bool goes = index == 1 && turns[index] == 1;
    if (!rules::pause(&table[index], goes ? SD_TASK_AWAY : index ? SD_TASK_SUSPENDED : SD_TASK_WAITS))
      return end(index);
    if (goes) sd_store(&away, 1u, release, X);
    else sd_list_push(&list, ring, NULL, &index, 1);
  }
  void thread(unsigned index) {
    if (index == 0) {
      for (uint32_t i = 0; i < N; i++) {
        sd_task_fill(&table[i], 0);
        sd_list_push(&list, ring, NULL, &i, 1);
      }
      sd_store(&submitted, 1u, release, X);
      const uint32_t it = 1;
      uint32_t went = 0;
      while (!(went = sd_load(&away, acquire, X)) && !stopping) sd_pause();
      if (went && rl::rand(2)) {
        if (!rules::end_away(&pool, it)) return;
        RL_ASSERT(!told[it]);
        told[it] = 1;
      } else if (went && sd_task_come_back(&table[it])) {
        sd_list_push(&list, ring, NULL, &it, 1);
      }
    } else if (index < 3) {
      while (!stopping && told[0] + told[1] < N) work();
    } else {
      while (!sd_load(&submitted, acquire, X)) sd_pause();
      for (unsigned i = rl::rand(40); i; i--) sd_pause();
      stopping = true;
      const uint32_t used = sd_tasks_close(&pool);
      for (uint32_t i = 0; i < used; i++) {
        const uint32_t state = sd_task_stop(&table[i]);
        if (state != SD_TASK_FREE && state != SD_TASK_RUNS) end(i);
      }
    }
  }
  void after() {
    for (auto t : told) RL_ASSERT(t == 1);
  }
};
