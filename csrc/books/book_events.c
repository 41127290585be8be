/* Databento's rules (publishers.h), record by record. */
#include "books/book_events.h"

#include "books/book_apply.h"

static void remove_side(sd_book *b, int side) {
  if (!b->n[side]) return;
  for (uint32_t slot = 0; (slot = sd_book_order_from(b, slot)) != SD_NO_ORDER; slot++)
    if (sd_book_side(b, slot) == side) sd_book_remove(b, slot, sd_book_size(b, slot));
}

/* The tick is a side's top, and the side consists of nothing else. Without a price the side is empty. */
static int set_top(sd_change *c, const sd_tick *t, uint8_t *tops) {
  const int side = side_of_tick(t), is_empty = t->price == SD_UNDEF_PRICE;
  if ((t->side != 'A' && t->side != 'B') || (!is_empty && !usable(t))) {
    c->row->unusable++;
    return 0;
  }
  /* Once such records describe a side, it has no order but its top. So the side is searched for other orders only once. */
  if (*tops & SD_TOP(side)) {
    const uint32_t order = sd_book_find(c->book, sd_top_id(side));
    if (order != SD_NO_ORDER) sd_book_remove(c->book, order, sd_book_size(c->book, order));
  } else {
    remove_side(c->book, side);
    *tops |= (uint8_t)SD_TOP(side);
  }
  if (is_empty) return 0;
  return done(c, sd_book_add(c->book, c->pool, sd_top_id(side), side, t->price, t->size, SD_NO_LEVEL));
}

/* Applies a record of an order, a trade or a clear to its publisher's book. Zero, or the reason why it cannot be handled. */
static inline int apply_record(sd_change *c, const sd_tick *t, const sd_trade_rules *rules, uint8_t *tops) {
  const int is_new = t->action == 'A' || t->action == 'M';
  if (is_new && t->flags & rules->flags.top) return set_top(c, t, tops);
  if (is_new && *tops & SD_TOP(side_of_tick(t))) {
    c->row->unusable++;
    return 0;
  }
  if (t->action == 'R') *tops &= SD_IN_SNAPSHOT | SD_SNAPSHOT_ENDED;
  if ((t->action == 'M' || (t->action == 'C' && t->size == 0)) && find(c, t->order_id) == SD_NO_ORDER) {
    if (t->action == 'M') return add(c, t);
    c->row->unknown++;
    return 0;
  }
  /* In other feeds this takes all that is left. */
  if (t->action == 'C' && t->size == 0) return 0;
  return apply(c, t, rules);
}

/* Nonzero: a record of a snapshot begins a new book. A snapshot without a clear record replaces the book too. Records that end an event
 * each are one snapshot as long as they have one receive time. */
static int begins_snapshot(const sd_tick *t, const sd_book_row *row, uint8_t tops) {
  return !(tops & SD_IN_SNAPSHOT) || (tops & SD_SNAPSHOT_ENDED && t->ts_recv != row->last_ts_recv);
}

/* Follows the snapshots of a publisher: to be called before its record is applied. Nonzero: the record emptied the book. */
static SD_NOINLINE int follow_snapshot(sd_change *c, const sd_tick *t, const sd_flags *flags, uint8_t *tops) {
  if (!(t->flags & flags->snapshot)) {
    *tops &= (uint8_t)~(SD_IN_SNAPSHOT | SD_SNAPSHOT_ENDED);
    return 0;
  }
  const int fresh = t->action != 'R' && begins_snapshot(t, c->row, *tops);
  if (fresh) {
    sd_book_clear(c->book, c->pool);
    *tops = 0;
    c->order = SD_NO_ORDER;
    c->level = SD_NO_LEVEL;
  }
  *tops &= (uint8_t)~SD_SNAPSHOT_ENDED;
  *tops |= (uint8_t)(SD_IN_SNAPSHOT | (t->flags & flags->last ? SD_SNAPSHOT_ENDED : 0));
  return fresh;
}

/* Notes from which rank on a tick, which was just applied, has changed the levels. */
static void note_levels(const sd_publisher_view *view, const sd_touched *touched) {
  if (touched->all) view->from[SD_ASK] = view->from[SD_BID] = 0;
  for (uint32_t i = 0; i < touched->n; i++) {
    const uint32_t rank = sd_book_rank(view->book, touched->side[i], touched->price[i]);
    uint8_t *from = &view->from[touched->side[i]];
    if (rank < *from) *from = (uint8_t)rank;
  }
}

/* At the end of an event: the row shows the levels that it left. */
static SD_NOINLINE void show_levels(sd_publishers *p, const sd_publisher_view *view, uint32_t top, sd_book_row *row) {
  int changed = 0;
  for (int side = 0; side < 2; side++) {
    if (view->from[side] < top)
      changed |= sd_shown_from(view->book, side, view->from[side], top, !(*view->tops & SD_TOP(side)), view->levels);
    view->from[side] = SD_NOT_SHOWN;
  }
  if (changed && sd_publishers_all(p)) changed = sd_publishers_show_levels(p, top, sd_row_shown(row));
  p->relevelled |= (uint8_t)changed;
}

/* At the end of an event: the rows show the book that it left. */
static inline void show_event(sd_publishers *p, const sd_publisher_view *view, uint32_t top, sd_book_row *row) {
  show_book(view->book, view->shown);
  if (SD_UNLIKELY(*view->tops & (SD_TOP(SD_BID) | SD_TOP(SD_ASK)))) {
    /* The feed does not say how many orders make a top. */
    if (*view->tops & SD_TOP(SD_BID)) view->shown->bid_orders = 0;
    if (*view->tops & SD_TOP(SD_ASK)) view->shown->ask_orders = 0;
    view->shown->orders -= (int32_t)sd_count_tops(view->book, *view->tops);
  }
  if (is_crossed(view->book, view->shown)) row->crossed++;
  sd_publishers_show(p, row);
  if (top) show_levels(p, view, top, row);
}

static void begin_day(sd_publishers *p, const sd_change *c, uint32_t top) {
  for (uint32_t i = 0; i < p->n; i++) {
    const sd_publisher_view view = sd_publisher_at(p, c->book, c->row, i);
    sd_book_clear(view.book, c->pool);
    *view.tops = 0;
    view.from[SD_ASK] = view.from[SD_BID] = 0;
    show_event(p, &view, top, c->row);
  }
  c->row->state = 0;
}

int sd_book_record(const sd_book_params *params, sd_pool *pool, sd_book_row *row, const sd_tick *t, sd_guess guess) {
  sd_change c = {book_of(sd_books_all(params->books), t), pool, row, guess.order, guess.level};
  sd_publishers *p = &sd_books_of_publishers(params->books)[t->instrument_id];
  const uint32_t top = params->books->top;
  uint8_t no_tops = 0, no_from[2] = {SD_NOT_SHOWN, SD_NOT_SHOWN};
  sd_publisher_view view = {c.book, &no_tops, c.row, sd_row_shown(c.row), no_from};
  if (t->kind != SD_KIND_STATUS) {
    const int code = sd_publisher_find(p, c.pool, c.book, c.row, top, t->publisher_id, &view);
    if (code != SD_PUBLISHER_FOUND) return code == SD_PUBLISHER_NO_MEMORY ? NO_MEMORY : TOO_MANY;
    if (view.book != c.book) c = (sd_change){view.book, c.pool, c.row, SD_NO_ORDER, SD_NO_LEVEL};
  }
  p->renewed = p->relevelled = 0;
  if (sd_is_day(t)) {
    begin_day(p, &c, top);
  } else {
    if (SD_UNLIKELY((t->flags & params->rules.flags.snapshot || *view.tops & SD_IN_SNAPSHOT) &&
                    t->kind == SD_KIND_ORDER))
      p->renewed = (uint8_t)follow_snapshot(&c, t, &params->rules.flags, view.tops);
    sd_touched touched = {0};
    if (top) {
      touched = touched_by(&c, t);
      touched.all |= p->renewed || t->flags & params->rules.flags.top;
    }
    const int fault = apply_record(&c, t, &params->rules, view.tops);
    if (top) note_levels(&view, &touched);
    if (SD_UNLIKELY(fault)) return fault;
  }
  if (sd_ends_event(t, params->rules.flags.last)) show_event(p, &view, top, c.row);
  c.row->ticks++;
  c.row->last_ts_recv = t->ts_recv;
  return 0;
}
