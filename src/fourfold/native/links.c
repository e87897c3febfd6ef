/* Links and tags of items as columns: the walk from some items, and the items that share tags with them.

   Items, nodes and tags are numbered by their place in a sorted column. A list of places per item, node or tag lies in
   one column; the list of number n is members[ends[n - 1]] to members[ends[n]]. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rankings.h"

static int64_t first_of(Lists lists, int64_t number) { return number ? lists.ends[number - 1] : 0; }

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
    int32_t near, far;
} Edge;

/* Heaviest first, then by the numbers of both nodes. */
static int heavier(const void *a, const void *b)
{
    const Edge *x = a, *y = b;
    if (x->weight != y->weight) return x->weight > y->weight ? -1 : 1;
    if (x->near != y->near) return x->near < y->near ? -1 : 1;
    return (x->far > y->far) - (x->far < y->far);
}

/* Writes the heaviest edges of the nodes into new memory; returns their number. `nodes` may repeat. */
static int64_t edges_of(const Columns *c, const int32_t *nodes, int64_t count, Edge **edges)
{
    int64_t room = 1, found = 0;
    for (int64_t n = 0; n < count; n++) {
        const int64_t all = c->neighbours.ends[nodes[n]] - first_of(c->neighbours, nodes[n]);
        room += c->degrees[nodes[n]] > c->hub && all > c->hub ? c->hub : all;
    }
    *edges = malloc((size_t)room * sizeof **edges);
    if (!*edges) return NO_MEMORY;
    for (int64_t n = 0; n < count; n++) {
        const int32_t node = nodes[n];
        int repeated = 0;
        for (int64_t before = 0; before < n; before++) repeated |= nodes[before] == node;
        if (repeated || !c->degrees[node]) continue;
        const int64_t begin = first_of(c->neighbours, node);
        int64_t end = c->neighbours.ends[node];
        if (c->degrees[node] > c->hub && end - begin > c->hub) end = begin + c->hub;
        for (int64_t e = begin; e < end; e++) {
            const Edge edge = {c->weights[e], node, c->neighbours.members[e]};
            (*edges)[found++] = edge;
        }
    }
    qsort(*edges, (size_t)found, sizeof **edges, heavier);
    return found < c->most_edges ? found : c->most_edges;
}

/* ---------------------------------------------------------------- the walk */

/* Ranks the items that links lead to from the starts; `nearness`: of mentions, of being mentioned, of edges. */
API int64_t ff_walk(
    const Columns *c, const int64_t *starts, const double *strengths, int64_t start_count, const double *nearness,
    const int64_t *allowed, int64_t allowed_count, int64_t limit, int64_t *ids, double *scores)
{
    Sums sums = {0};
    Edge *edges = NULL;
    int64_t own_count = 0, result = DONE;
    for (int64_t s = 0; s < start_count; s++) {
        const int64_t item = place_of(c->items, c->item_count, starts[s]);
        if (item >= 0) own_count += c->own.ends[item] - first_of(c->own, item);
    }
    int32_t *nodes = malloc(((size_t)own_count + 1) * sizeof *nodes);
    double *from = malloc(((size_t)own_count + 1) * sizeof *from);
    int64_t *sources = malloc(((size_t)own_count + 1) * sizeof *sources);
    if (!nodes || !from || !sources) result = NO_MEMORY;
    own_count = 0;
    for (int64_t s = 0; s < start_count && result == DONE; s++) {
        const int64_t item = place_of(c->items, c->item_count, starts[s]);
        if (item < 0) continue;
        const double square = strengths[s] * strengths[s];
        for (int64_t o = first_of(c->said, item); o < c->said.ends[item] && result == DONE; o++) {
            const int32_t node = c->said.members[o];
            if (c->mentioned[node] > c->hub || c->holders[node] > c->hub) continue;
            const double value = square * nearness[0] * rarity((double)c->mentioned[node] * c->holders[node]);
            for (int64_t i = first_of(c->owners, node); i < c->owners.ends[node] && result == DONE; i++) {
                const int64_t id = c->items[c->owners.members[i]];
                if (id != starts[s] && passes(allowed, allowed_count, id)) result = add(&sums, id, value);
            }
        }
        for (int64_t o = first_of(c->own, item); o < c->own.ends[item] && result == DONE; o++) {
            const int32_t node = c->own.members[o];
            nodes[own_count] = node;
            from[own_count] = strengths[s];
            sources[own_count++] = starts[s];
            if (c->mentioned[node] > c->hub) continue;
            const double value = square * nearness[1] * rarity((double)c->mentioned[node] * c->holders[node]);
            for (int64_t i = first_of(c->speakers, node); i < c->speakers.ends[node] && result == DONE; i++) {
                const int64_t id = c->items[c->speakers.members[i]];
                if (id != starts[s] && passes(allowed, allowed_count, id)) result = add(&sums, id, value);
            }
        }
    }
    const int64_t edge_count = result == DONE ? edges_of(c, nodes, own_count, &edges) : 0;
    if (edge_count < 0) result = edge_count;
    for (int64_t e = 0; e < edge_count && result == DONE; e++) {
        const int32_t near = edges[e].near, far = edges[e].far;
        if (c->holders[far] > c->hub) continue;
        const double ways = (double)c->degrees[near] * c->degrees[far] * c->holders[far];
        const double value = nearness[2] * edges[e].weight * rarity(ways);
        for (int64_t i = first_of(c->owners, far); i < c->owners.ends[far] && result == DONE; i++) {
            const int64_t id = c->items[c->owners.members[i]];
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
    int32_t uses, tag;
} Use;

static int rarer(const void *a, const void *b)
{
    const Use *x = a, *y = b;
    if (x->uses != y->uses) return x->uses < y->uses ? -1 : 1;
    return (x->tag > y->tag) - (x->tag < y->tag);
}

/* Ranks the items that share tags with the starts: each tag passes on the strength of the best other start.

   Tags of 2 to `hub` items count, rarest first (ties by number), up to `most_uses` uses in all. */
API int64_t ff_shared(
    const Columns *c, const int64_t *starts, const double *strengths, int64_t start_count, const int64_t *allowed,
    int64_t allowed_count, int64_t limit, int64_t *ids, double *scores)
{
    Sums sums = {0};
    int64_t room = 1, count = 0, total = 0, result = DONE;
    for (int64_t s = 0; s < start_count; s++) {
        const int64_t item = place_of(c->items, c->item_count, starts[s]);
        if (item >= 0) room += c->tags.ends[item] - first_of(c->tags, item);
    }
    Use *used = malloc((size_t)room * sizeof *used);
    if (!used) return NO_MEMORY;
    for (int64_t s = 0; s < start_count; s++) {
        const int64_t item = place_of(c->items, c->item_count, starts[s]);
        for (int64_t t = item < 0 ? 0 : first_of(c->tags, item); item >= 0 && t < c->tags.ends[item]; t++) {
            const Use use = {c->uses[c->tags.members[t]], c->tags.members[t]};
            if (use.uses > 1 && use.uses <= c->hub) used[count++] = use;
        }
    }
    qsort(used, (size_t)count, sizeof *used, rarer);
    for (int64_t u = 0; u < count && result == DONE; u++) {
        if (u && used[u].tag == used[u - 1].tag) continue;
        total += used[u].uses;
        if (total > c->most_uses) break;
        const int32_t tag = used[u].tag;
        double best = 0.0, second = 0.0;
        int64_t strongest = 0;
        for (int64_t i = first_of(c->users, tag); i < c->users.ends[tag]; i++) {
            const int64_t id = c->items[c->users.members[i]];
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
        for (int64_t i = first_of(c->users, tag); i < c->users.ends[tag] && result == DONE; i++) {
            const int64_t id = c->items[c->users.members[i]];
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
