/* How tasks get onto a strand. */
#include "worker/task_queue.h"

#include "base/clock.h"
#include "sd_error.h"

int sd_task_enqueue(sd_dispatcher *d, uint32_t strand, uint64_t tag) {
  if (strand >= d->arena->n_strands) return SD_E_ARGUMENT;
  sd_strand *s = &d->strands[strand];
  uint32_t task = sd_task_new(&d->tasks), list = 0;
  sd_lock(&s->publish_lock);
  int revived = sd_task_revive(&d->tasks, s, tag), ready = 0;
  if (!revived && task) {
    sd_task_link(&d->tasks, s, task, tag);
    ready = sd_strand_add(s, 1);
    /* We hold the token, so `last` and `oldest` are ours to use. */
    if (ready) {
      list = s->last;
      s->oldest = sd_now();
    }
  }
  sd_unlock(&s->publish_lock);
  if (revived && task) sd_task_free(&d->tasks, task);
  if (!revived && !task) return SD_AGAIN;
  if (ready) {
    sd_make_ready(d, list, &strand, 1, SD_WAS_EMPTY, sd_now());
    sd_idle_wake_one(&d->arena->idle);
  }
  return SD_OK;
}

int sd_task_give_up(sd_dispatcher *d, uint32_t strand, uint64_t tag) {
  if (strand >= d->arena->n_strands) return SD_E_ARGUMENT;
  sd_strand *s = &d->strands[strand];
  sd_lock(&s->publish_lock);
  int done = sd_task_cancel(&d->tasks, s, tag);
  sd_unlock(&s->publish_lock);
  return done ? SD_OK : SD_AGAIN;
}
