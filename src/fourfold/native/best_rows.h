/* The best of rows that are found in any order: those that cannot be among them are removed now and then. */

#include <stdlib.h>
#include <string.h>

#include "rankings.h"

enum { SHARES = 2048, SHIFT = 44, SPARE = 4 };

/* Rows found so far, in any order; those that cannot be among the best `limit` are removed when there is no more room. */
typedef struct {
    const Rows *parts;
    int64_t *rows; /* published ones, and -1 - row for those of the tail */
    double *scores, *covered;
    int64_t count, limit, room;
    double least; /* what a score must have to be among the best */
} Best;

static uint64_t bits_of(double score)
{
    uint64_t bits;
    memcpy(&bits, &score, sizeof bits);
    return bits;
}

/* How far a score is below the highest one, in steps of at most 1/256 of it; both are above 0, where bits ascend. */
static uint64_t steps_below(uint64_t highest, double score)
{
    const uint64_t steps = (highest >> SHIFT) - (bits_of(score) >> SHIFT);
    return steps < SHARES ? steps : SHARES - 1;
}

static void move(Best *best, int64_t to, int64_t from)
{
    best->rows[to] = best->rows[from];
    best->scores[to] = best->scores[from];
    best->covered[to] = best->covered[from];
}

/* Removes entries that are not among the best `limit`: with few ties, all but some more than that many are removed. */
static void cut(Best *best)
{
    uint32_t counts[SHARES] = {0};
    uint64_t highest = 0, last = 0;
    int64_t kept = 0, better = 0;
    for (int64_t i = 0; i < best->count; i++)
        if (bits_of(best->scores[i]) > highest) highest = bits_of(best->scores[i]);
    for (int64_t i = 0; i < best->count; i++) counts[steps_below(highest, best->scores[i])]++;
    for (better = counts[0]; better < best->limit && last + 1 < SHARES; better += counts[last]) last++;
    for (int64_t i = 0; i < best->count; i++)
        if (steps_below(highest, best->scores[i]) <= last) move(best, kept++, i);
    best->count = kept;
}

static int64_t id_of(const Best *best, int64_t row)
{
    return row < 0 ? best->parts[1].ids[-1 - row] : best->parts[0].ids[row];
}

/* Sorts the entries, and keeps the best `limit`; returns DONE or NO_MEMORY. */
static int cut_exactly(Best *best)
{
    const int64_t kept = best->count < best->limit ? best->count : best->limit;
    int64_t *numbers = malloc((3 * (size_t)best->count + 1) * sizeof *numbers), *ids = numbers, *order = numbers + best->count;
    double *floats = malloc((2 * (size_t)best->count + 1) * sizeof *floats), *covered = floats + best->count;
    int result = numbers && floats ? DONE : NO_MEMORY;
    for (int64_t i = 0; i < best->count && result == DONE; i++) ids[i] = id_of(best, best->rows[i]);
    if (result == DONE) result = ff_order(ids, best->scores, best->count, order);
    if (result == DONE) {
        int64_t *const rows = order + best->count;
        memcpy(rows, best->rows, (size_t)best->count * sizeof *rows);
        memcpy(floats, best->scores, (size_t)best->count * sizeof *floats);
        memcpy(covered, best->covered, (size_t)best->count * sizeof *covered);
        for (int64_t i = 0; i < kept; i++) {
            best->rows[i] = rows[order[i]];
            best->scores[i] = floats[order[i]];
            best->covered[i] = covered[order[i]];
        }
        best->count = kept;
    }
    free(numbers);
    free(floats);
    return result;
}

/* Adds an entry with a score above 0; returns DONE or NO_MEMORY. */
static int offer(Best *best, int64_t row, double score, double covered)
{
    best->rows[best->count] = row;
    best->scores[best->count] = score;
    best->covered[best->count++] = covered;
    if (best->count < best->room) return DONE;
    cut(best);
    const int result = best->count > best->room / 2 ? cut_exactly(best) : DONE;
    best->least = best->scores[0];
    for (int64_t i = 1; i < best->count; i++)
        if (best->scores[i] < best->least) best->least = best->scores[i];
    return result;
}
