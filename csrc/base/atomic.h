/* The only header through which the core accesses shared memory that more than one thread may write.
 *
 * Every operation names its order and, as its last argument, its label. docs/memory-order.md lists each label with its partner and with
 * what the pair guarantees; tests/unit/test_memory_order.py checks that code and list agree.
 *
 * The header builds three ways:
 *   - default: C11 atomics
 *   - SD_MODEL_RELACY: the Relacy model checker (C++), where orders can be weakened by label at run time
 *   - SD_MODEL_SCHEDULER: C11 under a seeded deterministic scheduler, which may switch threads at each operation. With SD_MODEL_RELACY:
 *     the whole engine under Relacy, with the scheduler's small sizes
 *
 * SD_PLAIN(T) marks a field that is not atomic. The protocol has to guarantee that one thread at a time uses it; the model checker and
 * ThreadSanitizer look for races on it. */
#pragma once

#include <stdint.h>

#if defined(SD_MODEL_RELACY)
#include "relacy_atomic.hpp"
#else

#include <stdatomic.h>

typedef _Atomic uint32_t sd_a32;
typedef _Atomic uint64_t sd_a64;
typedef _Atomic int64_t sd_ai64;
#define SD_PLAIN(T) T

#if defined(SD_MODEL_SCHEDULER)
void sd_schedule_point(const char *label);
/* The scheduler may switch before each operation, and after one that releases: otherwise it would never run another thread between a
 * release and the plain stores that follow it. */
#define SD_POINT(label) sd_schedule_point(#label);
#define SD_AFTER_relaxed(label)
#define SD_AFTER_acquire(label)
#define SD_AFTER_release(label) sd_schedule_point(#label);
#define SD_AFTER_acq_rel(label) sd_schedule_point(#label);
#define SD_STEP(operation, order, label) \
  __extension__({ \
    SD_POINT(label) \
    __auto_type sd_result = operation; \
    SD_AFTER_##order(label) sd_result; \
  })
#else
#define SD_STEP(operation, order, label) (operation)
#endif

#define sd_load(p, order, label) SD_STEP(atomic_load_explicit((p), memory_order_##order), order, label)
#if defined(SD_MODEL_SCHEDULER)
#define sd_store(p, v, order, label) ((void)sd_exchange((p), (v), order, label))
#else
#define sd_store(p, v, order, label) atomic_store_explicit((p), (v), memory_order_##order)
#endif
#define sd_exchange(p, v, order, label) SD_STEP(atomic_exchange_explicit((p), (v), memory_order_##order), order, label)
#define sd_fetch_add(p, v, order, label) \
  SD_STEP(atomic_fetch_add_explicit((p), (v), memory_order_##order), order, label)
#define sd_fetch_sub(p, v, order, label) \
  SD_STEP(atomic_fetch_sub_explicit((p), (v), memory_order_##order), order, label)
#define sd_fetch_or(p, v, order, label) SD_STEP(atomic_fetch_or_explicit((p), (v), memory_order_##order), order, label)
#define sd_fetch_and(p, v, order, label) \
  SD_STEP(atomic_fetch_and_explicit((p), (v), memory_order_##order), order, label)
/* The CAS is strong. When it fails it is relaxed, so the caller may compare the value that it leaves in *expected, but not follow it. */
#define sd_cas(p, expected, desired, order, label) \
  SD_STEP( \
      atomic_compare_exchange_strong_explicit((p), (expected), (desired), memory_order_##order, memory_order_relaxed), \
      order, label)
/* Orders the operations around it, plain ones too. On x86-64 an acquire or release fence is no instruction. */
#define sd_fence(order, label) atomic_thread_fence(memory_order_##order)
/* For memory that is not shared yet, so without order and label. */
#define sd_init(p, v) atomic_init((p), (v))

#endif /* SD_MODEL_RELACY */

/* One turn of a spin loop. */
#if defined(SD_MODEL_RELACY)
#define sd_pause() sd_model_pause()
#elif defined(SD_MODEL_SCHEDULER)
#define sd_pause() sd_schedule_point("pause")
#elif defined(__x86_64__)
#define sd_pause() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define sd_pause() __asm__ __volatile__("isb" ::: "memory")
#else
#error "strand builds on x86-64 and aarch64 only"
#endif

/* A spin lock, held for a few stores. L1 takes it, L2 tries to take it, L3 releases it. */
#if !defined(SD_MODEL_RELACY) && !defined(SD_MODEL_SCHEDULER)
#include <sched.h>
#define sd_yield() sched_yield()
#else
#define sd_yield() ((void)0)
#endif

static inline void sd_lock(sd_a32 *lock) {
  /* L1: acquire; pairs with L3 of the last holder: this thread sees all that was written under the lock. */
  while (sd_exchange(lock, 1u, acquire, L1)) {
    for (int turns = 0; sd_load(lock, relaxed, L4); turns++) {
      /* The holder may have lost its core while it held the lock: spinning would only keep the holder from running. */
      if (turns < 256) sd_pause();
      else sd_yield();
#if defined(SD_MODEL_SCHEDULER) || defined(SD_MODEL_RELACY)
      sd_pause();
#endif
    }
  }
}

static inline int sd_try_lock(sd_a32 *lock) {
  /* L4: a hint only. L2: acquire; pairs with L3, as L1. */
  return !sd_load(lock, relaxed, L4) && !sd_exchange(lock, 1u, acquire, L2);
}

static inline void sd_unlock(sd_a32 *lock) {
  /* L3: release; pairs with L1 and L2. */
  sd_store(lock, 0u, release, L3);
}

#define SD_ALIGNED(n) __attribute__((aligned(n)))
#define SD_NOINLINE __attribute__((noinline))
#define SD_INLINE static inline __attribute__((always_inline))
/* These ask the processor for a line to read, and for a line to write. They are written in assembly, because compilers do neither
 * reliably. A compiler takes a function that does nothing but __builtin_prefetch for one without effects, and removes calls to it.
 * Without -march it also turns a write prefetch into a read prefetch on x86-64; taking the line from its last writer then costs a second
 * trip. Every processor decodes these instructions; one that does not implement them does nothing. */
#if defined(__x86_64__)
#define sd_prefetch(p) __asm__ __volatile__("prefetcht0 %0" ::"m"(*(const char *)(p)))
#define sd_prefetch_write(p) __asm__ __volatile__("prefetchw %0" ::"m"(*(const char *)(p)))
#elif defined(__aarch64__)
#define sd_prefetch(p) __asm__ __volatile__("prfm pldl1keep, %0" ::"Q"(*(const char *)(p)))
#define sd_prefetch_write(p) __asm__ __volatile__("prfm pstl1keep, %0" ::"Q"(*(const char *)(p)))
#else
#define sd_prefetch(p) __builtin_prefetch(p)
#define sd_prefetch_write(p) __builtin_prefetch((p), 1)
#endif

/* cffi: begin */
#define SD_NONE UINT32_MAX
#define SD_LINE 64
/* cffi: end */
#define SD_LIKELY(x) __builtin_expect(!!(x), 1)
#define SD_UNLIKELY(x) __builtin_expect(!!(x), 0)
