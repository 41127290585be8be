/* The engine, for benchmarks of it. The laboratory is a module of its own, and is not linked with the core: it gets the addresses of the
 * core's functions. */
#pragma once

/* cffi: begin */
struct sd_dispatcher;

/* Each member is the address of the function of its name, behind sd_. */
typedef struct sd_bench_engine {
  void *space_create, *space_destroy, *dispatcher_create, *dispatcher_destroy, *dispatcher_route, *dispatcher_handlers,
      *dispatcher_stop, *publisher_enter, *publish, *publish_more, *py_worker_next, *participant_counters;
} sd_bench_engine;
/* cffi: end */

#define SD_OF_ENGINE(engine, name) ((__typeof__(sd_##name) *)(engine)->name)
