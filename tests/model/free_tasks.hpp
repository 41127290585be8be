/* Free tasks: a guest submits, two threads change or cancel what waits, a worker runs it, and a stop ends what is left. The policy says what
 * cancelling is: a task keeps its place in a list and is told, or it leaves the list and is over (sd_task_give_up). */
#include "model.hpp"
#include "schedule/list.h"
#include "strand/task_pool.h"

enum { FREE_TASKS = 2 };

/* A list that a task leaves only by its turn. */
struct keeps_its_place {
  sd_list list;
  sd_a32 ring[4];
  void begin() {
    sd_init(&list.lock, 0u), sd_init(&list.head, 0u), sd_init(&list.tail, 0u);
    list.mask = 3;
    list.first = list.last = 0u;
    for (auto &place : ring) sd_init(&place, 0u);
  }
  void push(uint32_t index) { sd_list_push(&list, ring, NULL, &index, 1); }
  bool pop(uint32_t *index) { return sd_list_pop(&list, ring, NULL, index, 1, 4); }
  /* Nonzero: it was given up. *left: and is over, as it left the list. */
  int give_up(sd_task_pool *pool, SD_PLAIN(uint32_t) *, uint64_t its, uint32_t *) {
    return sd_task_cancel(&pool->tasks[(uint32_t)its - 1], its);
  }
};

/* A list that any of its tasks may leave. Their order is not what is looked at. */
struct leaves_its_list {
  sd_a32 lock, listed[FREE_TASKS];
  void begin() {
    sd_init(&lock, 0u);
    for (auto &one : listed) sd_init(&one, 0u);
  }
  void push(uint32_t index) {
    sd_lock(&lock);
    sd_store(&listed[index], 1u, relaxed, R1);
    sd_unlock(&lock);
  }
  bool leave(uint32_t index) {
    sd_lock(&lock);
    const uint32_t here = sd_load(&listed[index], relaxed, R1);
    sd_store(&listed[index], 0u, relaxed, R1);
    sd_unlock(&lock);
    return here;
  }
  bool pop(uint32_t *index) {
    for (*index = 0; *index < FREE_TASKS; ++*index)
      if (leave(*index)) return true;
    return false;
  }
  int give_up(sd_task_pool *pool, SD_PLAIN(uint32_t) * kept, uint64_t its, uint32_t *left) {
    const uint32_t index = (uint32_t)its - 1;
    sd_task *t = &pool->tasks[index];
    if (!sd_task_seize(t, its)) return 0;
    if (!leave(index)) {
      sd_task_let_go(t, SD_TASK_GIVEN_UP);
      return 1;
    }
    kept[index] = 0u; /* `over` of the policy */
    ++*left;
    sd_task_end(t);
    sd_guest_gives_up(pool, index, SD_FREE_TASKS);
    return 1;
  }
};

template <typename policy> struct free_tasks : rl::test_suite<free_tasks<policy>, 4> {
  enum { N = FREE_TASKS };
  sd_task_list pool_list;
  sd_task table[N];
  SD_PLAIN(uint32_t) stack[N];
  sd_task_pool pool;
  sd_task_cache cache;
  sd_task_counts worker;
  policy its_list;
  SD_PLAIN(uint32_t) level[N];  /* what a policy keeps of an entry */
  SD_PLAIN(uint32_t) effect[N]; /* what a task did */
  SD_PLAIN(uint32_t) note;      /* a canceller's, to the function that is told */
  /* the oracle: ordinary variables */
  uint64_t handle;
  uint32_t submitted, told, left, cancelled, told_cancelled;
  bool submits;

  static void begin_counts(sd_task_counts *c) {
    for (int kind = 0; kind < SD_TASK_KINDS; kind++) sd_init(&c->submitted[kind], 0u), sd_init(&c->ended[kind], 0u);
    sd_init(&c->cancelled, 0u);
  }
  void before() {
    sd_init(&pool_list.lock, 0u), sd_init(&pool_list.guests, 0u);
    pool_list.free = pool_list.unused = pool_list.closed = 0u;
    pool_list.kept = 0;
    pool_list.filled = pool_list.n = N;
    begin_counts(&pool_list.counts), begin_counts(&worker);
    pool.list = &pool_list, pool.stack = stack, pool.tasks = table;
    cache.count = 0u;
    for (auto &t : table) sd_init(&t.word, 0u);
    for (auto &e : effect) e = 0u;
    its_list.begin();
    note = 0u;
    handle = submitted = told = left = cancelled = told_cancelled = 0;
    submits = true;
  }

  void submit() {
    uint32_t index;
    if (sd_guest_takes(&pool, &index, 1, SD_FREE_TASKS, 0) != 1) return;
    table[index].call = 7u;
    level[index] = 1u;
    submitted++;
    handle = sd_task_handle(sd_task_fill(&table[index], 0), index);
    its_list.push(index);
    sd_guest_leaves(&pool);
  }
  void change(uint64_t its, uint32_t to) {
    sd_task *t = &table[(uint32_t)its - 1];
    if (!sd_task_seize(t, its)) return;
    level[(uint32_t)its - 1] = to;
    sd_task_let_go(t, SD_TASK_WAITS);
  }
  /* By whoever took a task, or stops it. */
  bool tell(uint32_t index) {
    const uint32_t state = sd_task_start(&table[index]);
    if (!sd_task_may_start(state)) return false;
    RL_ASSERT((uint64_t)table[index].call == 7u);
    if (state == SD_TASK_GIVEN_UP) {
      RL_ASSERT((uint32_t)note == 1u);
      told_cancelled++;
    }
    level[index] = 9u;
    effect[index] = 1u;
    told++;
    return true;
  }
  void work() {
    uint32_t index;
    if (!its_list.pop(&index)) {
      sd_pause();
      return;
    }
    if (!tell(index)) return;
    sd_task_end(&table[index]);
    sd_tasks_count_ended(&worker, SD_FREE_TASKS);
    cache.index[cache.count] = index;
    cache.count = cache.count + 1;
  }
  void stop() {
    const uint32_t used = sd_tasks_close(&pool);
    for (uint32_t i = 0; i < used; i++) {
      if (!tell(i)) continue;
      sd_task_end(&table[i]);
      sd_lock(&pool_list.lock);
      sd_tasks_count_ended(&pool_list.counts, SD_FREE_TASKS);
      sd_unlock(&pool_list.lock);
    }
  }
  bool over() {
    uint64_t ended = sd_load(&worker.ended[SD_FREE_TASKS], acquire, J5);
    ended += sd_load(&pool_list.counts.ended[SD_FREE_TASKS], acquire, J5);
    return sd_load(&pool_list.counts.submitted[SD_FREE_TASKS], relaxed, J4) == ended;
  }
  void thread(unsigned index) {
    if (index == 0) {
      submit();
      if (handle) change(handle, 2);
      /* So that it may get the entry that the first task had. */
      for (unsigned i = rl::rand(24); i; i--) sd_pause();
      submit();
      submits = false;
    } else if (index == 1) {
      while (!handle && submits) sd_pause();
      const uint64_t its = handle;
      if (!its) return;
      change(its, 3);
      note = 1u;
      cancelled += (uint32_t)its_list.give_up(&pool, level, its, &left);
    } else if (index == 2) {
      while (submits || told + left < submitted) work();
    } else {
      for (unsigned i = rl::rand(24); i; i--) sd_pause();
      stop();
      while (!over()) sd_pause();
      uint32_t effects = 0;
      for (auto &e : effect) effects += (uint32_t)e;
      RL_ASSERT(effects <= submitted);
    }
  }
  void after() { RL_ASSERT(told + left == submitted && told_cancelled + left == cancelled); }
};
