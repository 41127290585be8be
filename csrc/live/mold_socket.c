#define _GNU_SOURCE
#include "live/mold_socket.h"

#include "base/clock.h"
#include "live/mold_deliver.h"
#include "live/mold_look.h"
#include "live/mold_take.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 32, CONTROL_BYTES = 128, HOLES = 16, REQUEST_MAX = 0xFFFE, RECEIVE_MIN = 1 << 16 };

struct mold_sockets {
  struct mmsghdr headers[BATCH];
  struct iovec parts[BATCH];
  uint64_t control[BATCH][CONTROL_BYTES / 8];
  uint8_t bytes[BATCH][SD_MOLD_PACKET + 1]; /* one byte more than is taken, so that a longer packet is noticed */
  struct sockaddr_in server;
  int has_server;
  int wake_fd;
  int woken;
  uint64_t next_request_ns;
  uint64_t ended_ns;
};

static uint64_t realtime_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

sd_mold *sd_mold_new(const sd_mold_options *options) {
  struct mold_sockets *s = calloc(1, sizeof *s);
  sd_mold *m = s ? sd_mold_make(options) : NULL;
  const int wake_fd = m ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
  if (wake_fd < 0) {
    if (m) sd_mold_unmake(m);
    free(s);
    return NULL;
  }
  s->wake_fd = wake_fd;
  m->sockets = s;
  return m;
}

void sd_mold_free(sd_mold *m) {
  if (!m) return;
  close(m->sockets->wake_fd);
  free(m->sockets);
  sd_mold_unmake(m);
}

int sd_mold_attach(sd_mold *m, int line, int fd, uint32_t receive_bytes) {
  int on = 1;
  int wanted = receive_bytes > INT32_MAX ? INT32_MAX : (int)receive_bytes;
  int got = 0;
  socklen_t got_len = sizeof got;
  if (line < 0 || line >= SD_MOLD_LINES) return -EINVAL;
  /* This goes above the system's bound if that is allowed, otherwise up to it. */
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &wanted, sizeof wanted) != 0 &&
      setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted) != 0)
    return -errno;
  if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) != 0) return -errno;
  if (setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof on) != 0) return -errno;
  if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &got, &got_len) != 0) return -errno;
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) return -errno;
  m->track[line].fd = fd;
  m->counts.line[line].receive_bytes = (uint64_t)got;
  return SD_OK;
}

void sd_mold_rerequest(sd_mold *m, uint32_t address, uint16_t port) {
  struct mold_sockets *s = m->sockets;
  s->server = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = address};
  s->has_server = 1;
}

void sd_mold_wake(sd_mold *m) {
  uint64_t one = 1;
  ssize_t written = write(m->sockets->wake_fd, &one, sizeof one);
  (void)written; /* it fails only if the counter is full, and then a wake-up is already under way */
}

/* The time of receipt, and the kernel's count of packets that it had to drop. */
static uint64_t read_control(struct msghdr *header, mold_track *track, sd_mold_line *line, uint64_t fallback_ns) {
  uint64_t ts_recv = fallback_ns;
  for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
    if (c->cmsg_level != SOL_SOCKET) continue;
    if (c->cmsg_type == SCM_TIMESTAMPNS) {
      struct timespec t;
      memcpy(&t, CMSG_DATA(c), sizeof t);
      ts_recv = (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
    } else if (c->cmsg_type == SO_RXQ_OVFL) {
      uint32_t drops;
      memcpy(&drops, CMSG_DATA(c), sizeof drops);
      line->kernel_drops += drops - track->drops_seen;
      track->drops_seen = drops;
    }
  }
  return ts_recv;
}

/* Asks for a hole. 0: the request could not be sent; it is sent again when the next one is due. */
static int ask(sd_mold *m, sd_range hole) {
  const struct mold_sockets *s = m->sockets;
  uint8_t packet[SD_MOLD_HEADER];
  uint64_t wanted = hole.to - hole.from;
  if (wanted > REQUEST_MAX) wanted = REQUEST_MAX;
  sd_mold_write_header(packet, m->counts.session, hole.from, (uint32_t)wanted);
  if (sendto(m->track[SD_MOLD_REPLIES].fd, packet, sizeof packet, MSG_DONTWAIT, (const struct sockaddr *)&s->server,
             sizeof s->server) != sizeof packet)
    return 0;
  m->counts.requests++;
  m->counts.requested_messages += wanted;
  return 1;
}

/* An answer is at most one packet. Asks at once for what is still missing right behind it, one request per answer. */
static void ask_on(sd_mold *m, const uint8_t *answer, uint64_t len) {
  sd_mold_header h;
  if (!m->sockets->has_server || !m->counts.started || !sd_mold_parse(answer, len, &h) || h.count == 0) return;
  if (memcmp(h.session, m->counts.session, SD_MOLD_SESSION) != 0) return;
  sd_range hole = sd_mold_hole_at(m, h.sequence + h.count);
  if (hole.from < hole.to) ask(m, hole);
}

/* Receives up to a batch of packets of one line. Returns how many, or a negative errno. */
static int receive(sd_mold *m, int line) {
  struct mold_sockets *s = m->sockets;
  mold_track *track = &m->track[line];
  for (int i = 0; i < BATCH; i++) {
    s->parts[i] = (struct iovec){s->bytes[i], sizeof s->bytes[i]};
    s->headers[i].msg_hdr = (struct msghdr){
        .msg_iov = &s->parts[i], .msg_iovlen = 1, .msg_control = s->control[i], .msg_controllen = CONTROL_BYTES};
  }
  int got = recvmmsg(track->fd, s->headers, BATCH, MSG_DONTWAIT, NULL);
  if (got < 0) {
    /* ECONNREFUSED: the re-request server does not run (yet). Its requests are counted, and the gap times out. */
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNREFUSED) return 0;
    return -errno;
  }
  uint64_t now_ns = sd_monotonic_ns();
  m->realtime_ns = realtime_ns();
  for (int i = 0; i < got; i++) {
    uint64_t ts_recv = read_control(&s->headers[i].msg_hdr, track, &m->counts.line[line], m->realtime_ns);
    sd_mold_take(m, line, s->bytes[i], s->headers[i].msg_len, ts_recv, now_ns);
    if (line == SD_MOLD_REPLIES) ask_on(m, s->bytes[i], s->headers[i].msg_len);
  }
  return got;
}

static void request(sd_mold *m, uint64_t now_ns) {
  struct mold_sockets *s = m->sockets;
  sd_range holes[HOLES];
  if (!s->has_server || now_ns < s->next_request_ns) return;
  uint64_t count = sd_mold_holes(m, now_ns, holes, HOLES);
  s->next_request_ns = now_ns + m->options.request_after_ns;
  for (uint64_t i = 0; i < count && ask(m, holes[i]); i++) {
  }
}

/* Whether nothing more is wanted: the lines too have reached the session's end, or have been waited for long enough. */
static int lines_ended(sd_mold *m, uint64_t now_ns) {
  struct mold_sockets *s = m->sockets;
  if (!m->counts.ended) {
    s->ended_ns = 0;
    return 0;
  }
  if (s->ended_ns == 0) s->ended_ns = now_ns;
  if (m->end_sequence == UINT64_MAX || now_ns - s->ended_ns >= m->options.gap_timeout_ns) return 1;
  for (int i = 0; i < SD_MOLD_REPLIES; i++)
    if (m->track[i].fd >= 0 && !m->track[i].heard_end) return 0;
  return 1;
}

static int wait_for_more(sd_mold *m, uint64_t now_ns, uint64_t until_ns) {
  struct mold_sockets *s = m->sockets;
  struct pollfd fds[SD_MOLD_LINES + 1] = {{.fd = s->wake_fd, .events = POLLIN}};
  for (int i = 0; i < SD_MOLD_LINES; i++) fds[i + 1] = (struct pollfd){.fd = m->track[i].fd, .events = POLLIN};
  uint64_t deadline = sd_mold_deadline(m);
  if (deadline < until_ns) until_ns = deadline;
  if (deadline != UINT64_MAX && s->has_server && s->next_request_ns < until_ns) until_ns = s->next_request_ns;
  uint64_t wait = until_ns > now_ns ? until_ns - now_ns : 0;
  struct timespec t = {(time_t)(wait / 1000000000u), (long)(wait % 1000000000u)};
  if (ppoll(fds, SD_MOLD_LINES + 1, &t, NULL) < 0 && errno != EINTR) return -errno;
  uint64_t wakes;
  if ((fds[0].revents & POLLIN) && read(s->wake_fd, &wakes, sizeof wakes) > 0) s->woken = 1;
  return SD_OK;
}

int sd_mold_poll(sd_mold *m, uint8_t *out, uint64_t out_bytes, sd_mold_run *runs, uint64_t run_capacity,
                 uint64_t timeout_ns) {
  struct mold_sockets *s = m->sockets;
  uint64_t now_ns = sd_monotonic_ns();
  uint64_t until_ns = now_ns + timeout_ns;
  sd_mold_output(m, out, out_bytes, runs, run_capacity, realtime_ns());
  s->woken = 0;
  for (;;) {
    int got = 0;
    for (int line = 0; line < SD_MOLD_LINES && sd_mold_has_space(m); line++) {
      if (m->track[line].fd < 0) continue;
      int code = receive(m, line);
      if (code < 0) return code;
      got += code;
    }
    now_ns = sd_monotonic_ns();
    sd_mold_tick(m, now_ns);
    if (lines_ended(m, now_ns) || m->counts.session_changed || s->woken || !sd_mold_has_space(m)) return SD_OK;
    request(m, now_ns);
    /* Packets that bring nothing new, however many, must not keep the caller. */
    if (now_ns >= until_ns) return SD_OK;
    if (got > 0) continue;
    if (m->out_used > 0) return SD_OK;
    uint64_t wake_ns = m->counts.ended ? s->ended_ns + m->options.gap_timeout_ns : until_ns;
    int code = wait_for_more(m, now_ns, wake_ns < until_ns ? wake_ns : until_ns);
    if (code != SD_OK) return code;
  }
}
