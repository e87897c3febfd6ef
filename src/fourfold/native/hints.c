/* Which of at most 64 hints texts contain: text/secrets.py tries a pattern only where one of its hints is found. */

#include <stdint.h>
#include <string.h>

#include "api.h"

enum { EXACT = 1, STARTS = 2, ASSIGNED = 4, ADDRESS = 8 }; /* conditions of a hint, see text/secrets.py */
enum { HINTS = 64, PLACES = 1024, SPACE_BYTES = 12, NAME_BYTES = 400, VALUE_BYTES = 9 };

typedef struct {
    const uint8_t *letters;
    int64_t length;
    uint8_t conditions;
    uint8_t next; /* 1 + the next hint that begins with the same two letters; 0: none */
} Hint;

static uint8_t small(uint8_t c) { return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c; }
static int is_letter(uint8_t c) { return small(c) >= 'a' && small(c) <= 'z'; }
static int is_space(uint8_t c) { return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31); }

/* The same for upper and lower case. */
static int place_of(const uint8_t *pair) { return (pair[0] & 31) << 5 | (pair[1] & 31); }

/* Skips up to three white space characters: beyond ASCII, each has two or three bytes. */
static const uint8_t *past_space(const uint8_t *at, const uint8_t *end)
{
    for (int i = 0; i < SPACE_BYTES && at < end && (is_space(*at) || *at >= 0x80); i++) at++;
    return at;
}

/* Whether an assignment of a long value follows: `="abc..."` or `: abc...`, perhaps after a plural s and a quote. */
static int is_assigned(const uint8_t *at, const uint8_t *end)
{
    int64_t length = 0;
    if (at < end && small(*at) == 's') at++;
    if (at < end && (*at == '"' || *at == '\'')) at++;
    at = past_space(at, end);
    if (at >= end || (*at != '=' && *at != ':')) return 0;
    at++;
    if (at < end && (*at == '=' || *at == '>')) at++; /* := or =>, or the first character of the value */
    at = past_space(at, end);
    const uint8_t quote = at < end && (*at == '"' || *at == '\'') ? *at++ : 0;
    for (; at < end && length < VALUE_BYTES; at++, length++)
        if (is_space(*at) || (quote ? *at == quote : !!memchr("\"'`,;", *at, 5))) break;
    return length >= VALUE_BYTES;
}

/* Whether a name and a colon follow, as in an address with a password. */
static int has_user(const uint8_t *at, const uint8_t *end)
{
    for (int i = 0; i <= NAME_BYTES && at < end; i++, at++) {
        if (*at == ':') return 1;
        if (is_space(*at) || memchr("/@?#\"'<>", *at, 8)) return 0;
    }
    return 0;
}

static int is_at(const Hint *hint, const uint8_t *start, const uint8_t *at, const uint8_t *end)
{
    if (end - at < hint->length) return 0;
    if (hint->conditions & EXACT) {
        if (memcmp(at, hint->letters, (size_t)hint->length)) return 0;
    } else {
        for (int64_t i = 0; i < hint->length; i++)
            if (small(at[i]) != hint->letters[i]) return 0;
    }
    if (hint->conditions & STARTS && at > start && is_letter(at[-1])) return 0;
    if (hint->conditions & ASSIGNED && !is_assigned(at + hint->length, end)) return 0;
    return !(hint->conditions & ADDRESS) || has_user(at + hint->length, end);
}

/* Sets bit h of found[t] if text t contains hint h; each of `count` texts, in UTF-8, is followed by a zero byte.

   The hints are ASCII, at least two letters long, and in lower case unless they are EXACT. -1: malformed input. */
API int64_t ff_hints(
    const uint8_t *texts, int64_t length, int64_t count, const uint8_t *letters, const uint32_t *ends,
    const uint8_t *conditions, int64_t hints, uint64_t *found)
{
    Hint all[HINTS];
    uint8_t first[PLACES] = {0};
    if (hints > HINTS) return -1;
    for (int64_t i = 0; i < hints; i++) {
        const uint32_t begin = i ? ends[i - 1] : 0;
        if (ends[i] - begin < 2) return -1;
        uint8_t *head = first + place_of(letters + begin);
        const Hint hint = {letters + begin, ends[i] - begin, conditions[i], *head};
        all[i] = hint;
        *head = (uint8_t)(i + 1);
    }
    const uint8_t *start = texts, *last = texts + length;
    for (int64_t number = 0; number < count; number++) {
        const uint8_t *end = memchr(start, 0, (size_t)(last - start));
        if (!end) return -1;
        found[number] = 0;
        for (const uint8_t *at = start; at + 1 < end; at++)
            for (uint8_t next = first[place_of(at)]; next; next = all[next - 1].next) {
                const uint64_t bit = (uint64_t)1 << (next - 1);
                if (!(found[number] & bit) && is_at(all + next - 1, start, at, end)) found[number] |= bit;
            }
        start = end + 1;
    }
    return start == last ? 0 : -1;
}
