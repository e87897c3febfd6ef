/* Fusion of the lists of all retrievers into one ranking, with the contribution of every list to every item.

   The same arithmetic as `ranking/fusion.py` describes, in the same order, so that scores are equal to the last bit. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "rankings.h"
#include "table.h"

enum { COSINE = 0, ABSOLUTE = 1, BEST = 2 };

/* Scales cosines from the store's average to the best one; lower ones share the bottom (`below_share`) of the scale. */
static void cosine_values(
    const double *scores, int64_t count, double average, double below_share, double weight, double grid, double *values)
{
    double best = scores[0], worst = scores[0];
    for (int64_t i = 1; i < count; i++) {
        if (scores[i] > best) best = scores[i];
        if (scores[i] < worst) worst = scores[i];
    }
    if (best == worst) {
        for (int64_t i = 0; i < count; i++) values[i] = (weight + grid) - grid;
        return;
    }
    if (!(-1 < average && average < best)) average = worst;
    const double above = weight * (1 - below_share) / (best - average);
    const double space = 1 + average > 1e-9 ? 1 + average : 1e-9;
    const double below = weight * below_share / space, base = weight * below_share + grid;
    for (int64_t i = 0; i < count; i++)
        values[i] = ((scores[i] - average) * (scores[i] >= average ? above : below) + base) - grid;
}

/* Values in proportion to the scores: as they are, at most 1 (ABSOLUTE), or as shares of the best. */
static void share_values(const double *scores, int64_t count, int64_t scale, double weight, double grid, double *values)
{
    double best = 0.0;
    for (int64_t i = 0; i < count; i++)
        if (scores[i] > best) best = scores[i];
    for (int64_t i = 0; i < count; i++) {
        const double scaled = scale == ABSOLUTE ? weight * (scores[i] < 1.0 ? scores[i] : 1.0) : scores[i] * (weight / best);
        values[i] = (scaled + grid) - grid;
    }
}

/* Copies the hits of a list: a listed score takes precedence; scores of 0 and below do not count, except cosines. */
static int join(List *list, int64_t *ids, double *scores)
{
    const int keep_all = list->scale == COSINE;
    int64_t found = 0;
    for (int64_t i = 0; i < list->count; i++) {
        if (!keep_all && !(list->scores[i] > 0)) continue;
        ids[found] = list->ids[i];
        scores[found++] = list->scores[i];
    }
    list->listed = found;
    if (list->more_count) {
        const Table table = table_for(list->count);
        if (!table.slots) return NO_MEMORY;
        for (int64_t i = 0; i < list->count; i++) *slot_of(table, list->ids, list->ids[i]) = (int32_t)i + 1;
        for (int64_t i = 0; i < list->more_count; i++) {
            if (!keep_all && !(list->more_scores[i] > 0)) continue;
            if (*slot_of(table, list->ids, list->more_ids[i])) continue;
            ids[found] = list->more_ids[i];
            scores[found++] = list->more_scores[i];
        }
        free(table.slots);
    }
    list->length = found;
    return DONE;
}

/* Fuses lists. `ids`, `scores` and `values` receive what each list adds to which item, one list after the other, and
   `fused` and `totals` the ranking, best first, ties by id; all have room for all hits. Returns the ranking's length. */
API int64_t ff_fuse(
    List *lists, int64_t list_count, double average, double below_share, double grid, int64_t *ids, double *scores,
    double *values, int64_t *fused, double *totals)
{
    int64_t all = 0;
    for (int64_t l = 0; l < list_count; l++) {
        List *list = lists + l;
        if (join(list, ids + all, scores + all) != DONE) return NO_MEMORY;
        if (list->length && list->scale == COSINE)
            cosine_values(scores + all, list->length, average, below_share, list->weight, grid, values + all);
        else share_values(scores + all, list->length, list->scale, list->weight, grid, values + all);
        all += list->length;
    }
    const size_t room = (size_t)all + 1;
    int64_t *distinct = malloc(room * sizeof *distinct), *order = malloc(room * sizeof *order), found = NO_MEMORY;
    double *sums = malloc(room * sizeof *sums);
    if (distinct && order && sums) found = ff_sums(ids, values, all, distinct, sums);
    if (found > 0 && ff_order(distinct, sums, found, order) != DONE) found = NO_MEMORY;
    for (int64_t i = 0; i < found; i++) {
        fused[i] = distinct[order[i]];
        totals[i] = sums[order[i]];
    }
    free(distinct);
    free(order);
    free(sums);
    return found;
}

/* Writes the distinct ids that are not among the `known` ones, in the order in which they occur; returns their number. */
API int64_t ff_missing(const int64_t *ids, int64_t count, const int64_t *known, int64_t known_count, int64_t *missing)
{
    const Table listed = table_for(known_count), seen = table_for(count);
    int64_t found = listed.slots && seen.slots ? 0 : NO_MEMORY;
    for (int64_t i = 0; i < known_count && found == 0; i++) *slot_of(listed, known, known[i]) = (int32_t)i + 1;
    for (int64_t i = 0; i < count && found >= 0; i++) {
        if (*slot_of(listed, known, ids[i])) continue;
        int32_t *slot = slot_of(seen, missing, ids[i]);
        if (*slot) continue;
        missing[found++] = ids[i];
        *slot = (int32_t)found;
    }
    free(listed.slots);
    free(seen.slots);
    return found;
}

/* Counts the ids that are also in the other list; each list has an id once. Returns NO_MEMORY, too. */
API int64_t ff_common(const int64_t *ids, int64_t count, const int64_t *others, int64_t other_count)
{
    const Table listed = table_for(other_count);
    int64_t found = listed.slots ? 0 : NO_MEMORY;
    for (int64_t i = 0; i < other_count && found == 0; i++) *slot_of(listed, others, others[i]) = (int32_t)i + 1;
    for (int64_t i = 0; i < count && found >= 0; i++) found += *slot_of(listed, others, ids[i]) != 0;
    free(listed.slots);
    return found;
}

/* Numbers by id, in any order. Filled in by native/rankings.py. */
typedef struct {
    const int64_t *ids;
    const double *numbers;
    int64_t count;
    int64_t table; /* that it is a part of */
} Column;

/* Writes for each table the numbers of the wanted ids, NAN for a missing one, then its two highest numbers, at least 0;
   a later column of a table has precedence. For a few ids. */
API void ff_values_and_best(
    const Column *columns, int64_t column_count, const int64_t *wanted, int64_t count, double *found, int64_t tables)
{
    const int64_t width = count + 2;
    for (int64_t i = 0; i < tables * width; i++) found[i] = i % width < count ? NAN : 0;
    for (const Column *column = columns; column < columns + column_count; column++) {
        double *values = found + column->table * width, *best = values + count;
        for (int64_t w = 0; w < count; w++) {
            int64_t i = 0;
            while (i < column->count && column->ids[i] != wanted[w]) i++;
            if (i < column->count) values[w] = column->numbers[i];
        }
        for (int64_t i = 0; i < column->count; i++) {
            const double number = column->numbers[i];
            if (number <= best[1]) continue;
            best[1] = number > best[0] ? best[0] : number;
            if (number > best[0]) best[0] = number;
        }
    }
}
