/* The two lines: which packets are lost, kept back and sent twice, and how packets reach the kernel. And the answers. */
#define _GNU_SOURCE
#include "live/serve_lines.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

enum { CALL_MAX = 4 * SERVE_BATCH + SD_SERVE_LATE, ANSWERS_A_CALL = 64 };

typedef struct outbox {
  struct mmsghdr headers[CALL_MAX];
  struct iovec parts[CALL_MAX];
  const serve_packet *packets[CALL_MAX];
  uint32_t count;
} outbox;

static int chance(serve_track *t, double probability) {
  return (double)(sd_prng_next(&t->prng) >> 11) * 0x1p-53 < probability;
}

static void post(outbox *box, serve_track *t, const serve_packet *packet) {
  uint32_t i = box->count++;
  box->packets[i] = packet;
  box->parts[i] = (struct iovec){(void *)packet->bytes, packet->len};
  box->headers[i].msg_hdr =
      (struct msghdr){.msg_name = &t->to, .msg_namelen = sizeof t->to, .msg_iov = &box->parts[i], .msg_iovlen = 1};
}

/* Waits for a full queue, a millisecond at a time. A socket that takes nothing at all is an error. */
static int send_all(sd_serve *s, int line, outbox *box) {
  sd_serve_line *counts = &s->counts.line[line];
  uint32_t sent = 0;
  while (sent < box->count) {
    int n = sendmmsg(s->options.line[line].fd, box->headers + sent, box->count - sent, 0);
    if (n > 0) {
      sent += (uint32_t)n;
      counts->packets += (uint64_t)n;
    } else if (errno == ENOBUFS || errno == EAGAIN) {
      poll(NULL, 0, 1);
    } else if (errno != EINTR) {
      return -1000 - errno;
    }
  }
  box->count = 0;
  return SD_OK;
}

static void keep_back(sd_serve *s, serve_track *t, const serve_packet *packet) {
  serve_late *late = &t->late[t->late_count++];
  late->due = t->passed + 1 + sd_scale32((uint32_t)(sd_prng_next(&t->prng) >> 32), s->options.reorder_depth);
  late->packet.sequence = packet->sequence;
  late->packet.count = packet->count;
  late->packet.len = packet->len;
  memcpy(late->packet.bytes, packet->bytes, packet->len);
}

/* Adds the packets that were kept back long enough. They may not move until the call to the kernel is made. */
static int release_due(sd_serve *s, int line, outbox *box, int all) {
  serve_track *t = &s->track[line];
  uint32_t kept = 0;
  int any = 0;
  for (uint32_t i = 0; i < t->late_count; i++) any |= all || t->late[i].due <= t->passed;
  if (!any) return SD_OK;
  for (uint32_t i = 0; i < t->late_count; i++)
    if (all || t->late[i].due <= t->passed) post(box, t, &t->late[i].packet);
  int code = send_all(s, line, box);
  for (uint32_t i = 0; i < t->late_count; i++) {
    if (all || t->late[i].due <= t->passed) continue;
    if (kept != i) t->late[kept] = t->late[i];
    kept++;
  }
  t->late_count = kept;
  return code;
}

static int pass(sd_serve *s, int line, const serve_packet *packet, outbox *box) {
  const sd_serve_line_options *o = &s->options.line[line];
  serve_track *t = &s->track[line];
  sd_serve_line *counts = &s->counts.line[line];
  t->passed++;
  if (chance(t, o->loss)) {
    counts->lost_packets++;
    sd_ranges_add(&t->lost, packet->sequence, packet->sequence + packet->count);
  } else if (t->late_count < SD_SERVE_LATE && chance(t, o->reorder)) {
    counts->reordered_packets++;
    keep_back(s, t, packet);
  } else {
    post(box, t, packet);
    if (chance(t, o->duplicate)) {
      counts->duplicated_packets++;
      if (t->late_count < SD_SERVE_LATE) keep_back(s, t, packet);
      else post(box, t, packet);
    }
  }
  return release_due(s, line, box, 0);
}

int sd_serve_flush(sd_serve *s) {
  outbox box;
  box.count = 0;
  for (int line = 0; line < SD_SERVE_LINES; line++) {
    if (s->options.line[line].fd < 0) continue;
    for (uint32_t i = 0; i < s->packet_count; i++) {
      int code = pass(s, line, &s->packets[i], &box);
      if (code != SD_OK) return code;
    }
    int code = send_all(s, line, &box);
    if (code != SD_OK) return code;
  }
  s->packet_count = 0;
  return SD_OK;
}

int sd_serve_flush_late(sd_serve *s) {
  outbox box;
  box.count = 0;
  for (int line = 0; line < SD_SERVE_LINES; line++) {
    int code = s->options.line[line].fd < 0 ? SD_OK : release_due(s, line, &box, 1);
    if (code != SD_OK) return code;
  }
  return SD_OK;
}

/* Sends a heartbeat, or the session's end, on every line. */
int sd_serve_control(sd_serve *s, uint32_t count) {
  uint8_t packet[SD_MOLD_HEADER];
  sd_mold_write_header(packet, s->options.session, s->counts.messages + 1, count);
  for (int line = 0; line < SD_SERVE_LINES; line++) {
    if (s->options.line[line].fd < 0) continue;
    if (sendto(s->options.line[line].fd, packet, sizeof packet, 0, (struct sockaddr *)&s->track[line].to,
               sizeof s->track[line].to) < 0 &&
        errno != ENOBUFS && errno != EAGAIN && errno != EINTR)
      return -1000 - errno;
  }
  return SD_OK;
}

/* ---- retransmission */

void sd_serve_remember(sd_serve *s, const uint8_t *frame, uint64_t len, uint64_t sequence) {
  uint64_t size = s->options.history_bytes;
  uint64_t at = s->history_head % size;
  uint64_t first = len < size - at ? len : size - at;
  s->history_at[sequence % s->options.history_messages] = s->history_head;
  memcpy(s->history + at, frame, first);
  memcpy(s->history, frame + first, len - first);
  s->history_head += len;
}

static uint8_t history_byte(const sd_serve *s, uint64_t at) { return s->history[at % s->options.history_bytes]; }

static int remembered(const sd_serve *s, uint64_t sequence) {
  uint64_t newest = s->counts.messages;
  if (sequence == 0 || sequence > newest || newest - sequence >= s->options.history_messages) return 0;
  return s->history_head - s->history_at[sequence % s->options.history_messages] <= s->options.history_bytes;
}

/* Writes as much of what is wanted as fits into one packet; the receiver asks again for the rest. Returns its length; 0: nothing. */
static uint32_t compose_answer(sd_serve *s, const uint8_t *request, uint8_t *packet) {
  uint64_t sequence = sd_be64(request + SD_MOLD_SESSION);
  uint32_t wanted = sd_be16(request + 18);
  uint32_t len = SD_MOLD_HEADER;
  uint32_t count = 0;
  if (memcmp(request, s->options.session, SD_MOLD_SESSION) != 0 || wanted == SD_MOLD_END) return 0;
  while (count < wanted && remembered(s, sequence + count)) {
    uint64_t at = s->history_at[(sequence + count) % s->options.history_messages];
    uint32_t bytes = 2 + ((uint32_t)history_byte(s, at) << 8 | history_byte(s, at + 1));
    if (len + bytes > s->options.packet_bytes) break;
    for (uint32_t i = 0; i < bytes; i++) packet[len + i] = history_byte(s, at + i);
    len += bytes;
    count++;
  }
  if (count == 0) return 0;
  sd_mold_write_header(packet, s->options.session, sequence, count);
  s->counts.answered_messages += count;
  return len;
}

int sd_serve_answer(sd_serve *s, uint64_t now_ns) {
  if (s->options.request_fd < 0) return SD_OK;
  for (int i = 0; i < ANSWERS_A_CALL; i++) {
    uint8_t request[SD_MOLD_HEADER + 1];
    uint8_t packet[SD_MOLD_PACKET];
    struct sockaddr_in from;
    socklen_t from_len = sizeof from;
    ssize_t got =
        recvfrom(s->options.request_fd, request, sizeof request, MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);
    if (got < 0) return errno == EAGAIN || errno == EINTR || errno == ECONNREFUSED ? SD_OK : -1000 - errno;
    s->counts.requests++;
    if (now_ns - s->answers_since_ns >= UINT64_C(1000000000)) {
      s->answers_since_ns = now_ns;
      s->answers = 0;
    }
    if ((double)s->answers >= s->options.request_rate) {
      s->counts.request_overrate++;
      continue;
    }
    uint32_t len = got == SD_MOLD_HEADER ? compose_answer(s, request, packet) : 0;
    if (len == 0) {
      s->counts.unanswerable++;
      continue;
    }
    s->answers++;
    if (sendto(s->options.request_fd, packet, len, MSG_DONTWAIT, (struct sockaddr *)&from, from_len) == (ssize_t)len)
      s->counts.answered++;
  }
  return SD_OK;
}
