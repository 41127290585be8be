/* The life of a thread of Python. */
#include "worker/thread.h"

void sd_thread_live(int (*step)(void *), void *thread) {
  while (!step(thread)) {
  }
}
