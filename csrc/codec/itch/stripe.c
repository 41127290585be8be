#include "codec/itch/stripe.h"

#include "codec/blocks.h"
#include "codec/itch/itch.h"
#include "codec/itch/layout.h"
#include "codec/itch/rare.h"
#include "codec/itch/sync.h"

_Static_assert((int)SD_ITCH_MAX_FRAME <= (int)SD_ITCH_STRIPE_HEADROOM, "what is left over is less than a frame");

/* Whether the stripe has unsound frames, or frames that change more than it passes on. */
static int is_odd(const sd_itch *own) {
  uint64_t skipped = own->lost;
  for (int fault = 0; fault < SD_ITCH_FAULTS; fault++) skipped |= own->skips[fault];
  if (own->market_events > SD_ITCH_STRIPE_EVENTS) return 1;
  for (uint32_t i = 0; i < own->market_events; i++)
    if (own->market[i][0] == 'S' && own->market[i][11] == 'O')
      return 1; /* a new day, for which a stripe has no names */
  return (skipped | own->counts['R']) != 0;
}

/* Decodes p[0 .. left) and moves on. Nonzero: the stripe may not be used. */
static int take_some(sd_itch *own, const sd_itch_stripe *stripe, const uint8_t **p, uint64_t *left) {
  const sd_decoded did = sd_itch_decode(own, *p, *left, 0, stripe->ticks + own->ticks, stripe->capacity - own->ticks);
  *p += did.consumed;
  *left -= did.consumed;
  return did.code != SD_OK || is_odd(own);
}

/* The bytes of the frame at p; 0 if it is not complete, or not a frame. */
static uint64_t frame_bytes(const uint8_t *p, uint64_t left) {
  if (left <= PREFIX_BYTES) return 0;
  uint64_t length = PREFIX_BYTES + (uint64_t)sd_itch_length(p[PREFIX_BYTES]);
  return length > PREFIX_BYTES && length <= left ? length : 0;
}

/* While this runs, own->offset counts from the stripe's start. */
static int walk(sd_itch *own, int fd, sd_itch_stripe *stripe, uint8_t *base, uint64_t piece) {
  const uint8_t *p = base;
  uint64_t at = stripe->start;
  uint64_t left = 0;
  int begun = stripe->exact != 0;
  int whole = 1;
  stripe->begin = stripe->start;
  while (whole && at < stripe->stop && own->ticks < stripe->capacity) {
    uint64_t alarm = stripe->stop - at < piece ? stripe->stop - at : piece;
    /* What is left goes before the piece, so that the piece is always read to the same, aligned place. */
    memmove(base - left, p, left);
    p = base - left;
    uint64_t got = sd_read_at(fd, base, alarm, at);
    whole = got == alarm;
    at += got;
    left += got;
    if (!begun) {
      uint64_t passed =
          sd_itch_find_sync(own, p, left < SD_ITCH_STRIPE_SEARCH ? left : SD_ITCH_STRIPE_SEARCH, 0, &begun);
      if (!begun) return 1;
      p += passed;
      left -= passed;
      stripe->begin += passed;
    }
    if (take_some(own, stripe, &p, &left)) return 1;
  }
  /* Takes the frame that `stop` cuts, if there is one, and no other. */
  if (whole && left != 0 && own->ticks < stripe->capacity) {
    memmove(base - left, p, left);
    p = base - left;
    left += sd_read_at(fd, base, SD_ITCH_MAX_FRAME, at);
    uint64_t length = frame_bytes(p, left);
    if (length != 0 && take_some(own, stripe, &p, &length)) return 1;
  }
  return 0;
}

void sd_itch_stripe_take(sd_itch *own, int fd, sd_itch_stripe *stripe, uint8_t *buffer, uint64_t piece) {
  own->offset = own->messages = own->ticks = own->unselected = 0;
  own->skipped_unknown_type = own->skipped_bad_field = own->skipped_bytes = own->lost = 0;
  own->sampled = own->market_events = own->clear_from = 0;
  memset(own->skips, 0, sizeof own->skips);
  memset(own->counts, 0, sizeof own->counts);
  stripe->refused = walk(own, fd, stripe, buffer + SD_ITCH_STRIPE_HEADROOM, piece) != 0;
  stripe->end = stripe->begin + own->offset;
  stripe->made = own->ticks;
  stripe->messages = own->messages;
  stripe->unselected = own->unselected;
  memcpy(stripe->counts, own->counts, sizeof stripe->counts);
  stripe->market_events = own->market_events;
  memcpy(stripe->market, own->market, sizeof stripe->market);
}

void sd_itch_stripe_follow(sd_itch *own, const sd_itch *itch, uint8_t *wanted) {
  uint32_t named = own->symbol_count; /* those of the last stream that was followed, and those learnt since */
  memcpy(own, itch, offsetof(sd_itch, symbols));
  memcpy(own->symbols, itch->symbols, itch->symbol_count * sizeof itch->symbols[0]);
  if (named > own->symbol_count)
    memset(own->symbols[own->symbol_count], 0, (named - own->symbol_count) * sizeof own->symbols[0]);
  memcpy(wanted, itch->wanted, SD_ITCH_LOCATES);
  own->wanted = wanted;
  own->attributes = NULL;
  own->prefixed = 1;
}

int sd_itch_stripe_adopt(sd_itch *itch, const sd_itch_stripe *stripe) {
  if (stripe->refused || stripe->begin != itch->offset || itch->lost || !itch->prefixed) return 0;
  for (uint64_t i = 0; i < stripe->made; i++)
    sd_set_sequence(&stripe->ticks[i], (uint64_t)sd_sequence(&stripe->ticks[i]) + itch->messages);
  for (int type = 0; type < 256; type++) itch->counts[type] += stripe->counts[type];
  for (uint32_t i = 0; i < stripe->market_events; i++)
    sd_itch_keep_market_event(itch, stripe->market[i], sd_itch_length(stripe->market[i][0]));
  itch->offset = stripe->end;
  itch->messages += stripe->messages;
  itch->ticks += stripe->made;
  itch->unselected += stripe->unselected;
  return 1;
}
