/* The inner loops of a search: plain C99 without any library, so that every compiler makes it, for every platform.

   All numbers are doubles, added in the order that is written here and never fused (-ffp-contract=off), so every machine
   has the same ones. What comes from files is checked before it is followed: DAMAGED says that it was wrong. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"

enum { DONE = 0, DAMAGED = -1, NO_MEMORY = -2, FEW = 16, AHEAD = 8, LINE = 64 };

/* Rows lie anywhere in files that are mapped: those that come soon are asked for while others are worked on. */
static void ask_for(const void *start, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += LINE) __builtin_prefetch((const char *)start + at);
}

/* A table of numbers above 0, at most half full. */
typedef struct {
    int32_t *slots;
    uint64_t mask;
} Table;

static Table table_for(int64_t count)
{
    uint64_t size = 16;
    while (size < 2 * (uint64_t)count) size *= 2;
    const Table made = {calloc(size, sizeof(int32_t)), size - 1};
    return made;
}

/* ---------------------------------------------------------------- words */

/* BM25 of `count` rows, and the share of the query's weight that the words in each of them have: where a row's terms end
   is in `ends`, and they are in `terms`.

   Word w of the query has the variants firsts[w] to firsts[w + 1], each with the hash of its term and its worth, and in
   `same` the first variant with the same hash, mostly itself. Of the variants of a word, the one that is worth most in a
   row counts there. `sums`, if there are any: what the terms of each row must add up to. */
API int ff_bm25(
    const uint32_t *terms, int64_t term_count, const int64_t *ends, const uint32_t *sums, int64_t row_count,
    const int64_t *rows, int64_t count, const uint32_t *hashes, const double *worth, const int32_t *same, const int32_t *firsts,
    const double *idfs, int64_t words, double weight, double average_length, double k1, double b, double base_length,
    double *scores, double *coverage)
{
    const int32_t variants = firsts[words];
    const Table table = table_for(FEW * (int64_t)variants + 256); /* most terms of a text are not in it: one look says so */
    double *tf = malloc((size_t)(variants + 1) * sizeof *tf);
    int result = table.slots && tf ? DONE : NO_MEMORY;
    for (int32_t v = 0; v < variants && result == DONE; v++) {
        if (same[v] != v) continue;
        uint64_t at = hashes[v] & table.mask;
        while (table.slots[at]) at = (at + 1) & table.mask;
        table.slots[at] = v + 1;
    }
    for (int64_t i = 0; i < count && result == DONE; i++)
        if (rows[i] < 0 || rows[i] >= row_count) result = DAMAGED;
    for (int64_t i = 0; i < count && result == DONE; i++) {
        if (i + 2 * AHEAD < count) ask_for(ends + rows[i + 2 * AHEAD], 1);
        if (i + AHEAD < count) {
            const int64_t next = rows[i + AHEAD], at = next ? ends[next - 1] : 0;
            if (at >= 0 && at < term_count) ask_for(terms + at, 4 * LINE);
        }
        const int64_t row = rows[i], begin = row ? ends[row - 1] : 0, end = ends[row];
        if (begin < 0 || begin > end || end > term_count) {
            result = DAMAGED;
            break;
        }
        memset(tf, 0, (size_t)variants * sizeof *tf);
        uint32_t sum = 0;
        for (int64_t t = begin; t < end; t++) {
            const uint32_t term = terms[t];
            sum += term;
            for (uint64_t at = term & table.mask; table.slots[at]; at = (at + 1) & table.mask) {
                if (hashes[table.slots[at] - 1] != term) continue;
                tf[table.slots[at] - 1] += 1.0;
                break;
            }
        }
        if (sums && sum != sums[row]) {
            result = DAMAGED;
            break;
        }
        const double relative = ((double)(end - begin) + base_length) / (average_length + base_length);
        const double norm = k1 * (1 - b + b * relative);
        double total = 0.0, covered = 0.0;
        for (int64_t w = 0; w < words; w++) {
            double best = 0.0;
            for (int32_t v = firsts[w]; v < firsts[w + 1]; v++) {
                const double often = tf[same[v]];
                const double value = worth[v] * (often * (k1 + 1) / (often + norm));
                if (value > best) best = value;
            }
            total += best;
            if (best > 0) covered += idfs[w];
        }
        scores[i] = total;
        coverage[i] = covered / weight;
    }
    free(table.slots);
    free(tf);
    return result;
}

/* What the terms of each row add up to: `ends` says where each row's terms end. */
API int ff_term_sums(const uint32_t *terms, int64_t term_count, const int64_t *ends, int64_t row_count, uint32_t *sums)
{
    int64_t begin = 0;
    for (int64_t row = 0; row < row_count; row++) {
        const int64_t end = ends[row];
        if (begin > end || end > term_count) return DAMAGED;
        uint32_t sum = 0;
        for (int64_t t = begin; t < end; t++) sum += terms[t];
        sums[row] = sum;
        begin = end;
    }
    return DONE;
}

/* ---------------------------------------------------------------- vectors */

/* In eight sums, whatever the machine could do at once: so it is the same on all of them. */
static double dot(const float *a, const float *b, int64_t n)
{
    double sums[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int lane = 0; lane < 8; lane++) sums[lane] += (double)a[i + lane] * (double)b[i + lane];
    for (int lane = 0; i < n; i++, lane++) sums[lane] += (double)a[i] * (double)b[i];
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

static uint32_t sum_of_bits(const float *row, int64_t n)
{
    uint32_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, row + i, sizeof bits);
        sum += bits;
    }
    return sum;
}

/* Products of some rows of a matrix with a vector, rounded to six decimals, so that equal rows tie wherever they lie.
   `sums`, if there are any: what the bits of each row must add up to. */
API int ff_cosines(
    const float *matrix, int64_t row_count, int64_t dimension, const uint32_t *sums, const int64_t *rows, int64_t count,
    const float *query, double *cosines)
{
    const int64_t bytes = dimension * (int64_t)sizeof *matrix;
    for (int64_t i = 0; i < count; i++)
        if (rows[i] < 0 || rows[i] >= row_count) return DAMAGED;
    for (int64_t i = 0; i < count; i++) {
        if (i + 2 < count) ask_for(matrix + rows[i + 2] * dimension, bytes);
        if (sums && i + AHEAD < count) ask_for(sums + rows[i + AHEAD], 1);
        const float *vector = matrix + rows[i] * dimension;
        if (sums && sum_of_bits(vector, dimension) != sums[rows[i]]) return DAMAGED;
        cosines[i] = rint(dot(vector, query, dimension) * 1e6) / 1e6;
    }
    return DONE;
}

/* ---------------------------------------------------------------- rankings */

/* Whether a comes before b: the better score, of equal ones the smaller id. */
static int before(const double *scores, const int64_t *ids, int64_t a, int64_t b)
{
    return scores[a] > scores[b] || (scores[a] == scores[b] && ids[a] < ids[b]);
}

/* The places of all scores in order, best first: merged from the bottom up, since lists are short or in order already. */
API int ff_order(const int64_t *ids, const double *scores, int64_t count, int64_t *order)
{
    int64_t *spare = malloc((size_t)(count + 1) * sizeof *spare), *from = order, *to = spare;
    if (!spare) return NO_MEMORY;
    for (int64_t i = 0; i < count; i++) order[i] = i;
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t begin = 0; begin < count; begin += 2 * width) {
            const int64_t middle = begin + width < count ? begin + width : count;
            const int64_t end = middle + width < count ? middle + width : count;
            int64_t left = begin, right = middle;
            for (int64_t i = begin; i < end; i++) {
                const int is_left = left < middle && (right >= end || !before(scores, ids, from[right], from[left]));
                to[i] = is_left ? from[left++] : from[right++];
            }
        }
        int64_t *const swapped = from;
        from = to;
        to = swapped;
    }
    if (from != order) memcpy(order, from, (size_t)count * sizeof *order);
    free(spare);
    return DONE;
}

/* Where an id stands in the table, or belongs: what is in a slot is 1 + its place among the ids. */
static int32_t *slot_of(Table table, const int64_t *ids, int64_t id)
{
    uint64_t at = (((uint64_t)id * 0x9E3779B97F4A7C15u) >> 20) & table.mask;
    while (table.slots[at] && ids[table.slots[at] - 1] != id) at = (at + 1) & table.mask;
    return table.slots + at;
}

/* Adds up the values of each id; how many ids there are. `distinct` and `sums` have room for `count`. */
API int64_t ff_sums(const int64_t *ids, const double *values, int64_t count, int64_t *distinct, double *sums)
{
    const Table table = table_for(count);
    if (!table.slots) return NO_MEMORY;
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t *slot = slot_of(table, distinct, ids[i]);
        if (!*slot) {
            distinct[found] = ids[i];
            sums[found] = 0.0;
            *slot = (int32_t)++found;
        }
        sums[*slot - 1] += values[i];
    }
    free(table.slots);
    return found;
}

/* Each id once, in the order of their first places; how many there are. `distinct` has room for `count`. */
API int64_t ff_distinct(const int64_t *ids, int64_t count, int64_t *distinct)
{
    const Table table = table_for(count);
    if (!table.slots) return NO_MEMORY;
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t *slot = slot_of(table, distinct, ids[i]);
        if (*slot) continue;
        distinct[found] = ids[i];
        *slot = (int32_t)++found;
    }
    free(table.slots);
    return found;
}

/* Where each of a few wanted ids first stands among `ids`; -1 where it does not. */
API void ff_places(const int64_t *ids, int64_t count, const int64_t *wanted, int64_t wanted_count, int64_t *places)
{
    for (int64_t w = 0; w < wanted_count; w++) {
        int64_t i = 0;
        while (i < count && ids[i] != wanted[w]) i++;
        places[w] = i < count ? i : -1;
    }
}

/* The live rows of items, at most one each: `sorted` are the items of all rows in order, `order` the rows that these
   are, of equal ones the last is the newest. How many were found; `rows` has room for `count`. */
API int64_t ff_find(
    const int64_t *sorted, const int64_t *order, const uint8_t *dead, int64_t row_count, const int64_t *items,
    int64_t count, int64_t *rows)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t low = 0, high = row_count; /* what is above the item begins between them */
        const int64_t item = items[i];
        /* Where no number is missing, this is the item's place; unsigned, since the difference may exceed INT64_MAX. */
        const uint64_t guess = row_count ? (uint64_t)item - (uint64_t)sorted[0] : 0;
        if (row_count > 1 && guess < (uint64_t)row_count - 1 && sorted[guess] == item && sorted[guess + 1] > item) {
            low = high = (int64_t)guess + 1;
        }
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (sorted[middle] <= item) low = middle + 1;
            else high = middle;
        }
        if (!low || sorted[low - 1] != item) continue;
        const int64_t row = order[low - 1];
        if (row < 0 || row >= row_count) return DAMAGED;
        if (!dead[row]) rows[found++] = row;
    }
    return found;
}
