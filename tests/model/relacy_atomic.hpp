/* The third build of csrc/base/atomic.h: its operations are Relacy's, so that the checker sees the real headers.
 *
 * An operation whose label is named by sd_weaken runs relaxed. "P2" weakens both halves of a read-modify-write, "P2:acquire"
 * takes away its acquire half only, "P2:release" its release half only.
 */
#pragma once

#include <relacy/relacy.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

/* Relacy replaces these words; nothing here allocates. */
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef new
#undef delete
#undef assert

#if defined(SD_MODEL_SCHEDULER)
/* The whole engine (engine.hpp): its memory is new, and so zero. */
template <typename T> struct sd_zeroed : rl::atomic<T> {
  sd_zeroed() : rl::atomic<T>(T(0)) {}
};
typedef sd_zeroed<uint32_t> sd_a32;
typedef sd_zeroed<uint64_t> sd_a64;
typedef sd_zeroed<int64_t> sd_ai64;
#else
typedef rl::atomic<uint32_t> sd_a32;
typedef rl::atomic<uint64_t> sd_a64;
typedef rl::atomic<int64_t> sd_ai64;
#endif

/* A plain variable to the protocol; to the checker, one whose unordered use is a race. */
template <typename T> class sd_var {
public:
#if defined(SD_MODEL_SCHEDULER)
  sd_var() { var_($).store(T()); }
#else
  sd_var() {}
#endif
  sd_var &operator=(const T &value) {
    var_($).store(value);
    return *this;
  }
  sd_var &operator=(const sd_var &other) { return *this = (T)other; }
  operator T() const { return var_($).load(); }

private:
  sd_var(const sd_var &);
  rl::var<T> var_;
};
#define SD_PLAIN(T) sd_var<T>

extern const char *sd_weaken;
extern unsigned sd_weakened; /* operations that ran weakened: a label that no program reaches proves nothing */

static inline rl::memory_order sd_model_order(rl::memory_order order, const char *label) {
  if (!sd_weaken) return order;
  size_t n = strlen(label);
  if (strncmp(sd_weaken, label, n)) return order;
  if (!sd_weaken[n]) {
    sd_weakened++;
    return rl::mo_relaxed;
  }
  if (sd_weaken[n] != ':') return order;
  const char *half = sd_weaken + n + 1;
  sd_weakened++;
  if (order == rl::mo_acq_rel) return strcmp(half, "acquire") ? rl::mo_acquire : rl::mo_release;
  return rl::mo_relaxed;
}

#define SD_MODEL_ORDER(order, label) sd_model_order(rl::mo_##order, #label)
#define sd_fence(order, label) \
  do { \
    if (SD_MODEL_ORDER(order, label) != rl::mo_relaxed) rl::atomic_thread_fence(rl::mo_##order, $); \
  } while (0)
#define sd_load(p, order, label) ((p)->load(SD_MODEL_ORDER(order, label), $))
#define sd_store(p, v, order, label) ((p)->store((v), SD_MODEL_ORDER(order, label), $))
#define sd_exchange(p, v, order, label) ((p)->exchange((v), SD_MODEL_ORDER(order, label), $))
#define sd_fetch_add(p, v, order, label) ((p)->fetch_add((v), SD_MODEL_ORDER(order, label), $))
#define sd_fetch_sub(p, v, order, label) ((p)->fetch_sub((v), SD_MODEL_ORDER(order, label), $))
#define sd_fetch_or(p, v, order, label) ((p)->fetch_or((v), SD_MODEL_ORDER(order, label), $))
#define sd_fetch_and(p, v, order, label) ((p)->fetch_and((v), SD_MODEL_ORDER(order, label), $))
#define sd_cas(p, expected, desired, order, label) \
  ((p)->compare_exchange_strong(*(expected), (desired), SD_MODEL_ORDER(order, label), $, rl::mo_relaxed, $))
#define sd_init(p, v) ((p)->store((v), rl::mo_relaxed, $))

static inline void sd_model_pause() { rl::yield(1, $); }

/* How many segments a model's pool has; an index beyond them is a broken protocol, not a crash of the checker. */
enum { SD_MODEL_SEGMENTS = 16 };
static inline uint32_t sd_model_index(uint32_t index) {
  RL_ASSERT(index < SD_MODEL_SEGMENTS);
  return index < SD_MODEL_SEGMENTS ? index : 0;
}
