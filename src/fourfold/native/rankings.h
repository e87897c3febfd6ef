/* What the files of the kernel share about rankings: results of calls, lists of hits, and columns of links and tags. */

#include <stddef.h>
#include <stdint.h>

#include "api.h"

enum { DONE = 0, DAMAGED = -1, NO_MEMORY = -2 };

/* One list: the hits that a retriever listed, and its scores of other items. Filled in by native/fusion.py. */
typedef struct {
    const int64_t *ids, *more_ids;
    const double *scores, *more_scores;
    int64_t count, more_count;
    int64_t scale;
    double weight;
    int64_t length, listed; /* results: items of this list, and how many of them were listed */
} List;

/* A list of places for each number: that of number n is members[ends[n - 1]] to members[ends[n]]. */
typedef struct {
    const int64_t *ends;
    const int32_t *members;
} Lists;

/* Filled in by native/links.py, field by field. */
typedef struct {
    int64_t item_count, node_count, tag_count;
    const int64_t *items;      /* ids, ascending */
    const int64_t *nodes;      /* ids, ascending */
    const int32_t *holders;    /* by node: items whose title or heading it is */
    const int32_t *mentioned;  /* by node: items that mention it */
    const int32_t *degrees;    /* by node: edges */
    const int32_t *uses;       /* by tag: items that carry it */
    Lists own, said, tags;     /* by item: its nodes, the nodes that it mentions, its tags */
    Lists owners, speakers;    /* by node: the items of the first two */
    Lists neighbours;          /* by node, heaviest edge first, ties by the neighbour's number */
    const double *weights;     /* of the edges */
    Lists users;               /* by tag */
    int64_t hub, most_edges, most_uses;
} Columns;

API int64_t ff_sums(const int64_t *ids, const double *values, int64_t count, int64_t *distinct, double *sums);
API int ff_order(const int64_t *ids, const double *scores, int64_t count, int64_t *order);
API int64_t ff_fuse(
    List *lists, int64_t list_count, double average, double below_share, double grid, int64_t *ids, double *scores,
    double *values, int64_t *fused, double *totals);
API int64_t ff_missing(const int64_t *ids, int64_t count, const int64_t *known, int64_t known_count, int64_t *missing);
API int64_t ff_walk(
    const Columns *c, const int64_t *starts, const double *strengths, int64_t start_count, const double *nearness,
    const int64_t *allowed, int64_t allowed_count, int64_t limit, int64_t *ids, double *scores);
API int64_t ff_shared(
    const Columns *c, const int64_t *starts, const double *strengths, int64_t start_count, const int64_t *allowed,
    int64_t allowed_count, int64_t limit, int64_t *ids, double *scores);
