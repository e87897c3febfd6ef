/* What texts say about their languages: votes of common words, and the features of a statistical model. */

#include <stdint.h>
#include <string.h>

#include "api.h"

enum { LONG_TEXT = 200 }; /* texts from this length on are split at white space only */

typedef struct {
    const uint8_t *letters; /* all words, concatenated */
    const uint32_t *ends;
    uint32_t *slots; /* 2^bits, each 1 + the index of a word */
    int64_t bits;
} Words;

static uint8_t small(uint8_t c) { return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c; }
static int is_space(uint8_t c) { return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31); }
static int is_sign(uint8_t c) { return !((c >= '0' && c <= '9') || (small(c) >= 'a' && small(c) <= 'z') || c == '_'); }

/* The slot of a word, or the free one for it. */
static uint32_t *slot_of(const Words *words, const uint8_t *word, int64_t length)
{
    const uint64_t mask = ((uint64_t)1 << words->bits) - 1;
    uint64_t hash = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < length; i++) hash = (hash ^ word[i]) * 0x100000001b3u;
    for (uint64_t at = hash ^ hash >> 32;; at++) {
        uint32_t *slot = words->slots + (at & mask);
        if (!*slot) return slot;
        const uint32_t begin = *slot > 1 ? words->ends[*slot - 2] : 0, end = words->ends[*slot - 1];
        if (end - begin == length && !memcmp(words->letters + begin, word, (size_t)length)) return slot;
    }
}

/* Fills the zeroed slots with `count` distinct words; there must be at least twice as many slots. */
API int64_t ff_votes_table(const uint8_t *letters, const uint32_t *ends, int64_t count, uint32_t *slots, int64_t bits)
{
    const Words words = {letters, ends, slots, bits};
    for (int64_t i = 0; i < count; i++) {
        const uint32_t begin = i ? ends[i - 1] : 0;
        *slot_of(&words, letters + begin, ends[i] - begin) = (uint32_t)i + 1;
    }
    return 0;
}

/* Like str.isupper. */
static int is_capital(const uint8_t *text, int64_t length)
{
    int capital = 0;
    for (int64_t i = 0; i < length; i++) {
        if (text[i] >= 'a' && text[i] <= 'z') return 0;
        capital |= text[i] >= 'A' && text[i] <= 'Z';
    }
    return capital;
}

/* Adds up the votes of the distinct words of each of `count` texts, each followed by a zero byte, for each language.

   Changes texts in capitals to lower case. `seen` has a zero for each word. */
API int64_t ff_votes(
    uint8_t *texts, int64_t length, int64_t count, const uint8_t *letters, const uint32_t *ends, uint32_t *slots,
    int64_t bits, uint32_t *seen, const uint32_t *ballots, int64_t languages, uint32_t *votes)
{
    const Words words = {letters, ends, slots, bits};
    int64_t start = 0;
    for (int64_t number = 0; number < count; number++, votes += languages) {
        const uint8_t *zero = memchr(texts + start, 0, (size_t)(length - start));
        if (!zero) return -1;
        const int64_t end = zero - texts, is_long = end - start >= LONG_TEXT;
        if (is_capital(texts + start, end - start))
            for (int64_t i = start; i < end; i++) texts[i] = small(texts[i]);
        for (int64_t at = start, begin = start; at <= end; at++) {
            if (at < end && !(is_long ? is_space(texts[at]) : is_sign(texts[at]))) continue;
            const uint32_t word = at > begin ? *slot_of(&words, texts + begin, at - begin) : 0;
            begin = at + 1;
            if (!word || seen[word - 1] == (uint32_t)number + 1) continue;
            seen[word - 1] = (uint32_t)number + 1;
            for (int64_t i = 0; i < languages; i++) votes[i] += ballots[(word - 1) * languages + i];
        }
        start = end + 1;
    }
    return start == length ? 0 : -1;
}

/* Finds the features of a model in a text: a walk through its automaton, in which some states stand for a feature.

   moves[256 * rows[state] + byte] is the next state. Writes each feature once, in the order of the text, and how often it
   occurs. `seen` has a zero for each feature, also afterwards. Returns the number of features; -1: a damaged model. */
API int64_t ff_features(
    const uint8_t *text, int64_t length, const uint32_t *moves, int64_t move_count, const uint32_t *rows,
    const int32_t *outputs, int64_t states, uint32_t *seen, int64_t features, int32_t *found, float *counts)
{
    uint32_t state = 0;
    int64_t distinct = 0, at = 0;
    for (; at < length; at++) {
        const uint64_t move = (uint64_t)rows[state] * 256 + text[at];
        if (move >= (uint64_t)move_count || moves[move] >= states || outputs[moves[move]] >= features) break;
        state = moves[move];
        const int32_t feature = outputs[state];
        if (feature < 0) continue;
        if (!seen[feature]) {
            found[distinct] = feature;
            counts[distinct] = 0;
            seen[feature] = (uint32_t)++distinct;
        }
        counts[seen[feature] - 1] += 1;
    }
    for (int64_t i = 0; i < distinct; i++) seen[found[i]] = 0;
    return at < length ? -1 : distinct;
}
