/* Inner loops of a search, in plain C99 without libraries, so that any compiler builds them for any platform.

   Doubles are added in the order written here and never fused (-ffp-contract=off), so all machines compute the same
   results. Positions read from files are checked before use; DAMAGED reports an invalid one. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "rankings.h"
#include "table.h"

enum { SPARSE = 16, AHEAD = 8, ROWS_AHEAD = 4, LINE = 64 };

/* Prefetches rows of mapped files, which are scattered, a few iterations before they are used: into the cache of the
   second level, which waits for more of them at a time than the first. */
static void prefetch(const void *start, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += LINE) __builtin_prefetch((const char *)start + at, 0, 2);
}

/* ---------------------------------------------------------------- words */

/* Computes BM25 scores of `count` rows, and their coverage: the share of the query's weight that the words in the row
   have. The terms of row r are terms[ends[r - 1]] to terms[ends[r]].

   Word w of the query has the variants firsts[w] to firsts[w + 1], each with the hash of its term, its value (`worth`)
   and the first variant with the same hash (`same`, mostly itself). Of the variants of a word, the one with the highest
   score in a row counts. */
API int ff_bm25(
    const uint32_t *terms, int64_t term_count, const int64_t *ends, int64_t row_count,
    const int64_t *rows, int64_t count, const uint32_t *hashes, const double *worth, const int32_t *same, const int32_t *firsts,
    const double *idfs, int64_t words, double weight, double average_length, double k1, double b, double base_length,
    double *scores, double *coverage)
{
    const int32_t variants = firsts[words];
    const Norm norm = norm_for(average_length, base_length, k1, b);
    const Table table = table_for(SPARSE * (int64_t)variants + 256); /* sparse: most terms miss at the first probe */
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
        if (i + 2 * AHEAD < count) prefetch(ends + rows[i + 2 * AHEAD], 1);
        if (i + AHEAD < count) {
            const int64_t next = rows[i + AHEAD], at = next ? ends[next - 1] : 0;
            if (at >= 0 && at < term_count) prefetch(terms + at, 8 * LINE);
        }
        const int64_t row = rows[i], begin = row ? ends[row - 1] : 0, end = ends[row];
        if (begin < 0 || begin > end || end > term_count) {
            result = DAMAGED;
            break;
        }
        memset(tf, 0, (size_t)variants * sizeof *tf);
        for (int64_t t = begin; t < end; t++) {
            const uint32_t term = terms[t];
            for (uint64_t at = term & table.mask; table.slots[at]; at = (at + 1) & table.mask) {
                if (hashes[table.slots[at] - 1] != term) continue;
                tf[table.slots[at] - 1] += 1.0;
                break;
            }
        }
        double total = 0.0, covered = 0.0;
        for (int64_t w = 0; w < words; w++) {
            double best = 0.0;
            for (int32_t v = firsts[w]; v < firsts[w + 1]; v++) {
                const double frequency = tf[same[v]];
                if (frequency == 0) continue;
                const double value = term_score(worth[v], frequency, (double)(end - begin), norm, k1);
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

/* ---------------------------------------------------------------- vectors */

/* Adds in eight lanes, whatever the vector width of the machine, so that all machines compute the same result. */
IN_EVERY_VARIANT double dot(const float *a, const double *b, int64_t n)
{
    double sums[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int lane = 0; lane < 8; lane++) sums[lane] += (double)a[i + lane] * b[i + lane];
    for (int lane = 0; i < n; i++, lane++) sums[lane] += (double)a[i] * b[i];
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

IN_EVERY_VARIANT uint32_t sum_of_bits(const float *row, int64_t n)
{
    uint32_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, row + i, sizeof bits);
        sum += bits;
    }
    return sum;
}

IN_EVERY_VARIANT int cosines_of(
    const float *matrix, int64_t dimension, const uint32_t *sums, const int64_t *rows, int64_t count, const double *query,
    double *cosines)
{
    const int64_t bytes = dimension * (int64_t)sizeof *matrix;
    for (int64_t i = 0; i < count; i++) {
        if (i + ROWS_AHEAD < count) prefetch(matrix + rows[i + ROWS_AHEAD] * dimension, bytes);
        if (sums && i + AHEAD < count) prefetch(sums + rows[i + AHEAD], 1);
        const float *vector = matrix + rows[i] * dimension;
        if (sums && sum_of_bits(vector, dimension) != sums[rows[i]]) return DAMAGED;
        cosines[i] = rint(dot(vector, query, dimension) * 1e6) / 1e6;
    }
    return DONE;
}

#ifdef HAS_AVX2_VARIANTS
WITH_AVX2 static int cosines_avx2(
    const float *matrix, int64_t dimension, const uint32_t *sums, const int64_t *rows, int64_t count, const double *query,
    double *cosines)
{
    return cosines_of(matrix, dimension, sums, rows, count, query, cosines);
}

WITH_VNNI static int cosines_avx512(
    const float *matrix, int64_t dimension, const uint32_t *sums, const int64_t *rows, int64_t count, const double *query,
    double *cosines)
{
    return cosines_of(matrix, dimension, sums, rows, count, query, cosines);
}
#endif

/* Computes the products of some rows of a matrix with a vector, rounded to six decimals, so that equal rows tie.
   `sums` (optional) are the checksums of the rows: the sums of their bits. */
API int ff_cosines(
    const float *matrix, int64_t row_count, int64_t dimension, const uint32_t *sums, const int64_t *rows, int64_t count,
    const float *query, double *cosines)
{
    for (int64_t i = 0; i < count; i++)
        if (rows[i] < 0 || rows[i] >= row_count) return DAMAGED;
    double *exact = malloc((size_t)dimension * sizeof *exact + 1);
    if (!exact) return NO_MEMORY;
    for (int64_t i = 0; i < dimension; i++) exact[i] = (double)query[i];
    int result;
#ifdef HAS_AVX2_VARIANTS
    if (ff_has_vnni) result = cosines_avx512(matrix, dimension, sums, rows, count, exact, cosines);
    else if (ff_has_avx2) result = cosines_avx2(matrix, dimension, sums, rows, count, exact, cosines);
    else
#endif
        result = cosines_of(matrix, dimension, sums, rows, count, exact, cosines);
    free(exact);
    return result;
}

/* ---------------------------------------------------------------- rankings */

enum { ID, SCORE, KEYS, DIGITS = 8, VALUES = 256 };

/* What an entry is sorted by, as numbers that ascend where the order does, and where it was. */
typedef struct {
    uint64_t keys[KEYS];
    int64_t index;
} Entry;

/* A number that falls as the score rises. */
static uint64_t falling(double score)
{
    uint64_t bits;
    score += 0.0; /* -0.0 becomes 0.0 */
    memcpy(&bits, &score, sizeof bits);
    return bits >> 63 ? bits : ~bits & ~((uint64_t)1 << 63);
}

/* Sorts by a key, byte by byte: no two entries are compared. Equal ones stay in their order. Returns where they are. */
static Entry *sort_by(int key, Entry *from, Entry *to, int64_t count)
{
    uint32_t places[DIGITS][VALUES] = {{0}};
    for (int64_t i = 0; i < count; i++)
        for (int digit = 0; digit < DIGITS; digit++) places[digit][from[i].keys[key] >> 8 * digit & (VALUES - 1)]++;
    for (int digit = 0; digit < DIGITS && count; digit++) {
        uint32_t *const place = places[digit], at = 0;
        if (place[from[0].keys[key] >> 8 * digit & (VALUES - 1)] == count) continue; /* the same in all */
        for (int value = 0; value < VALUES; value++) {
            const uint32_t found = place[value];
            place[value] = at;
            at += found;
        }
        for (int64_t i = 0; i < count; i++) to[place[from[i].keys[key] >> 8 * digit & (VALUES - 1)]++] = from[i];
        Entry *const sorted = to;
        to = from;
        from = sorted;
    }
    return from;
}

/* Sorts indexes by score, best first, ties by id. */
API int ff_order(const int64_t *ids, const double *scores, int64_t count, int64_t *order)
{
    if (count > INT32_MAX) return NO_MEMORY;
    Entry *entries = malloc((2 * (size_t)count + 1) * sizeof *entries), *sorted = entries;
    if (!entries) return NO_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        const Entry entry = {{(uint64_t)ids[i] ^ (uint64_t)1 << 63, falling(scores[i])}, i};
        entries[i] = entry;
    }
    sorted = sort_by(SCORE, entries, entries + count, count);
    int ties = 0;
    for (int64_t i = 1; i < count; i++)
        ties |= (sorted[i].keys[SCORE] == sorted[i - 1].keys[SCORE]) & (sorted[i].keys[ID] < sorted[i - 1].keys[ID]);
    if (ties) {
        sorted = sort_by(ID, sorted, sorted == entries ? entries + count : entries, count);
        sorted = sort_by(SCORE, sorted, sorted == entries ? entries + count : entries, count);
    }
    for (int64_t i = 0; i < count; i++) order[i] = sorted[i].index;
    free(entries);
    return DONE;
}

/* Adds up the values of each id; returns the number of distinct ids. `distinct` and `sums` have room for `count`. */
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

/* Writes the index of the first occurrence of each wanted id in `ids`, -1 for a missing one. For a few ids. */
API void ff_places(const int64_t *ids, int64_t count, const int64_t *wanted, int64_t wanted_count, int64_t *places)
{
    for (int64_t w = 0; w < wanted_count; w++) {
        int64_t i = 0;
        while (i < count && ids[i] != wanted[w]) i++;
        places[w] = i < count ? i : -1;
    }
}

/* Writes the live row of each item that has one; returns their number. `sorted` are the items of all rows in order,
   `order` the row of each of these; of equal items the last one is the newest. `rows` has room for `count`. */
API int64_t ff_find(
    const int64_t *sorted, const int64_t *order, const uint8_t *dead, int64_t row_count, const int64_t *items,
    int64_t count, int64_t *rows)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t low = 0, high = row_count; /* the first greater item lies between them */
        const int64_t item = items[i];
        /* The item's index if ids have no gaps; unsigned, since the difference may exceed INT64_MAX. */
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
