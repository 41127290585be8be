#include "codec/itch/rare.h"

#include "codec/itch/layout.h"

static uint32_t cross_flags(uint8_t cross_type) {
  switch (cross_type) {
  case 'O':
    return SD_ITCH_CROSS | SD_ITCH_CROSS_OPENING;
  case 'C':
    return SD_ITCH_CROSS | SD_ITCH_CROSS_CLOSING;
  case 'H':
    return SD_ITCH_CROSS | SD_ITCH_CROSS_HALT;
  case 'I':
    return SD_ITCH_CROSS | SD_ITCH_CROSS_INTRADAY;
  default:
    return SD_ITCH_CROSS;
  }
}

static uint32_t side_of(uint8_t letter) { return letter == 'B' ? 'B' : letter == 'S' ? 'A' : 'N'; }

static int64_t price_at(const uint8_t *p) { return (int64_t)sd_load_u32(p) * SD_ITCH_PRICE_FACTOR; }

int sd_itch_decode_rare(uint64_t midnight_ns, uint64_t sequence, const uint8_t *m, sd_tick *tick) {
  uint64_t tail;
  sd_tick made = {.price = SD_UNDEF_PRICE, .instrument_id = sd_load_u16(m + 1)};
  made.ts_event = made.ts_recv = (int64_t)(midnight_ns + sd_itch_time(m));
  switch (m[0]) {
  case 'Q':
    tail = TAIL('T', 'N', cross_flags(m[39]), SD_KIND_TRADE);
    made.size = (int64_t)sd_load_u64(m + 11);
    made.price = price_at(m + 27);
    made.ref_id = sd_load_u64(m + 31);
    break;
  case 'H':
    tail = TAIL('N', 'N', m[19] & 0x7F, SD_KIND_STATUS);
    made.ref_id = sd_load_u32(m + 21);
    break;
  case 'I':
    tail = TAIL('N', side_of(m[27]), SD_ITCH_IMBALANCE | (m[48] & 0x7F), SD_KIND_STATUS);
    made.size = (int64_t)sd_load_u64(m + 11);
    made.price = price_at(m + 44);
    made.ref_id = sd_load_u64(m + 19);
    break;
  case 'B':
    tail = TAIL('N', 'N', SD_ITCH_BROKEN_TRADE, SD_KIND_STATUS);
    made.ref_id = sd_load_u64(m + 11);
    break;
  case 'J':
    tail = TAIL('N', 'N', SD_ITCH_LULD_COLLAR, SD_KIND_STATUS);
    made.price = price_at(m + 19);
    made.ref_id = (uint64_t)price_at(m + 23);
    made.order_id = (uint64_t)price_at(m + 27);
    made.size = sd_load_u32(m + 31);
    break;
  case 'K':
    tail = TAIL('N', 'N', m[23] == 'A' ? SD_ITCH_IPO_QUOTING : SD_ITCH_IPO_CANCELED, SD_KIND_STATUS);
    made.ref_id = sd_load_u32(m + 19);
    made.price = price_at(m + 24);
    break;
  case 'Y':
    tail = TAIL('N', 'N', SD_ITCH_REG_SHO, SD_KIND_STATUS);
    made.ref_id = m[19];
    break;
  case 'h':
    tail = TAIL('N', 'N', m[20] == 'H' ? SD_ITCH_OPERATIONAL_HALT : SD_ITCH_OPERATIONAL_RESUME, SD_KIND_STATUS);
    made.ref_id = sd_load_u16(m + 19);
    break;
  case 'N':
    tail = TAIL('N', side_of(m[19]), SD_ITCH_RETAIL_INTEREST, SD_KIND_STATUS);
    made.ref_id = m[19];
    break;
  case 'O':
    tail = TAIL('N', 'N', m[19] == 'Y' ? SD_ITCH_DIRECT_LISTING_OPEN : SD_ITCH_DIRECT_LISTING, SD_KIND_STATUS);
    made.price = price_at(m + 28);
    made.order_id = (uint64_t)price_at(m + 40);
    made.ref_id = (uint64_t)price_at(m + 44);
    break;
  default:
    return 0;
  }
  *tick = made;
  sd_itch_store_tail(tick, tail);
  sd_set_sequence(tick, sequence);
  return 1;
}

uint32_t sd_itch_name_locate(sd_itch *itch, const uint8_t *m, uint8_t *value) {
  uint32_t locate = sd_load_u16(m + 1);
  const uint8_t *name = m + 11;
  char *known = itch->symbols[locate];
  *value = name[0];
  if (name[0] == ' ') return SD_ITCH_FAULT_SYMBOL;
  for (int i = 0; i < SD_ITCH_SYMBOL_BYTES; i++) {
    if (name[i] < 0x20 || name[i] > 0x7E) {
      *value = name[i];
      return SD_ITCH_FAULT_SYMBOL;
    }
  }
  if (known[0] != 0 && memcmp(known, name, SD_ITCH_SYMBOL_BYTES) != 0) return SD_ITCH_FAULT_RENAMED;
  if (itch->attributes) memcpy(itch->attributes + locate * SD_ITCH_ATTRIBUTE_BYTES, m + 19, SD_ITCH_ATTRIBUTE_BYTES);
  if (known[0] != 0) return SD_ITCH_FAULT_NONE;
  memcpy(known, name, SD_ITCH_SYMBOL_BYTES);
  itch->symbol_names++;
  if (itch->symbol_count <= locate) itch->symbol_count = locate + 1;
  if (itch->selective) {
    itch->wanted[locate] = SD_ITCH_UNDECIDED;
    itch->undecided++;
  }
  return SD_ITCH_FAULT_NONE;
}

void sd_itch_keep_market_event(sd_itch *itch, const uint8_t *m, uint32_t length) {
  if (itch->market_events < SD_ITCH_MARKET_EVENTS) memcpy(itch->market[itch->market_events], m, length);
  itch->market_events++;
}
