/* Links and tags of items as columns: the walk from some items, and the items that share tags with them.

   Items, nodes and tags are numbered by their place in a sorted column. A list of places per item, node or tag lies in
   one column; the list of number n is members[ends[n - 1]] to members[ends[n]]. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rankings.h"

/* One list, and where it begins in its column. */
typedef struct {
    const int32_t *members;
    int64_t count, begin;
} Span;

static Span span(Lists lists, int64_t number)
{
    const int64_t begin = number ? lists.ends[number - 1] : 0;
    const Span found = {lists.members + begin, lists.ends[number] - begin, begin};
    return found;
}

/* The list of a number, in the columns or in their tail; `kind` is the field that counts such numbers. */
#define LIST(c, name, kind, number) \
    ((number) < (c)->kind ? span((c)->name, (number)) : span((c)->tail->name, (number) - (c)->kind))
/* What a column holds for a number. */
#define AT(c, name, kind, number) \
    ((number) < (c)->kind ? (c)->name[number] : (c)->tail->name[(number) - (c)->kind])
/* The number that a node or tag has now. */
#define NOW(c, moved, kind, number) \
    ((c)->tail && (number) < (c)->kind && (c)->moved[number] >= 0 ? (c)->moved[number] : (number))

/* In floating point: the product of damaged counts may exceed every integer. */
static double rarity(double uses) { return 1 / (1 + log(uses > 1 ? uses : 1)); }

/* The place of an id in a sorted column, or -1. */
static int64_t place_of(const int64_t *sorted, int64_t count, int64_t id)
{
    int64_t low = 0, high = count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (sorted[middle] < id) low = middle + 1;
        else high = middle;
    }
    return low < count && sorted[low] == id ? low : -1;
}

/* The number of an item, or -1. */
static int64_t item_of(const Columns *c, int64_t id)
{
    const int64_t changed = c->tail ? place_of(c->tail->items, c->tail->item_count, id) : -1;
    return changed >= 0 ? c->item_count + changed : place_of(c->items, c->item_count, id);
}

/* Finds the wanted numbers in a sorted column: writes the index of each that is there, and where it begins and ends in
   the column. Returns how many were found; `ranges` has room for three numbers for each that is wanted. */
API int64_t ff_ranges(
    const int64_t *sorted, int64_t count, const int64_t *wanted, int64_t wanted_count, int64_t *ranges)
{
    int64_t found = 0;
    for (int64_t w = 0; w < wanted_count; w++) {
        const int64_t begin = place_of(sorted, count, wanted[w]);
        if (begin < 0) continue;
        int64_t end = begin + 1;
        while (end < count && sorted[end] == wanted[w]) end++;
        ranges[3 * found] = w;
        ranges[3 * found + 1] = begin;
        ranges[3 * found++ + 2] = end;
    }
    return found;
}

/* What is added to the scores of items, in the order in which it was found. */
typedef struct {
    int64_t *ids;
    double *values;
    int64_t count, room;
} Sums;

static int add(Sums *sums, int64_t id, double value)
{
    if (sums->count == sums->room) {
        const int64_t room = sums->room ? 2 * sums->room : 1024;
        int64_t *ids = realloc(sums->ids, (size_t)room * sizeof *ids);
        if (ids) sums->ids = ids;
        double *values = realloc(sums->values, (size_t)room * sizeof *values);
        if (values) sums->values = values;
        if (!ids || !values) return NO_MEMORY;
        sums->room = room;
    }
    sums->ids[sums->count] = id;
    sums->values[sums->count++] = value;
    return DONE;
}

/* Adds up, rounds to nine decimals, and writes the best `limit` with a score above 0; returns their number. */
static int64_t ranked(const Sums *sums, int64_t limit, int64_t *ids, double *scores)
{
    const size_t room = (size_t)sums->count + 1;
    int64_t *distinct = malloc(room * sizeof *distinct), *order = malloc(room * sizeof *order), found = NO_MEMORY;
    double *totals = malloc(room * sizeof *totals);
    if (distinct && order && totals) found = ff_sums(sums->ids, sums->values, sums->count, distinct, totals);
    for (int64_t i = 0; i < found; i++) totals[i] = rint(totals[i] * 1e9) / 1e9;
    if (found > 0 && ff_order(distinct, totals, found, order) != DONE) found = NO_MEMORY;
    if (found > limit) found = limit;
    for (int64_t i = 0; i < found; i++) {
        ids[i] = distinct[order[i]];
        scores[i] = totals[order[i]];
    }
    free(distinct);
    free(order);
    free(totals);
    return found;
}

/* Whether a filter lets an item pass; `count` below 0: there is none. */
static int passes(const int64_t *allowed, int64_t count, int64_t id) { return count < 0 || place_of(allowed, count, id) >= 0; }

/* ---------------------------------------------------------------- edges */

typedef struct {
    double weight;
    int64_t near_id, far_id;
    int32_t near, far;
} Edge;

/* Heaviest first, then by the ids of both nodes. */
static int heavier(const void *a, const void *b)
{
    const Edge *x = a, *y = b;
    if (x->weight != y->weight) return x->weight > y->weight ? -1 : 1;
    if (x->near_id != y->near_id) return x->near_id < y->near_id ? -1 : 1;
    return (x->far_id > y->far_id) - (x->far_id < y->far_id);
}

/* The edges of a node that count: all, or the heaviest of a hub. */
static Span edges_at(const Columns *c, int32_t node)
{
    Span all = LIST(c, neighbours, node_count, node);
    if (AT(c, degrees, node_count, node) > c->hub && all.count > c->hub) all.count = c->hub;
    return all;
}

/* Writes the heaviest edges of the nodes into new memory; returns their number. `nodes` may repeat. */
static int64_t edges_of(const Columns *c, const int32_t *nodes, int64_t count, Edge **edges)
{
    int64_t room = 1, found = 0;
    for (int64_t n = 0; n < count; n++) room += edges_at(c, nodes[n]).count;
    *edges = malloc((size_t)room * sizeof **edges);
    if (!*edges) return NO_MEMORY;
    for (int64_t n = 0; n < count; n++) {
        const int32_t node = nodes[n];
        int repeated = 0;
        for (int64_t before = 0; before < n; before++) repeated |= nodes[before] == node;
        if (repeated || !AT(c, degrees, node_count, node)) continue;
        const Span ends = edges_at(c, node);
        const double *weights = (node < c->node_count ? c->weights : c->tail->weights) + ends.begin;
        const int64_t id = AT(c, nodes, node_count, node);
        for (int64_t e = 0; e < ends.count; e++) {
            const int32_t far = NOW(c, moved_nodes, node_count, ends.members[e]);
            const Edge edge = {weights[e], id, AT(c, nodes, node_count, far), node, far};
            (*edges)[found++] = edge;
        }
    }
    qsort(*edges, (size_t)found, sizeof **edges, heavier);
    return found < c->most_edges ? found : c->most_edges;
}

/* ---------------------------------------------------------------- the walk */

/* Adds a value to the scores of the items of a list, except for one. */
static int add_all(
    Sums *sums, const Columns *c, Span items, int64_t except, const int64_t *allowed, int64_t allowed_count, double value)
{
    int result = DONE;
    for (int64_t i = 0; i < items.count && result == DONE; i++) {
        const int64_t id = AT(c, items, item_count, items.members[i]);
        if (id != except && passes(allowed, allowed_count, id)) result = add(sums, id, value);
    }
    return result;
}

/* Ranks the items that links lead to from the starts; `nearness`: of mentions, of being mentioned, of edges. */
API int64_t ff_walk(
    const Columns *c, const int64_t *starts, const double *strengths, int64_t start_count, const double *nearness,
    const int64_t *allowed, int64_t allowed_count, int64_t limit, int64_t *ids, double *scores)
{
    Sums sums = {0};
    Edge *edges = NULL;
    int64_t own_count = 0, result = DONE;
    for (int64_t s = 0; s < start_count; s++) {
        const int64_t item = item_of(c, starts[s]);
        if (item >= 0) own_count += LIST(c, own, item_count, item).count;
    }
    int32_t *nodes = malloc(((size_t)own_count + 1) * sizeof *nodes);
    double *from = malloc(((size_t)own_count + 1) * sizeof *from);
    int64_t *sources = malloc(((size_t)own_count + 1) * sizeof *sources);
    if (!nodes || !from || !sources) result = NO_MEMORY;
    own_count = 0;
    for (int64_t s = 0; s < start_count && result == DONE; s++) {
        const int64_t item = item_of(c, starts[s]);
        if (item < 0) continue;
        const double square = strengths[s] * strengths[s];
        const Span said = LIST(c, said, item_count, item), own = LIST(c, own, item_count, item);
        for (int64_t o = 0; o < said.count && result == DONE; o++) {
            const int32_t node = NOW(c, moved_nodes, node_count, said.members[o]);
            const int32_t mentioned = AT(c, mentioned, node_count, node), holders = AT(c, holders, node_count, node);
            if (mentioned > c->hub || holders > c->hub) continue;
            const double value = square * nearness[0] * rarity((double)mentioned * holders);
            result = add_all(&sums, c, LIST(c, owners, node_count, node), starts[s], allowed, allowed_count, value);
        }
        for (int64_t o = 0; o < own.count && result == DONE; o++) {
            const int32_t node = NOW(c, moved_nodes, node_count, own.members[o]);
            nodes[own_count] = node;
            from[own_count] = strengths[s] * sqrt(strengths[s]);
            sources[own_count++] = starts[s];
            const int32_t mentioned = AT(c, mentioned, node_count, node), holders = AT(c, holders, node_count, node);
            if (mentioned > c->hub) continue;
            const double value = square * nearness[1] * rarity((double)mentioned * holders);
            result = add_all(&sums, c, LIST(c, speakers, node_count, node), starts[s], allowed, allowed_count, value);
        }
    }
    const int64_t edge_count = result == DONE ? edges_of(c, nodes, own_count, &edges) : 0;
    if (edge_count < 0) result = edge_count;
    for (int64_t e = 0; e < edge_count && result == DONE; e++) {
        const int32_t near = edges[e].near, far = edges[e].far, holders = AT(c, holders, node_count, far);
        if (holders > c->hub) continue;
        const double ways = (double)AT(c, degrees, node_count, near) * AT(c, degrees, node_count, far) * holders;
        const double value = nearness[2] * edges[e].weight * rarity(ways);
        const Span owners = LIST(c, owners, node_count, far);
        for (int64_t i = 0; i < owners.count && result == DONE; i++) {
            const int64_t id = AT(c, items, item_count, owners.members[i]);
            if (!passes(allowed, allowed_count, id)) continue;
            for (int64_t o = 0; o < own_count && result == DONE; o++)
                if (nodes[o] == near && sources[o] != id) result = add(&sums, id, from[o] * value);
        }
    }
    if (result == DONE) result = ranked(&sums, limit, ids, scores);
    free(nodes);
    free(from);
    free(sources);
    free(edges);
    free(sums.ids);
    free(sums.values);
    return result;
}

/* ---------------------------------------------------------------- shared tags */

typedef struct {
    double rank;
    int32_t uses, tag;
} Use;

static int rarer(const void *a, const void *b)
{
    const Use *x = a, *y = b;
    if (x->uses != y->uses) return x->uses < y->uses ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* Ranks the items that share tags with the starts: each tag passes on the strength of the best other start.

   Tags of 2 to `hub` items count, rarest first (ties by name), up to `most_uses` uses in all. */
API int64_t ff_shared(
    const Columns *c, const int64_t *starts, const double *strengths, int64_t start_count, const int64_t *allowed,
    int64_t allowed_count, int64_t limit, int64_t *ids, double *scores)
{
    Sums sums = {0};
    int64_t room = 1, count = 0, total = 0, result = DONE;
    for (int64_t s = 0; s < start_count; s++) {
        const int64_t item = item_of(c, starts[s]);
        if (item >= 0) room += LIST(c, tags, item_count, item).count;
    }
    Use *used = malloc((size_t)room * sizeof *used);
    if (!used) return NO_MEMORY;
    for (int64_t s = 0; s < start_count; s++) {
        const int64_t item = item_of(c, starts[s]);
        if (item < 0) continue;
        const Span tags = LIST(c, tags, item_count, item);
        for (int64_t t = 0; t < tags.count; t++) {
            const int32_t tag = NOW(c, moved_tags, tag_count, tags.members[t]);
            const Use use = {
                tag < c->tag_count ? tag : c->tail->ranks[tag - c->tag_count], AT(c, uses, tag_count, tag), tag};
            if (use.uses > 1 && use.uses <= c->hub) used[count++] = use;
        }
    }
    qsort(used, (size_t)count, sizeof *used, rarer);
    for (int64_t u = 0; u < count && result == DONE; u++) {
        if (u && used[u].tag == used[u - 1].tag) continue;
        total += used[u].uses;
        if (total > c->most_uses) break;
        const Span users = LIST(c, users, tag_count, used[u].tag);
        double best = 0.0, second = 0.0;
        int64_t strongest = 0;
        for (int64_t i = 0; i < users.count; i++) {
            const int64_t id = AT(c, items, item_count, users.members[i]);
            for (int64_t s = 0; s < start_count; s++) {
                if (starts[s] != id || !passes(allowed, allowed_count, id)) continue;
                if (strengths[s] > best || (strengths[s] == best && id > strongest)) {
                    second = best;
                    best = strengths[s];
                    strongest = id;
                } else if (strengths[s] > second) second = strengths[s];
            }
        }
        const double weight = rarity(used[u].uses);
        for (int64_t i = 0; i < users.count && result == DONE; i++) {
            const int64_t id = AT(c, items, item_count, users.members[i]);
            const double value = (id == strongest ? second : best) * weight;
            if (value > 0 && passes(allowed, allowed_count, id)) result = add(&sums, id, value);
        }
    }
    if (result == DONE) result = ranked(&sums, limit, ids, scores);
    free(used);
    free(sums.ids);
    free(sums.values);
    return result;
}

/* ---------------------------------------------------------------- columns */

/* Checks that all lists end inside their members, and that members are places; so the functions above trust them. */
API int ff_check_lists(const int64_t *ends, int64_t count, const int32_t *members, int64_t member_count, int64_t places)
{
    int64_t begin = 0;
    for (int64_t i = 0; i < count; begin = ends[i++])
        if (ends[i] < begin || ends[i] > member_count) return DAMAGED;
    for (int64_t i = 0; i < member_count; i++)
        if (members[i] < 0 || members[i] >= places) return DAMAGED;
    return DONE;
}
