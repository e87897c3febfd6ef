/* From the lists of vectors and words to what is found from their best hits, in one call: the items that links and tags
   lead to, the items that each list lacks, and their scores. `ranking/fusion.py` describes the steps. */

#include <stdlib.h>
#include <string.h>

#include "rankings.h"

enum { TEXTS = 2 };

/* Filled in by native/fusion.py, field by field. */
typedef struct {
    List texts[TEXTS]; /* of vectors and words; a list may be empty */
    double average, below_share, grid;
    const int64_t *named; /* what the query names, with strengths */
    const double *named_strengths;
    int64_t named_count;
    int64_t most_starts; /* best hits that a walk starts from */
    double best_hit, least_start;
    int64_t walks;
    double nearness[3]; /* of a walk */
    int64_t shares_tags;
    const int64_t *allowed;
    int64_t allowed_count, limit;
    const int64_t *others; /* ids that other retrievers listed */
    int64_t other_count;
    Scoring *scoring[TEXTS]; /* NULL: the list does not score what it lacks */
    int64_t *numbers;        /* results, in rows of `room`: WALK, SHARED, of each list UNLISTED, and of each SCORED */
    double *floats;          /* scores of the first two, then of each list scores and coverage of what it lacks */
    int64_t room;            /* PARTS times that for all ids, because each part of an index may have an item */
    int64_t start_count, walk_count, shared_count, unlisted_counts[TEXTS];
} Expansion;

enum { WALK, SHARED, UNLISTED, SCORED = UNLISTED + TEXTS };

typedef struct {
    int64_t *ids;
    double *strengths;
    int64_t count;
} Starts;

/* Adds a start, or raises the strength of one that is there. */
static void start_at(Starts *starts, int64_t id, double strength)
{
    for (int64_t s = 0; s < starts->count; s++) {
        if (starts->ids[s] != id) continue;
        if (strength > starts->strengths[s]) starts->strengths[s] = strength;
        return;
    }
    starts->ids[starts->count] = id;
    starts->strengths[starts->count++] = strength;
}

/* The best hits by text, whose strength falls with the square of their score, and what the query names. */
static void find_starts(const Expansion *e, const int64_t *fused, const double *totals, int64_t count, Starts *starts)
{
    for (int64_t i = 0; i < count && i < e->most_starts; i++) {
        const double share = totals[i] / totals[0], strength = e->best_hit * (share * share);
        if (totals[i] > 0 && strength >= e->least_start) start_at(starts, fused[i], strength);
    }
    for (int64_t i = 0; i < e->named_count; i++) start_at(starts, e->named[i], e->named_strengths[i]);
}

/* Writes all ids that were listed, one list after the other; returns their number. */
static int64_t all_listed(const Expansion *e, int64_t *every)
{
    int64_t count = 0;
    for (int t = 0; t < TEXTS; t++)
        for (int64_t i = 0; i < e->texts[t].count; i++) every[count++] = e->texts[t].ids[i];
    for (int64_t i = 0; i < e->other_count; i++) every[count++] = e->others[i];
    for (int64_t i = 0; i < e->walk_count; i++) every[count++] = e->numbers[WALK * e->room + i];
    for (int64_t i = 0; i < e->shared_count; i++) every[count++] = e->numbers[SHARED * e->room + i];
    return count;
}

/* Expands; returns DONE, DAMAGED or NO_MEMORY. */
API int64_t ff_expand(Expansion *e, const Columns *c)
{
    List acting[TEXTS];
    int64_t listed = 0, list_count = 0, result = DONE;
    for (int t = 0; t < TEXTS; t++) {
        listed += e->texts[t].count;
        if (e->texts[t].count && e->texts[t].weight > 0) acting[list_count++] = e->texts[t];
    }
    const size_t room = (size_t)(listed + e->other_count + 2 * e->limit + 1);
    const size_t start_room = (size_t)(e->most_starts + e->named_count + 1);
    int64_t *numbers = malloc((2 * room + start_room) * sizeof *numbers);
    double *floats = malloc((3 * room + start_room) * sizeof *floats);
    Starts starts = {numbers ? numbers + 2 * room : NULL, floats ? floats + 3 * room : NULL, 0};
    if (!numbers || !floats) result = NO_MEMORY;
    e->start_count = e->walk_count = e->shared_count = 0;
    if (result == DONE) {
        int64_t *fused = numbers + room;
        double *totals = floats + 2 * room;
        result = ff_fuse(
            acting, list_count, e->average, e->below_share, e->grid, numbers, floats, floats + room, fused, totals);
        if (result >= 0) find_starts(e, fused, totals, result, &starts);
        e->start_count = starts.count;
    }
    if (result >= 0 && starts.count && e->walks)
        result = e->walk_count = ff_walk(
            c, starts.ids, starts.strengths, starts.count, e->nearness, e->allowed, e->allowed_count, e->limit,
            e->numbers + WALK * e->room, e->floats + WALK * e->room);
    if (result >= 0 && starts.count && e->shares_tags)
        result = e->shared_count = ff_shared(
            c, starts.ids, starts.strengths, starts.count, e->allowed, e->allowed_count, e->limit,
            e->numbers + SHARED * e->room, e->floats + SHARED * e->room);
    const int64_t count = result >= 0 ? all_listed(e, numbers) : 0;
    for (int t = 0; t < TEXTS && result >= 0; t++) {
        int64_t *unlisted = e->numbers + (UNLISTED + t) * e->room;
        result = e->unlisted_counts[t] = ff_missing(numbers, count, e->texts[t].ids, e->texts[t].count, unlisted);
    }
    for (int t = 0; t < TEXTS && result >= 0; t++) {
        Scoring *scoring = e->scoring[t];
        if (!scoring) continue;
        scoring->ids = e->numbers + (SCORED + t) * e->room;
        scoring->scores = e->floats + (2 + 2 * t) * e->room;
        scoring->coverage = scoring->scores + e->room;
        result = ff_score(scoring, e->numbers + (UNLISTED + t) * e->room, e->unlisted_counts[t]);
    }
    free(numbers);
    free(floats);
    return result < 0 ? result : DONE;
}

/* The sizes of what Python fills in, by which it recognises a library that is older than itself. */
API int64_t ff_size_of(int64_t which)
{
    static const int64_t sizes[] = {
        sizeof(List), sizeof(Columns), sizeof(Scoring), sizeof(Expansion), sizeof(Codes), sizeof(Nearest), sizeof(Block)};
    return which >= 0 && which < (int64_t)(sizeof sizes / sizeof *sizes) ? sizes[which] : -1;
}
