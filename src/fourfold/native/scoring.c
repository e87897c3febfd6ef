/* Scores of items and of rows by what one query asks for: cosines with its vector, or BM25 of its words. */

#include <stdlib.h>

#include "rankings.h"

/* Scores rows of a part; returns DONE, DAMAGED or NO_MEMORY. */
static int score_rows(
    const Scoring *s, const Rows *part, const int64_t *rows, int64_t count, double *scores, double *coverage)
{
    if (s->vector)
        return ff_cosines(part->content, part->row_count, part->size, part->sums, rows, count, s->vector, scores);
    return ff_bm25(
        part->content, part->size, part->ends, part->row_count, rows, count, s->hashes, s->worth, s->same,
        s->firsts, s->idfs, s->words, s->weight, s->average_length, s->k1, s->b, s->base_length, scores, coverage);
}

/* Scores items, of which some may have no row; returns DONE, DAMAGED or NO_MEMORY. */
int ff_score(Scoring *s, const int64_t *wanted, int64_t count)
{
    int64_t *rows = malloc(((size_t)count + 1) * sizeof *rows);
    int result = rows ? DONE : NO_MEMORY;
    s->count = 0;
    for (int p = 0; p < PARTS && result == DONE; p++) {
        const Rows *part = s->parts + p;
        if (!part->row_count) continue;
        const int64_t found = ff_find(part->sorted, part->order, part->dead, part->row_count, wanted, count, rows);
        double *const scores = s->scores + s->count, *const coverage = s->coverage + s->count;
        if (found < 0) result = DAMAGED;
        else if (part->block_count) result = ff_score_posted(s, part, rows, found, scores, coverage);
        else result = score_rows(s, part, rows, found, scores, coverage);
        for (int64_t i = 0; i < found && result == DONE; i++) s->ids[s->count++] = part->ids[rows[i]];
    }
    free(rows);
    return result;
}

/* Writes the items of the best `limit` of some rows of both parts, with scores and, for words, coverage: best first,
   ties by id. Rows without any of the words do not count. Returns how many were written, DAMAGED or NO_MEMORY. */
API int64_t ff_best(
    const Scoring *s, const int64_t *published, int64_t published_count, const int64_t *tail, int64_t tail_count,
    int64_t limit, int64_t *ids, double *scores, double *coverage)
{
    const int64_t *const rows[PARTS] = {published, tail}, counts[PARTS] = {published_count, tail_count};
    const size_t room = (size_t)(published_count + tail_count) + 1;
    int64_t *items = malloc(room * sizeof *items), *order = malloc(room * sizeof *order), all = 0, found = 0;
    double *values = malloc(room * sizeof *values), *covered = malloc(room * sizeof *covered);
    int result = items && order && values && covered ? DONE : NO_MEMORY;
    for (int p = 0; p < PARTS && result == DONE; p++) {
        result = score_rows(s, s->parts + p, rows[p], counts[p], values + all, covered + all);
        for (int64_t i = 0; i < counts[p] && result == DONE; i++) items[all++] = s->parts[p].ids[rows[p][i]];
    }
    if (result == DONE) result = ff_order(items, values, all, order);
    for (int64_t i = 0; i < all && found < limit && result == DONE; i++) {
        const int64_t at = order[i];
        if (!s->vector && !(values[at] > 0)) continue;
        ids[found] = items[at];
        scores[found] = values[at];
        if (!s->vector) coverage[found] = covered[at];
        found++;
    }
    free(items);
    free(order);
    free(values);
    free(covered);
    return result == DONE ? found : result;
}

/* Writes the items of the `limit` rows nearest to the vector of the query, best first, ties by id. Codes rule out most
   published rows. Sets and returns how many were written, DAMAGED or NO_MEMORY. */
int64_t ff_nearest(Nearest *n)
{
    const int64_t *rows = n->rows;
    int64_t count = n->row_count, *likely = NULL;
    if (n->codes) {
        likely = malloc(((size_t)count + 1) * sizeof *likely);
        count = likely ? ff_likely_rows(n->codes, n->scoring->parts, rows, count, n->scoring->vector, n->limit, likely)
                       : NO_MEMORY;
        rows = likely;
    }
    n->found = count < 0 ? count : ff_best(n->scoring, rows, count, n->tail, n->tail_count, n->limit, n->ids, n->scores, NULL);
    n->scored = n->found < 0 ? 0 : count + n->tail_count;
    free(likely);
    return n->found;
}
