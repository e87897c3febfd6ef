/* The language of each of many texts: a linear model over parts of words, whose weights lie in a hashed table. */

#include <stdint.h>
#include <string.h>

#include "api.h"

enum {
    LANGUAGES = 48,
    READ_BYTES = 300, /* of the beginning of each text */
    PART_CHARACTERS = 4
};

static int continues(uint8_t byte) { return (byte & 0xC0) == 0x80; }

/* The number of bytes of the character that begins here if it is not part of a word, else 0. The text is lower-case. */
static int64_t separator(const uint8_t *text)
{
    if (*text < 0x80) return *text < 'a' || *text > 'z';
    if (*text == 0xC2) return 2; /* U+0080 to U+00BF */
    if (*text == 0xE2 && (text[1] == 0x80 || text[1] == 0x81)) return 3; /* U+2000 to U+207F */
    return *text == 0xE3 && text[1] == 0x80 ? 3 : 0; /* U+3000 to U+303F */
}

/* Copies the words of a text with a space before and after each. Returns the number of bytes, followed by a zero. */
static int64_t spaced_words(const uint8_t *text, int64_t length, uint8_t *words)
{
    int64_t end = 0, at = 0;
    words[end++] = ' ';
    while (at < length && (at < READ_BYTES || continues(text[at]))) {
        const int64_t skipped = separator(text + at);
        at += skipped;
        if (!skipped)
            words[end++] = text[at++];
        else if (words[end - 1] != ' ')
            words[end++] = ' ';
    }
    if (words[end - 1] != ' ') words[end++] = ' ';
    words[end] = 0;
    return end;
}

typedef struct {
    const int8_t *weights; /* rows of LANGUAGES */
    uint64_t mask;
    int16_t recent[LANGUAGES]; /* of as many rows as 16 bits hold: adding to them takes half the time */
    int32_t recent_rows, scores[LANGUAGES];
} Sums;

static void add_recent(Sums *sums)
{
    for (int i = 0; i < LANGUAGES; i++) sums->scores[i] += sums->recent[i];
    memset(sums->recent, 0, sizeof sums->recent);
    sums->recent_rows = 0;
}

static void add(Sums *sums, uint32_t hash)
{
    const int8_t *row = sums->weights + ((hash ^ hash >> 16) & sums->mask) * LANGUAGES;
    for (int i = 0; i < LANGUAGES; i++) sums->recent[i] = (int16_t)(sums->recent[i] + row[i]);
    if (++sums->recent_rows == INT16_MAX / 128) add_recent(sums);
}

/* Adds the weights of every part of 1 to PART_CHARACTERS characters, and of every whole word; spaces are characters. */
static void add_parts(const uint8_t *words, int64_t length, Sums *sums)
{
    for (int64_t start = 0; start + 1 < length; start++) {
        if (continues(words[start])) continue;
        const int is_first = words[start] == ' ';
        uint32_t hash = 0x811c9dc5u;
        for (int64_t at = start, characters = 0;; at++) {
            hash = (hash ^ words[at]) * 0x01000193u;
            if (continues(words[at + 1])) continue;
            const int ends = at > start && words[at] == ' ';
            characters++;
            if (characters <= PART_CHARACTERS ? at > start || !is_first : ends) add(sums, hash);
            if (ends || (characters >= PART_CHARACTERS && !is_first)) break;
        }
    }
    add_recent(sums);
}

/* Finds the best language of each of `count` texts (UTF-8, lower-case, each followed by a zero byte), and the lead of its
   score over that of the second. `weights` has 2^bits rows, `priors` the scores of a text without words. */
API int64_t ff_languages(
    const uint8_t *texts, int64_t length, int64_t count, const int8_t *weights, int64_t bits, const int32_t *priors,
    uint8_t *best, int32_t *leads)
{
    uint8_t words[2 * READ_BYTES];
    Sums sums = {weights, ((uint64_t)1 << bits) - 1, {0}, 0, {0}};
    for (int64_t number = 0; number < count; number++) {
        const uint8_t *zero = memchr(texts, 0, (size_t)length);
        if (!zero) return -1;
        memcpy(sums.scores, priors, sizeof sums.scores);
        add_parts(words, spaced_words(texts, zero - texts, words), &sums);
        int32_t second = INT32_MIN;
        int first = 0;
        for (int i = 1; i < LANGUAGES; i++)
            if (sums.scores[i] > sums.scores[first]) first = i;
        for (int i = 0; i < LANGUAGES; i++)
            if (i != first && sums.scores[i] > second) second = sums.scores[i];
        best[number] = (uint8_t)first;
        leads[number] = sums.scores[first] - second;
        length -= zero + 1 - texts;
        texts = zero + 1;
    }
    return 0;
}
