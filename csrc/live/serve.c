/* Decides when each message is due, and in which packet it goes. */
#define _GNU_SOURCE
#include "live/serve.h"

#include "base/clock.h"
#include "codec/itch/itch.h"
#include "live/serve_lines.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

enum { TIME_AT = 5, MESSAGE_MIN = 11 };

sd_serve *sd_serve_new(const sd_serve_options *options) {
  sd_serve *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->options = *options;
  s->packets = calloc(SERVE_BATCH, sizeof *s->packets);
  s->history = malloc(options->history_bytes);
  s->history_at = malloc(options->history_messages * sizeof *s->history_at);
  int complete = s->packets && s->history && s->history_at;
  for (int i = 0; i < SD_SERVE_LINES; i++) {
    serve_track *t = &s->track[i];
    sd_prng_seed(&t->prng, options->seed, (uint64_t)i);
    t->to = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = options->line[i].port, .sin_addr.s_addr = options->line[i].address};
    t->late = calloc(SD_SERVE_LATE, sizeof *t->late);
    complete = complete && t->late;
  }
  if (!complete) {
    sd_serve_free(s);
    return NULL;
  }
  return s;
}

void sd_serve_free(sd_serve *s) {
  if (!s) return;
  for (int i = 0; i < SD_SERVE_LINES; i++) {
    sd_ranges_free(&s->track[i].lost);
    free(s->track[i].late);
  }
  free(s->packets);
  free(s->history);
  free(s->history_at);
  free(s);
}

const sd_range *sd_serve_lost(const sd_serve *s, int line, uint64_t *count) {
  *count = s->track[line].lost.count;
  return s->track[line].lost.at;
}

const sd_serve_counts *sd_serve_look(const sd_serve *s) {
  sd_serve *mine = (sd_serve *)s;
  for (int i = 0; i < SD_SERVE_LINES; i++) {
    mine->counts.line[i].lost_ranges = s->track[i].lost.count + s->track[i].lost.unlisted;
    mine->counts.line[i].lost_messages = s->track[i].lost.messages;
    mine->counts.line[i].lost_unlisted = s->track[i].lost.unlisted;
  }
  return &s->counts;
}

/* ns after the start. */
static uint64_t due_after(sd_serve *s, const uint8_t *message) {
  const sd_serve_options *o = &s->options;
  if (o->rate > 0) return (uint64_t)((double)s->counts.messages * 1e9 / o->rate);
  if (o->speed <= 0) return 0;
  uint64_t time = sd_be64(message + TIME_AT - 2) & UINT64_C(0xFFFFFFFFFFFF);
  if (s->counts.messages == 0) s->first_time_ns = time;
  return time > s->first_time_ns ? (uint64_t)((double)(time - s->first_time_ns) / o->speed) : 0;
}

static serve_packet *open_packet(sd_serve *s, uint64_t bytes) {
  serve_packet *p = s->packet_count ? &s->packets[s->packet_count - 1] : NULL;
  if (p && p->len + bytes <= s->options.packet_bytes) return p;
  if (s->packet_count == SERVE_BATCH) return NULL;
  p = &s->packets[s->packet_count++];
  p->sequence = s->counts.messages + 1;
  p->count = 0;
  p->len = SD_MOLD_HEADER;
  return p;
}

/* The length of the message that begins at frame + 2; 0: it is not a message. Some files leave every length 0. */
static uint32_t message_length(const uint8_t *frame) {
  uint32_t prefix = sd_be16(frame);
  uint32_t known = sd_itch_length(frame[2]);
  if (prefix > SD_ITCH_MAX_MESSAGE || (known && prefix && prefix != known)) return 0;
  if (known) return known;
  return prefix >= MESSAGE_MIN ? prefix : 0;
}

/* Puts frames that are due now into packets, up to a batch. SD_OK; SD_E_FORMAT before something that is not a frame. */
static int pack(sd_serve *s, const uint8_t *frames, uint64_t len, uint64_t now_ns, uint64_t *used, uint64_t *next_due) {
  *used = 0;
  *next_due = UINT64_MAX;
  while (len - *used >= 3) {
    const uint8_t *frame = frames + *used;
    uint32_t length = message_length(frame);
    if (length == 0) {
      s->counts.fault_offset = s->counts.bytes;
      return SD_E_FORMAT;
    }
    if (len - *used < 2 + length) break;
    uint64_t due = s->start_ns + due_after(s, frame + 2);
    /* Due together: within the same stretch of gather_ns. */
    uint64_t gather = s->options.gather_ns;
    if (gather && due > s->start_ns) due = s->start_ns + (due - s->start_ns + gather - 1) / gather * gather;
    if (due > now_ns) {
      *next_due = due;
      break;
    }
    serve_packet *p = open_packet(s, 2 + length);
    if (!p) {
      *next_due = now_ns;
      break;
    }
    if (s->options.rate > 0 || s->options.speed > 0)
      if (now_ns - due > s->counts.late_ns) s->counts.late_ns = now_ns - due;
    uint8_t *to = p->bytes + p->len;
    to[0] = (uint8_t)(length >> 8);
    to[1] = (uint8_t)length;
    memcpy(to + 2, frame + 2, length);
    p->len += 2 + length;
    p->count++;
    s->counts.messages++;
    if (s->options.request_fd >= 0) sd_serve_remember(s, to, 2 + length, s->counts.messages);
    *used += 2 + length;
    s->counts.bytes += 2 + length;
  }
  for (uint32_t i = 0; i < s->packet_count; i++)
    sd_mold_write_header(s->packets[i].bytes, s->options.session, s->packets[i].sequence, s->packets[i].count);
  s->counts.packets += s->packet_count;
  return SD_OK;
}

static int wait_until(sd_serve *s, uint64_t now_ns, uint64_t until_ns) {
  struct pollfd fd = {.fd = s->options.request_fd, .events = POLLIN};
  uint64_t wait = until_ns > now_ns ? until_ns - now_ns : 0;
  struct timespec t = {(time_t)(wait / 1000000000u), (long)(wait % 1000000000u)};
  if (ppoll(&fd, 1, &t, NULL) < 0 && errno != EINTR) return -1000 - errno;
  return SD_OK;
}

static int keep_alive(sd_serve *s, uint64_t now_ns) {
  if (now_ns - s->last_sent_ns < s->options.heartbeat_ns) return SD_OK;
  s->last_sent_ns = now_ns;
  s->counts.heartbeats++;
  return sd_serve_control(s, SD_MOLD_HEARTBEAT);
}

static uint64_t earlier(uint64_t a, uint64_t b) { return a < b ? a : b; }

int sd_serve_send(sd_serve *s, const uint8_t *frames, uint64_t len, uint64_t limit_ns, uint64_t *consumed) {
  uint64_t now_ns = sd_monotonic_ns();
  uint64_t until_ns = now_ns + limit_ns;
  *consumed = 0;
  if (s->start_ns == 0) s->start_ns = s->last_sent_ns = now_ns;
  for (;;) {
    uint64_t used;
    uint64_t due;
    int format = pack(s, frames + *consumed, len - *consumed, now_ns, &used, &due);
    *consumed += used;
    if (s->packet_count > 0) s->last_sent_ns = now_ns;
    int code = sd_serve_flush(s);
    if (code == SD_OK) code = sd_serve_answer(s, now_ns);
    if (code == SD_OK) code = keep_alive(s, now_ns);
    if (code != SD_OK) return code;
    if (format != SD_OK) return format;
    if (due == UINT64_MAX) return SD_OK;
    now_ns = sd_monotonic_ns();
    if (now_ns >= until_ns) return SD_AGAIN;
    if (due > now_ns) {
      /* A packet that is kept back must not wait for a next packet that comes much later. */
      if (due - now_ns >= s->options.heartbeat_ns) code = sd_serve_flush_late(s);
      if (code == SD_OK)
        code = wait_until(s, now_ns, earlier(due, earlier(until_ns, s->last_sent_ns + s->options.heartbeat_ns)));
      if (code != SD_OK) return code;
      now_ns = sd_monotonic_ns();
    }
  }
}

int sd_serve_end(sd_serve *s) {
  int code = sd_serve_flush_late(s);
  return code != SD_OK ? code : sd_serve_control(s, SD_MOLD_END);
}

int sd_serve_idle(sd_serve *s, uint64_t for_ns) {
  uint64_t now_ns = sd_monotonic_ns();
  uint64_t until_ns = now_ns + for_ns;
  for (;;) {
    int code = sd_serve_answer(s, now_ns);
    if (code != SD_OK || now_ns >= until_ns) return code;
    code = wait_until(s, now_ns, until_ns);
    if (code != SD_OK) return code;
    now_ns = sd_monotonic_ns();
  }
}
