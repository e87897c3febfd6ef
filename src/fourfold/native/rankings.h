/* What the files of the kernel share about rankings: results of calls, lists of hits, and columns of links and tags. */

#include <stddef.h>
#include <stdint.h>

#include "api.h"

enum { DONE = 0, DAMAGED = -1, NO_MEMORY = -2 };

/* One list: the hits that a retriever listed, and its scores of other items. Filled in by native/rankings.py. */
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

/* Links and tags as of one change. Filled in by native/rankings.py, field by field.

   Items, nodes and tags are numbered by their places. What changed since is in the `tail`, whose places continue those
   of the columns; its lists have numbers of both. A node or tag that changed has a new number: `moved_nodes` and
   `moved_tags` have it at the old one, or -1. An item that changed is in the items of the tail, too. */
typedef struct Columns {
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
    const double *ranks;       /* by tag: its place among all names of tags; NULL: its number */
    const struct Columns *tail; /* or NULL */
    const int32_t *moved_nodes, *moved_tags;
} Columns;

/* The postings of the terms in a range of hashes: the rows from `first_row` to `end_row` that contain each of them.
   Blocks are ordered by rows, then by hashes; those of the same rows have different hashes. */
typedef struct {
    int64_t first_row, end_row, term_count, posting_count;
    const uint32_t *hashes; /* ascending */
    const uint32_t *ends;   /* where the postings of each term end */
    const uint32_t *rows;   /* ascending for each term */
    const uint8_t *counts;  /* occurrences in each row, MANY for that many or more */
} Block;

enum { MANY = 255 };

/* Rows of an index, published or in the tail: the items that they belong to, and their terms or vectors. */
typedef struct {
    const int64_t *sorted, *order; /* as `ff_find` takes them, like the next two */
    const uint8_t *dead;
    int64_t row_count;
    const int64_t *ids;    /* by row */
    const void *content;   /* terms or numbers */
    const int64_t *ends;   /* of the terms of each row; NULL for vectors */
    int64_t size;          /* number of all terms, or of the numbers of one vector */
    const uint32_t *sums;
    const Block *blocks;   /* the terms by hash; none in the tail */
    int64_t block_count;
    const int32_t *lengths; /* of the rows, if there are blocks */
} Rows;

enum { PARTS = 2 };

/* What one list scores items by. Filled in by native/rankings.py; kernel.c describes the words of a query. */
typedef struct {
    Rows parts[PARTS];
    const float *vector; /* of the query; NULL: the parts hold terms */
    const uint32_t *hashes;
    const double *worth;
    const int32_t *same, *firsts;
    const double *idfs;
    int64_t words;
    double weight, average_length, k1, b, base_length;
    int64_t *ids;              /* results, with room for what is asked for in each part */
    double *scores, *coverage; /* the second of words only */
    int64_t count;
} Scoring;

int ff_score(Scoring *s, const int64_t *wanted, int64_t count);
API int ff_score_posted(
    const Scoring *s, const Rows *part, const int64_t *rows, int64_t count, double *scores, double *coverage);

/* What BM25 adds to the occurrences of a term in a text: `base`, and `slope` for each term of the text. Computed as in
   `text/bm25.py`, so that texts that tie there tie here. */
typedef struct {
    double base, slope;
} Norm;

static inline Norm norm_for(double average_length, double base_length, double k1, double b)
{
    const double slope = k1 * b / (average_length + base_length);
    const Norm norm = {k1 * (1 - b) + slope * base_length, slope};
    return norm;
}

/* The score of a term that occurs in a text. */
static inline double term_score(double worth, double occurrences, double length, Norm norm, double k1)
{
    return worth * (occurrences * (k1 + 1) / (occurrences + (norm.base + norm.slope * length)));
}

/* Codes of the vectors of all published rows: codes.c. Filled in by native/codes.py. */
typedef struct {
    const int8_t *codes;
    const float *scales, *errors; /* by row */
    double longest;               /* length of the longest vector */
} Codes;

/* A search for the rows nearest to the vector of a query. Filled in by native/bindings.py. */
typedef struct {
    const Scoring *scoring;
    const Codes *codes;         /* NULL: the cosines of all rows are computed */
    const int64_t *rows, *tail; /* of both parts; with codes, NULL stands for the first `row_count` published rows */
    int64_t row_count, tail_count, limit;
    int64_t *ids; /* results, with room for `limit` or the number of rows */
    double *scores;
    int64_t scored; /* result: rows whose cosines were computed */
    int64_t found;  /* result: their number, DAMAGED or NO_MEMORY */
    int64_t stage;  /* 0; set by worker.c */
} Nearest;

int64_t ff_likely_rows(
    const Codes *c, const Rows *part, const int64_t *rows, int64_t count, const float *query, int64_t limit, int64_t *chosen);
int64_t ff_nearest(Nearest *n);
API int64_t ff_best(
    const Scoring *s, const int64_t *published, int64_t published_count, const int64_t *tail, int64_t tail_count,
    int64_t limit, int64_t *ids, double *scores, double *coverage);

API int64_t ff_sums(const int64_t *ids, const double *values, int64_t count, int64_t *distinct, double *sums);
API int64_t ff_find(
    const int64_t *sorted, const int64_t *order, const uint8_t *dead, int64_t row_count, const int64_t *items,
    int64_t count, int64_t *rows);
API int ff_cosines(
    const float *matrix, int64_t row_count, int64_t dimension, const uint32_t *sums, const int64_t *rows, int64_t count,
    const float *query, double *cosines);
API int ff_bm25(
    const uint32_t *terms, int64_t term_count, const int64_t *ends, int64_t row_count,
    const int64_t *rows, int64_t count, const uint32_t *hashes, const double *worth, const int32_t *same, const int32_t *firsts,
    const double *idfs, int64_t words, double weight, double average_length, double k1, double b, double base_length,
    double *scores, double *coverage);
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
