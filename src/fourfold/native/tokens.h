/* The tokens of a text in ASCII, and the pieces that each is split into. For terms.c. */

#include <stdint.h>
#include <string.h>

enum {
    READ = 256, /* maximum characters of a token that are used */
    JOINED = 7, /* maximum words of a token after the first one */
};

enum { LOWER = 1, UPPER = 2, DIGIT = 4, BAR = 8, JOINT = 16, SHARP = 32, OTHER = 64 };

/* Kinds of bytes; those that are not ASCII are OTHER. */
#define OTHERS 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64
static const uint8_t KINDS[256] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 16, 0, 16, 16, 0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0,
    16, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 8,
    0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0,
    OTHERS, OTHERS, OTHERS, OTHERS, OTHERS, OTHERS, OTHERS, OTHERS,
};

static int kind_of(uint8_t c) { return KINDS[c]; }
static int is_lower(uint8_t c) { return kind_of(c) & LOWER; }
static int is_upper(uint8_t c) { return kind_of(c) & UPPER; }
static int is_digit(uint8_t c) { return kind_of(c) & DIGIT; }
static int is_letter(uint8_t c) { return kind_of(c) & (LOWER | UPPER); }
static int is_word(uint8_t c) { return kind_of(c) & (LOWER | UPPER | DIGIT | BAR); }
static int is_joint(uint8_t c) { return kind_of(c) & JOINT; }
static uint8_t lower(uint8_t c) { return is_upper(c) ? (uint8_t)(c + 32) : c; }

static int64_t after_word(const uint8_t *text, int64_t at, int64_t end)
{
    while (at < end && is_word(text[at])) at++;
    return at;
}

/* Finds the next token from `*start` on and sets `*start` to it; returns its end, or -1 if there is none. */
static int64_t next_token(const uint8_t *text, int64_t *start, int64_t end)
{
    int64_t at = *start;
    while (at < end && !is_word(text[at])) at++;
    if (at >= end) return -1;
    *start = at;
    at = after_word(text, at, end);
    for (int more = 0; more < JOINED && at + 1 < end && is_joint(text[at]) && is_word(text[at + 1]); more++)
        at = after_word(text, at + 1, end);
    if (at + 1 < end && text[at] == '+' && text[at + 1] == '+' && (at + 2 >= end || !is_word(text[at + 2]))) return at + 2;
    if (at < end && text[at] == '#' && (at + 1 >= end || !is_word(text[at + 1]))) return at + 1;
    return at;
}

typedef struct {
    const uint8_t *letters;
    int64_t length;
} Piece;

/* A token in lower case, the same without joints, and its pieces, which point into either. */
typedef struct {
    uint8_t small[READ], whole[READ];
    Piece pieces[READ + 1];
    int64_t count;
} Cut;

static int same(Piece a, Piece b) { return a.length == b.length && !memcmp(a.letters, b.letters, (size_t)a.length); }

/* Whether a word is split before `at`. */
static int is_cut(const uint8_t *word, int64_t at, int64_t length)
{
    const uint8_t before = word[at - 1], next = word[at];
    if (is_lower(before) && is_upper(next)) return 1;
    if (is_upper(before) && is_upper(next) && at + 2 < length && is_lower(word[at + 1]) && is_letter(word[at + 2]))
        return 1;
    if (is_digit(next) && at >= 2 && is_letter(before) && is_letter(word[at - 2])) return 1;
    return is_digit(before) && at + 1 < length && is_letter(next) && is_letter(word[at + 1]);
}

/* Whether a word of letters and digits has no humps: all digits, or letters in one case except the first. */
static int is_one(const uint8_t *word, int64_t length)
{
    int64_t upper = 0, small = 0;
    for (int64_t i = 0; i < length; i++) {
        upper += is_upper(word[i]) != 0;
        small += is_lower(word[i]) != 0;
    }
    if (!upper && !small) return 1;
    return upper + small == length && (!upper || !small || (upper == 1 && is_upper(word[0])));
}

/* Adds the parts of a token from `start` to `end`, a range of letters and digits. */
static void add_parts(Cut *cut, const uint8_t *token, int64_t start, int64_t end, int humped)
{
    const uint8_t *word = token + start;
    const int64_t length = end - start, begin = start;
    if (humped && !is_one(word, length))
        for (int64_t at = start + 1; at < end; at++) {
            if (!is_cut(word, at - begin, length)) continue;
            cut->pieces[cut->count++] = (Piece){cut->small + start, at - start};
            start = at;
        }
    cut->pieces[cut->count++] = (Piece){cut->small + start, end - start};
}

/* Returns the caseless pieces of a token: the whole first, then its parts, if any. */
static const Piece *pieces_of(const uint8_t *token, int64_t length, Cut *cut, int64_t *count)
{
    int64_t all = 0, start = 0;
    int humped = 0, small = 0;
    if (length > READ) length = READ;
    for (int64_t i = 0; i < length; i++) {
        cut->small[i] = lower(token[i]);
        humped |= is_upper(token[i]) || is_digit(token[i]);
        small |= is_lower(token[i]);
        if (token[i] != '-' && token[i] != '_') cut->whole[all++] = cut->small[i];
    }
    cut->count = 1;
    for (int64_t at = 0; at <= length; at++) {
        if (at < length && (is_letter(token[at]) || is_digit(token[at]))) continue;
        if (at > start) add_parts(cut, token, start, at, humped || !small);
        start = at + 1;
    }
    const Piece whole = {cut->whole, all};
    if (cut->count == 1 || (cut->count == 2 && same(cut->pieces[1], whole))) {
        *count = cut->count - 1;
        return cut->pieces + 1;
    }
    cut->pieces[0] = whole;
    *count = 1;
    for (int64_t i = 1; i < cut->count; i++)
        if (cut->pieces[i].length > 1 && !same(cut->pieces[i], whole)) cut->pieces[(*count)++] = cut->pieces[i];
    return cut->pieces;
}
