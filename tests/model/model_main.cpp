/* PROGRAM [name] [--iterations N] [--first N] [--weaken LABEL[:half]] [--search random|bound|full] [--verbose]
 * Runs the programs of a file (or the one named) and prints a line for each. Exit 0: as expected (right ones pass, wrong
 * ones are caught); with --weaken: 0 when the weakening was caught, 4 when it was not, 5 when no program runs the label. */
#include "model.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <streambuf>

const char *sd_weaken = NULL;
unsigned sd_weakened = 0;
futex_waiters model_waiters;

void sd_futex_wait(sd_a32 *word, uint32_t seen) {
  rl::ctx().sched();
  if (word->debug_value() != seen) return;
  futex_waiters &w = model_waiters;
  w.thread[w.n] = rl::thread_index();
  w.word[w.n++] = word;
  rl::ctx().park_current_thread(false, false, false, $);
}

/* A time-out may come at any time. */
void sd_futex_wait_for(sd_a32 *word, uint32_t seen, uint64_t) {
  rl::ctx().sched();
  if (word->debug_value() != seen) return;
  futex_waiters &w = model_waiters;
  const unsigned me = rl::thread_index();
  w.thread[w.n] = me;
  w.word[w.n++] = word;
  if (rl::ctx().park_current_thread(true, false, false, $) != rl::unpark_reason_timeout) return;
  for (unsigned i = 0; i < w.n; i++) {
    if (w.thread[i] != me) continue;
    w.thread[i] = w.thread[--w.n];
    w.word[i] = w.word[w.n];
    break;
  }
}

void sd_futex_wake(sd_a32 *word, uint32_t n) {
  rl::ctx().sched();
  futex_waiters &w = model_waiters;
  for (; n && w.n; n--) {
    unsigned i = rl::rand(w.n), thread = w.thread[i];
    RL_ASSERT(w.word[i] == word);
    w.n--;
    w.thread[i] = w.thread[w.n];
    w.word[i] = w.word[w.n];
    rl::ctx().unpark_thread(thread, false, $);
  }
}

/* With --weaken, a program that has not run the label in a tenth of its iterations is not gone on with. */
enum { FIRST_PARTS = 10 };

/* Keeps the start of what Relacy says, without the allocator that Relacy puts in operator new's place. */
struct kept : std::streambuf {
  static char text[1 << 20];
  size_t n = 0;
  int overflow(int c) override {
    if (c != EOF && n < sizeof text - 1) text[n++] = (char)c;
    text[n] = 0;
    return c == EOF ? 0 : c;
  }
};
char kept::text[1 << 20];

int model_main(int argc, char **argv, const model_program *programs, unsigned n) {
  const char *only = NULL, *search = NULL;
  unsigned long long iterations = 20000, first = 1;
  bool verbose = false;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--iterations")) iterations = strtoull(argv[++i], NULL, 10);
    else if (!strcmp(argv[i], "--first")) first = strtoull(argv[++i], NULL, 10);
    else if (!strcmp(argv[i], "--weaken")) sd_weaken = argv[++i];
    else if (!strcmp(argv[i], "--search")) search = argv[++i];
    else if (!strcmp(argv[i], "--verbose")) verbose = true;
    else only = argv[i];
  }
  int bad = 0, caught = 0, ran = 0;
  for (unsigned i = 0; i < n; i++) {
    const model_program *m = &programs[i];
    bool wrong = strstr(m->options, "wrong") != NULL;
    if (only && strcmp(only, m->name)) continue;
    if (sd_weaken && wrong) continue;
    ran = 1;
    kept text;
    std::ostream quiet(&text);
    kept::text[0] = 0;
    rl::test_params p;
    p.iteration_count = first + iterations - 1;
    char from[32];
    snprintf(from, sizeof from, "%llu ", first);
    p.initial_state = from;
    p.execution_depth_limit = 20000;
    p.output_stream = verbose ? (std::ostream *)&std::cout : &quiet;
    p.progress_stream = &quiet;
    p.search_type = rl::random_scheduler_type;
    if (search && !strcmp(search, "full")) p.search_type = rl::fair_full_search_scheduler_type;
    if (search && !strcmp(search, "bound")) {
      p.search_type = rl::fair_context_bound_scheduler_type;
      p.context_bound = 2;
    }
    if (p.search_type != rl::random_scheduler_type) p.initial_state.clear();
    auto start = std::chrono::steady_clock::now();
    const unsigned before = sd_weakened;
    if (sd_weaken) p.iteration_count = first + iterations / FIRST_PARTS;
    rl::test_result_e result = m->run(p);
    if (sd_weaken && result == rl::test_result_success && sd_weakened != before) {
      p.iteration_count = first + iterations - 1;
      result = m->run(p);
    }
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    bool failed = result != rl::test_result_success;
    if (sd_weaken) {
      if (failed) {
        caught = 1;
        printf("caught      %-24s %-12s %s at iteration %llu, %.1f s\n", m->name, sd_weaken,
               rl::test_result_str(result), (unsigned long long)p.stop_iteration, seconds);
        break;
      }
      continue;
    }
    bool fine = failed == wrong;
    printf("%-11s %-24s %s, %llu iterations, %.1f s\n",
           !fine   ? "FAILED"
           : wrong ? "caught"
                   : "ok",
           m->name, rl::test_result_str(result), (unsigned long long)p.stop_iteration, seconds);
    fflush(stdout);
    if (!fine) {
      bad = 1;
      if (!wrong && !verbose)
        printf("%.200s  (the interleaving: %s %s --first %llu --iterations 1 --verbose)\n", kept::text, argv[0],
               m->name, (unsigned long long)p.stop_iteration);
    }
  }
  if (only && !ran) {
    fprintf(stderr, "no program %s\n", only);
    return 2;
  }
  if (sd_weaken) {
    if (caught) return 0;
    return sd_weakened ? 4 : 5;
  }
  return bad;
}
