/* See the header. A field is short and lies in the cache, so the cost is in mispredicted branches. The loop over digits is therefore as
 * plain as possible, and everything rare (nineteen digits and more, exponents) is kept out of its way. */
#include "codec/text/decimal.h"

#include "codec/text/cells.h"
#include "codec/text/digits.h"

#include <string.h>

enum { SAFE_DIGITS = 19 }; /* this many digits never overflow 64 bits */

static const int64_t DAY_NS = INT64_C(86400000000000);

static const uint64_t powers[20] = {1ull,
                                    10ull,
                                    100ull,
                                    1000ull,
                                    10000ull,
                                    100000ull,
                                    1000000ull,
                                    10000000ull,
                                    100000000ull,
                                    1000000000ull,
                                    10000000000ull,
                                    100000000000ull,
                                    1000000000000ull,
                                    10000000000000ull,
                                    100000000000000ull,
                                    1000000000000000ull,
                                    10000000000000000ull,
                                    100000000000000000ull,
                                    1000000000000000000ull,
                                    10000000000000000000ull};

static inline int is_digit(uint8_t c) { return (uint8_t)(c - '0') < 10; }

/* Adds the next digits to `value` times a power of ten; takes eight at once while there are so many. Not for more than SAFE_DIGITS in
 * all. */
static inline uint64_t digits_of(field *f, uint64_t value) {
  while (f->end - f->at >= 8) {
    uint64_t word = eight_characters(f->at);
    if (!are_digits(word)) break;
    value = value * 100000000 + eight_digits(word);
    f->at += 8;
  }
  while (f->at < f->end && is_digit(*f->at)) value = value * 10 + (uint64_t)(*f->at++ - '0');
  return value;
}

/* Digits and a point of any length: after the nineteenth significant digit, only zeros of a fraction may follow. */
static int long_mantissa(field *f, uint64_t *value, int *fraction, int *any) {
  int counting = 0;
  int point = 0;
  for (; f->at < f->end; f->at++) {
    uint8_t c = *f->at;
    if (c == '.' && !point) {
      point = 1;
      continue;
    }
    if (!is_digit(c)) break;
    *any = 1;
    if (counting == SAFE_DIGITS) {
      if (!point) return SD_FAULT_RANGE;
      if (c != '0') return SD_FAULT_PRECISION;
      continue;
    }
    *value = *value * 10 + (uint64_t)(c - '0');
    counting += *value != 0;
    *fraction += point;
  }
  return 0;
}

static int exponent_of(field *f, int *exponent) {
  int negative = 0;
  int value = 0;
  f->at++;
  if (f->at < f->end && (*f->at == '-' || *f->at == '+')) negative = *f->at++ == '-';
  if (f->at == f->end) return SD_FAULT_TEXT;
  for (; f->at < f->end; f->at++) {
    if (!is_digit(*f->at)) return SD_FAULT_TEXT;
    if (value < 10000) value = value * 10 + (*f->at - '0');
  }
  *exponent = negative ? -value : value;
  return 0;
}

static inline int scaled(uint64_t mantissa, int power, int negative, int64_t *value) {
  if (power < 0) {
    if (power < -SAFE_DIGITS || mantissa % powers[-power]) return mantissa ? SD_FAULT_PRECISION : (*value = 0, 0);
    mantissa /= powers[-power];
  } else if (power) {
    if (mantissa == 0) power = 0;
    if (power > SAFE_DIGITS || __builtin_mul_overflow(mantissa, powers[power], &mantissa)) return SD_FAULT_RANGE;
  }
  if (mantissa > (uint64_t)INT64_MAX) return SD_FAULT_RANGE;
  *value = negative ? -(int64_t)mantissa : (int64_t)mantissa;
  return 0;
}

static __attribute__((noinline)) int any_decimal(field f, int scale, int64_t *value) {
  int negative = 0;
  if (*f.at == '-' || *f.at == '+') negative = *f.at++ == '-';
  uint64_t mantissa = 0;
  int fraction = 0;
  int any = 0;
  if (LIKELY(f.end - f.at <= SAFE_DIGITS)) {
    const uint8_t *begin = f.at;
    mantissa = digits_of(&f, 0);
    any = f.at > begin;
    if (f.at < f.end && *f.at == '.') {
      begin = ++f.at;
      mantissa = digits_of(&f, mantissa);
      fraction = (int)(f.at - begin);
      any |= fraction;
    }
  } else {
    int fault = long_mantissa(&f, &mantissa, &fraction, &any);
    if (fault) return fault;
  }
  if (!any) return SD_FAULT_TEXT;
  int exponent = 0;
  if (UNLIKELY(f.at < f.end)) {
    if (*f.at != 'e' && *f.at != 'E') return SD_FAULT_TEXT;
    int fault = exponent_of(&f, &exponent);
    if (fault) return fault;
  }
  return scaled(mantissa, scale - fraction + exponent, negative, value);
}

enum { MARKED_TEXT = 64 };

/* A decimal with marks of its own: its text is made anew with the usual ones. Groups, if there are any, have three digits but for the
 * first, which has one to three. */
static __attribute__((noinline)) int marked_decimal(field f, const sd_number_rule *rule, int64_t *value) {
  uint8_t text[MARKED_TEXT];
  uint8_t *to = text;
  int group = 0;   /* digits since the last mark, and before the first one */
  int grouped = 0; /* whether there is such a mark */
  int whole = 1;   /* before the point or the exponent */
  if (f.end - f.at > MARKED_TEXT) return SD_FAULT_TEXT;
  for (; f.at < f.end; f.at++) {
    uint8_t c = *f.at;
    if (whole && rule->group && c == rule->group) {
      if (grouped ? group != 3 : group < 1 || group > 3) return SD_FAULT_TEXT;
      grouped = 1;
      group = 0;
      continue;
    }
    if (is_digit(c)) {
      group += whole;
    } else if (c == rule->point || c == 'e' || c == 'E') {
      if (whole && grouped && group != 3) return SD_FAULT_TEXT;
      whole = 0;
      if (c == rule->point) c = '.';
    } else if (c != '-' && c != '+') {
      return SD_FAULT_TEXT;
    }
    *to++ = c;
  }
  if (to == text || (whole && grouped && group != 3)) return SD_FAULT_TEXT;
  field made = {text, to};
  return any_decimal(made, rule->scale, value);
}

static inline int decimal(field f, const uint8_t *limit, int scale, int64_t *value) {
  uint64_t mantissa;
  int fraction;
  if (LIKELY(short_number(f, limit, 1, &mantissa, &fraction))) return scaled(mantissa, scale - fraction, 0, value);
  int64_t any; /* not *value, which cannot stay in a register because another function may write to it */
  int fault = any_decimal(f, scale, &any);
  if (!fault) *value = any;
  return fault;
}

static uint64_t fnv1a(field f) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (; f.at < f.end; f.at++) hash = (hash ^ *f.at) * UINT64_C(0x100000001b3);
  return hash | UINT64_C(1) << 63;
}

static int is_negative(field f) {
  if (*f.at != '-' || f.end - f.at == 1) return 0;
  while (++f.at < f.end)
    if (!is_digit(*f.at)) return 0;
  return 1;
}

static inline __attribute__((always_inline)) int id(field f, const uint8_t *limit, int hash, int64_t *value) {
  uint64_t number = 0;
  int fraction;
  const uint8_t *at = f.at;
  if (LIKELY(short_number(f, limit, 0, &number, &fraction))) {
    at = f.end;
  } else if (f.end - f.at <= SAFE_DIGITS) {
    field rest = f;
    number = digits_of(&rest, 0);
    at = rest.at;
  } else {
    for (; at < f.end && is_digit(*at); at++)
      if (__builtin_mul_overflow(number, UINT64_C(10), &number) ||
          __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number))
        break;
  }
  if (UNLIKELY(at < f.end)) {
    if (is_negative(f)) {
      *value = 0;
      return 0;
    }
    if (!hash) return is_digit(*at) ? SD_FAULT_RANGE : SD_FAULT_TEXT;
    number = fnv1a(f);
  }
  memcpy(value, &number, sizeof number);
  return 0;
}

static inline int epoch(field f, const uint8_t *limit, int64_t *value) {
  int64_t number;
  int fault = decimal(f, limit, 0, &number);
  if (fault) return fault;
  if (number < 0) return SD_FAULT_RANGE;
  int power = number < INT64_C(100000000000)         ? 9
              : number < INT64_C(100000000000000)    ? 6
              : number < INT64_C(100000000000000000) ? 3
                                                     : 0;
  return scaled((uint64_t)number, power, 0, value);
}

/* Exactly `digits` digits. */
static inline int fixed(field *f, int digits, int64_t *value) {
  if (f->end - f->at < digits) return SD_FAULT_TEXT;
  int64_t number = 0;
  for (int i = 0; i < digits; i++) {
    if (!is_digit(f->at[i])) return SD_FAULT_TEXT;
    number = number * 10 + (f->at[i] - '0');
  }
  f->at += digits;
  *value = number;
  return 0;
}

static int of_day(int64_t hours, int64_t minutes, int64_t seconds, int64_t ns, int64_t *value) {
  if (hours > 23 || minutes > 59 || seconds > 59) return SD_FAULT_RANGE;
  *value = ((hours * 60 + minutes) * 60 + seconds) * INT64_C(1000000000) + ns;
  return 0;
}

/* The digits of a fraction of a second, one at least: as many as there are. */
static int fraction_of(field *f, int64_t *ns) {
  int64_t unit = INT64_C(1000000000);
  if (f->at == f->end || !is_digit(*f->at)) return SD_FAULT_TEXT;
  for (*ns = 0; f->at < f->end && is_digit(*f->at); f->at++) {
    unit /= 10;
    if (unit == 0 && *f->at != '0') return SD_FAULT_PRECISION;
    *ns += unit * (*f->at - '0');
  }
  return 0;
}

/* [H]H:MM[:SS[.digits]], to the end of the field; ISO 8601 has a comma before the digits, too. */
static int colons(field f, int64_t *value) {
  int64_t hours, minutes, seconds = 0, ns = 0;
  if (fixed(&f, f.end - f.at > 1 && f.at[1] == ':' ? 1 : 2, &hours)) return SD_FAULT_TEXT;
  if (f.at == f.end || *f.at++ != ':' || fixed(&f, 2, &minutes)) return SD_FAULT_TEXT;
  if (f.at < f.end) {
    if (*f.at++ != ':' || fixed(&f, 2, &seconds)) return SD_FAULT_TEXT;
    if (f.at < f.end) {
      uint8_t mark = *f.at++;
      int fault = mark != '.' && mark != ',' ? SD_FAULT_TEXT : fraction_of(&f, &ns);
      if (fault || f.at < f.end) return fault ? fault : SD_FAULT_TEXT;
    }
  }
  return of_day(hours, minutes, seconds, ns, value);
}

/* HHMMSS and a fraction of so many digits, without its leading zeros: 93000000 is half past nine. */
static int packed(field f, int digits, int64_t *value) {
  if (f.end - f.at > 6 + digits || f.at == f.end) return SD_FAULT_TEXT;
  if (digits == 0 && f.end - f.at < 5) return SD_FAULT_TEXT; /* 930 may be half past nine, or 0:09:30 */
  int64_t all;
  if (fixed(&f, (int)(f.end - f.at), &all)) return SD_FAULT_TEXT;
  int64_t unit = (int64_t)powers[digits];
  int64_t clock = all / unit;
  return of_day(clock / 10000, clock / 100 % 100, clock % 100, all % unit * (int64_t)powers[9 - digits], value);
}

static int time_of_day(field f, int digits, int64_t *value) {
  int has_colon = f.end - f.at > 2 && (f.at[1] == ':' || f.at[2] == ':');
  return has_colon ? colons(f, value) : packed(f, digits, value);
}

static int is_leap(int64_t year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

/* Midnight of a date, as ns since 1970. */
static int midnight(int64_t year, int64_t month, int64_t day, int64_t *value) {
  static const uint8_t lengths[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (year < 1970 || year > 2261 || month < 1 || month > 12 || day < 1) return SD_FAULT_RANGE;
  if (day > lengths[month - 1] + (month == 2 && is_leap(year))) return SD_FAULT_RANGE;
  /* Days since 1970. Years are counted from March, so that the leap day is the last of its year. */
  int64_t y = month > 2 ? year : year - 1;
  int64_t m = month > 2 ? month - 3 : month + 9;
  int64_t days = y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719468;
  *value = days * DAY_NS;
  return 0;
}

/* Takes the date off the front of the field; `dashed`: how it was written. */
static int date(field *f, int64_t *value, int *dashed) {
  int64_t year, month, day;
  if (fixed(f, 4, &year) || f->at == f->end) return SD_FAULT_TEXT;
  uint8_t mark = *f->at;
  *dashed = mark == '-' || mark == '/' || mark == '.';
  f->at += *dashed;
  if (fixed(f, 2, &month)) return SD_FAULT_TEXT;
  if (*dashed && (f->at == f->end || *f->at++ != mark)) return SD_FAULT_TEXT;
  if (fixed(f, 2, &day)) return SD_FAULT_TEXT;
  return midnight(year, month, day, value);
}

/* Takes the zone, and how far it is ahead of UTC, off the end of a clock's field; takes nothing if there is no zone. */
static int zone(field *f, int *has_zone, int64_t *ahead) {
  const uint8_t *sign = f->at;
  while (sign < f->end && *sign != '+' && *sign != '-' && *sign != 'Z' && *sign != 'z' && *sign != 'U') sign++;
  *has_zone = sign < f->end;
  *ahead = 0;
  if (!*has_zone) return 0;
  field rest = {sign + 1, f->end};
  f->end = sign;
  while (f->end > f->at && f->end[-1] == ' ') f->end--;
  if (*sign == 'Z' || *sign == 'z') return rest.at == rest.end ? 0 : SD_FAULT_TEXT;
  if (*sign == 'U') return rest.end - rest.at == 2 && rest.at[0] == 'T' && rest.at[1] == 'C' ? 0 : SD_FAULT_TEXT;
  int64_t hours, minutes = 0;
  if (fixed(&rest, 2, &hours)) return SD_FAULT_TEXT;
  if (rest.at < rest.end && *rest.at == ':' && ++rest.at == rest.end) return SD_FAULT_TEXT;
  if (rest.at < rest.end && (fixed(&rest, 2, &minutes) || rest.at < rest.end)) return SD_FAULT_TEXT;
  int64_t size = 0;
  int fault = of_day(hours, minutes, 0, 0, &size);
  *ahead = *sign == '-' ? -size : size;
  return fault;
}

static int stamp(field f, int digits, int zones, int64_t *value) {
  int dashed, has_zone = 0;
  int64_t day, clock = 0, ahead = 0;
  int fault = date(&f, &day, &dashed);
  if (fault) return fault;
  if (f.at < f.end && (*f.at == 'T' || *f.at == 't' || *f.at == ' ' || *f.at == 'D')) {
    f.at++;
    fault = zone(&f, &has_zone, &ahead);
    if (!fault) fault = time_of_day(f, digits, &clock);
  } else {
    fault = dashed || f.end - f.at != 6 + digits ? SD_FAULT_TEXT : packed(f, digits, &clock);
  }
  if (zones != SD_ZONE_MAY && has_zone != (zones == SD_ZONE_ALWAYS)) return SD_FAULT_TEXT;
  *value = day + clock - ahead;
  return fault;
}

typedef struct moment {
  int64_t year, month, day, of_year, hour, minute, second, ns, ahead;
  int half; /* 1: AM, 2: PM */
  int has_date;
} moment;

/* How many digits a directive has at most; 0: it is not one of digits. */
static int width_of(uint8_t directive) {
  switch (directive) {
  case 'Y':
    return 4;
  case 'j':
    return 3;
  case 'y':
  case 'm':
  case 'd':
  case 'H':
  case 'I':
  case 'M':
  case 'S':
    return 2;
  default:
    return 0;
  }
}

/* Digits, `most` of them or, unless `exactly`, fewer. */
static int counted(field *f, int most, int exactly, int64_t *value) {
  int64_t number = 0;
  int count = 0;
  for (; count < most && f->at < f->end && is_digit(*f->at); count++) number = number * 10 + (*f->at++ - '0');
  *value = number;
  return count == 0 || (exactly && count < most) ? SD_FAULT_TEXT : 0;
}

/* Takes one of `count` names off the front, whole or the first three letters of it, in any case. Returns its number from 1; 0: none. */
static int name_of(field *f, const char *const *names, int count, int whole) {
  for (int i = 0; i < count; i++) {
    size_t length = whole ? strlen(names[i]) : 3;
    if ((size_t)(f->end - f->at) < length) continue;
    size_t same = 0;
    while (same < length && (f->at[same] | 0x20) == (names[i][same] | 0x20)) same++;
    if (same < length) continue;
    f->at += length;
    return i + 1;
  }
  return 0;
}

static int zone(field *f, int *has_zone, int64_t *ahead);

/* Reads what a directive stands for. `exactly`: another one of digits follows at once. */
static int directive_of(field *f, uint8_t directive, int exactly, moment *m) {
  static const char *const months[12] = {"January", "February", "March",     "April",   "May",      "June",
                                         "July",    "August",   "September", "October", "November", "December"};
  static const char *const days[7] = {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"};
  int most = width_of(directive), has_zone;
  field rest = *f;
  switch (directive) {
  case 'Y':
    return counted(f, most, 1, &m->year);
  case 'y':
    if (counted(f, most, 1, &m->year)) return SD_FAULT_TEXT;
    m->year += m->year < 69 ? 2000 : 1900; /* as POSIX has it */
    return 0;
  case 'm':
    return counted(f, most, exactly, &m->month);
  case 'd':
    return counted(f, most, exactly, &m->day);
  case 'j':
    return counted(f, most, exactly, &m->of_year);
  case 'H':
    return counted(f, most, exactly, &m->hour);
  case 'I':
    if (counted(f, most, exactly, &m->hour)) return SD_FAULT_TEXT;
    if (m->hour < 1 || m->hour > 12) return SD_FAULT_RANGE;
    m->hour %= 12;
    return 0;
  case 'M':
    return counted(f, most, exactly, &m->minute);
  case 'S':
    return counted(f, most, exactly, &m->second);
  case 'f':
    return fraction_of(f, &m->ns);
  case 'b':
  case 'B':
    m->month = name_of(f, months, 12, directive == 'B');
    return m->month ? 0 : SD_FAULT_TEXT;
  case 'a':
  case 'A':
    return name_of(f, days, 7, directive == 'A') ? 0 : SD_FAULT_TEXT;
  case 'p':
    if (f->end - f->at < 2 || (f->at[1] | 0x20) != 'm') return SD_FAULT_TEXT;
    m->half = (f->at[0] | 0x20) == 'a' ? 1 : (f->at[0] | 0x20) == 'p' ? 2 : 0;
    f->at += 2;
    return m->half ? 0 : SD_FAULT_TEXT;
  case 'z': /* the last one */
    if (zone(&rest, &has_zone, &m->ahead) || !has_zone || rest.end != f->at) return SD_FAULT_TEXT;
    f->at = f->end;
    return 0;
  default:
    return SD_FAULT_TEXT;
  }
}

/* A field without its leading zeros as `to` with them, if all of the pattern is of digits. Returns the field that is to be read. */
static field with_zeros(field f, const uint8_t *pattern, uint32_t bytes, uint8_t *to) {
  ptrdiff_t width = 0;
  for (uint32_t i = 0; i < bytes; i += 2) {
    int most = pattern[i] == '%' && i + 1 < bytes ? width_of(pattern[i + 1]) : 0;
    if (!most || width + most > MARKED_TEXT) return f;
    width += most;
  }
  ptrdiff_t missing = width - (f.end - f.at);
  if (missing <= 0) return f;
  memset(to, '0', (size_t)missing);
  memcpy(to + missing, f.at, (size_t)(f.end - f.at));
  return (field){to, to + width};
}

static int by_pattern(field f, const sd_number_rule *rule, int64_t *value) {
  const uint8_t *pattern = rule->pattern, *end = pattern + rule->pattern_bytes;
  uint8_t padded_text[MARKED_TEXT];
  moment m = {.month = 1, .day = 1};
  f = with_zeros(f, pattern, rule->pattern_bytes, padded_text);
  for (; pattern < end; pattern++) {
    if (*pattern == ' ') {
      if (f.at == f.end || *f.at != ' ') return SD_FAULT_TEXT;
      while (f.at < f.end && *f.at == ' ') f.at++;
      continue;
    }
    int is_directive = *pattern == '%' && end - pattern > 1 && pattern[1] != '%';
    if (!is_directive) {
      if (*pattern == '%') pattern++;
      if (f.at < f.end && *f.at == *pattern) {
        f.at++;
        continue;
      }
      if (end - pattern < 3 || pattern[1] != '%' || pattern[2] != 'f') return SD_FAULT_TEXT;
      pattern += 2; /* no mark, and so no fraction */
      continue;
    }
    int exactly = end - pattern > 3 && pattern[2] == '%' && (width_of(pattern[3]) || pattern[3] == 'f');
    m.has_date |= *++pattern == 'Y' || *pattern == 'y';
    int fault = directive_of(&f, *pattern, exactly, &m);
    if (fault) return fault;
  }
  if (f.at < f.end) return SD_FAULT_TEXT;
  int64_t clock = 0, day = 0;
  int fault = of_day(m.hour + (m.half == 2 ? 12 : 0), m.minute, m.second, m.ns, &clock);
  if (!fault && m.has_date) fault = midnight(m.year, m.month, m.day, &day);
  if (!fault && m.of_year) {
    if (m.of_year > 365 + is_leap(m.year)) return SD_FAULT_RANGE;
    day += (m.of_year - 1) * DAY_NS;
  }
  *value = day + clock - m.ahead;
  return fault;
}

static int hex(field f, int64_t *value) {
  uint64_t number = 0;
  if (f.end - f.at > 16) return SD_FAULT_RANGE;
  for (; f.at < f.end; f.at++) {
    uint8_t letter = *f.at | 0x20;
    if (is_digit(*f.at)) number = number << 4 | (uint64_t)(*f.at - '0');
    else if (letter >= 'a' && letter <= 'f') number = number << 4 | (uint64_t)(letter - 'a' + 10);
    else return SD_FAULT_TEXT;
  }
  memcpy(value, &number, sizeof number);
  return 0;
}

static inline int taken(field f, const uint8_t *limit, const sd_number_rule *rule, int form, int64_t *value) {
  if (UNLIKELY(f.at == f.end)) {
    *value = rule->empty;
    return rule->allow_empty ? 0 : SD_FAULT_EMPTY;
  }
  int fault;
  int dashed;
  switch (form) {
  case SD_FORM_DECIMAL:
    fault = UNLIKELY(rule->point) ? marked_decimal(f, rule, value) : decimal(f, limit, rule->scale, value);
    break;
  case SD_FORM_ID:
    return id(f, limit, rule->hash, value);
  case SD_FORM_HEX:
    return hex(f, value);
  case SD_FORM_EPOCH:
    fault = epoch(f, limit, value);
    break;
  case SD_FORM_CLOCK:
    fault = time_of_day(f, rule->scale, value);
    break;
  case SD_FORM_STAMP:
    fault = stamp(f, rule->scale, rule->zone, value);
    break;
  case SD_FORM_DATE:
    fault = date(&f, value, &dashed);
    if (!fault && f.at != f.end) fault = SD_FAULT_TEXT;
    break;
  case SD_FORM_PATTERN:
    fault = by_pattern(f, rule, value);
    break;
  default:
    return SD_FAULT_TEXT;
  }
  if (UNLIKELY(fault)) return fault;
  if (UNLIKELY(*value < rule->lowest || *value > rule->highest)) return SD_FAULT_RANGE;
  if (UNLIKELY(*value == 0)) *value = rule->zero;
  return 0;
}

int sd_number(const uint8_t *text, uint64_t length, const sd_number_rule *rule, int64_t *value) {
  int32_t offsets[2] = {0, (int32_t)length};
  sd_cells cells = {.begins = offsets, .ends = offsets + 1, .stride = 1, .bytes = text, .count = 1};
  text_column alone = text_column_of(&cells);
  /* Nothing after its start may be read, so this reads digit by digit. Tests compare reading by words with it. */
  return taken(cell(&alone, 0), text, rule, rule->form, value);
}

/* Compiled once per form, so that no branch in the loop depends on the form. Its arguments are copied, as the column is. */
static inline __attribute__((always_inline)) uint64_t run(const sd_cells *cells, sd_number_rule rule, int form,
                                                          uint32_t column, sd_target target, uint16_t *faults) {
  text_column from = text_column_of(cells);
  uint64_t bad = 0;
  for (uint64_t i = 0; i < from.cells.count; i++) {
    int64_t value = 0;
    int fault = taken(cell(&from, i), from.end, &rule, form, &value);
    if (UNLIKELY(fault)) {
      note(&faults[i], column, fault);
      bad++;
      continue;
    }
    put(&target, i, &value);
  }
  return bad;
}

uint64_t sd_numbers(const sd_cells *cells, const sd_number_rule *rule, uint32_t column, const sd_target *target,
                    uint16_t *faults) {
  switch (rule->form) {
  case SD_FORM_DECIMAL:
    return run(cells, *rule, SD_FORM_DECIMAL, column, *target, faults);
  case SD_FORM_ID:
    return run(cells, *rule, SD_FORM_ID, column, *target, faults);
  default:
    return run(cells, *rule, rule->form, column, *target, faults);
  }
}
