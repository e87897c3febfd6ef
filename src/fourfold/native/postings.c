/* Searching by postings, which `inversion.c` makes: the best rows by BM25, and the scores of given rows. Scores are
   added up word by word, as in `ff_bm25`, so both compute the same numbers. */

#include <stdlib.h>
#include <string.h>

#include "best_rows.h"
#include "keys.h"

/* ---------------------------------------------------------------- terms */

/* The place of a hash in a block, -1 if it is not there. Hashes are spread evenly: the search begins where it should be. */
static int64_t place_of(const Block *block, uint32_t hash)
{
    const uint32_t *const hashes = block->hashes;
    int64_t low = 0, high = block->term_count, step = 32; /* the first hash that is not smaller lies between them */
    if (!high || hash < hashes[0] || hash > hashes[high - 1]) return -1;
    const uint64_t span = (uint64_t)hashes[high - 1] - hashes[0], above = (uint64_t)hash - hashes[0];
    const int64_t expected = span ? (int64_t)(above * (uint64_t)(high - 1) / span) : 0;
    if (hashes[expected] < hash) {
        low = expected + 1;
        while (low + step < high && hashes[low + step] < hash) {
            low += step + 1;
            step *= 2;
        }
        if (low + step < high) high = low + step;
    } else {
        high = expected;
        while (high - step > low && hashes[high - step] >= hash) {
            high -= step;
            step *= 2;
        }
        if (high - step > low) low = high - step + 1;
    }
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (hashes[middle] < hash) low = middle + 1;
        else high = middle;
    }
    return low < block->term_count && hashes[low] == hash ? low : -1;
}

/* Rows that contain a term, from `at` on. */
typedef struct {
    const uint32_t *rows;
    const uint8_t *counts;
    int64_t at, end;
} Cursor;

/* Finds a term; the cursor is empty if the block lacks it. Returns DONE or DAMAGED. */
static int find_term(const Block *block, uint32_t hash, Cursor *cursor)
{
    const Cursor empty = {block->rows, block->counts, 0, 0};
    const int64_t place = place_of(block, hash);
    *cursor = empty;
    if (place < 0) return DONE;
    cursor->at = place ? block->ends[place - 1] : 0;
    cursor->end = block->ends[place];
    return cursor->at <= cursor->end && cursor->end <= block->posting_count ? DONE : DAMAGED;
}

/* Writes how many rows contain each term. Returns DONE or DAMAGED. */
API int ff_frequencies(const Block *blocks, int64_t block_count, const uint32_t *hashes, int64_t count, int64_t *frequencies)
{
    for (int64_t i = 0; i < count; i++) {
        frequencies[i] = 0;
        for (int64_t b = 0; b < block_count; b++) {
            Cursor found;
            if (find_term(blocks + b, hashes[i], &found) != DONE) return DAMAGED;
            frequencies[i] += found.end - found.at;
        }
    }
    return DONE;
}

/* The number of blocks from the first one on that have the same rows. */
static int64_t blocks_of_rows(const Block *blocks, int64_t count)
{
    int64_t same = 1;
    while (same < count && blocks[same].first_row == blocks[0].first_row) same++;
    return same;
}

/* Finds all variants of the query's words in blocks of the same rows. Returns DONE or DAMAGED. */
static int find_variants(const Scoring *s, const Rows *part, const Block *blocks, int64_t count, Cursor *cursors)
{
    if (blocks->first_row < 0 || blocks->end_row > part->row_count) return DAMAGED;
    for (int32_t v = 0; v < s->firsts[s->words]; v++) {
        int64_t b = 0;
        do {
            if (find_term(blocks + b, s->hashes[v], cursors + v) != DONE) return DAMAGED;
        } while (cursors[v].at == cursors[v].end && ++b < count);
    }
    return DONE;
}

/* Counts a term where its postings say MANY. */
static double occurrences(const Rows *part, int64_t row, uint32_t hash)
{
    const uint32_t *terms = part->content;
    const int64_t begin = row ? part->ends[row - 1] : 0, end = part->ends[row];
    int64_t found = 0;
    for (int64_t t = begin; t >= 0 && t < end && t < part->size; t++) found += terms[t] == hash;
    return (double)found;
}

/* The score of a variant in the row that its cursor is at. */
static inline double score_at(const Scoring *s, const Rows *part, const Cursor *cursor, int32_t v, Norm norm, int64_t row)
{
    const uint8_t count = cursor->counts[cursor->at];
    const double found = count < MANY ? count : occurrences(part, row, s->hashes[v]);
    return term_score(s->worth[v], found, part->lengths[row], norm, s->k1);
}

/* ---------------------------------------------------------------- the best rows */

enum { WINDOW = 2048 };

/* Sums of adjacent rows: few enough for the caches of the processor. Rows are counted from the lowest one. */
typedef struct {
    Norm norm;
    uint32_t lowest, size;
    uint32_t count, found[WINDOW + 1]; /* rows with a score */
    double scores[WINDOW], covered[WINDOW];
    double word[WINDOW]; /* the best variant of the current word */
} Window;

/* The end of the rows of a cursor that are in the window. */
static int64_t end_in(const Window *window, const Cursor *cursor)
{
    int64_t end = cursor->at;
    while (end < cursor->end && cursor->rows[end] - window->lowest < window->size) end++;
    return end;
}

static inline void add(Window *window, uint32_t place, double score, double idf)
{
    window->found[window->count] = place;
    window->count += window->scores[place] == 0.0;
    window->scores[place] += score;
    window->covered[place] += idf;
}

/* Adds the scores of a word without other variants. */
static void add_word(const Scoring *s, const Rows *part, int64_t w, Cursor *cursor, Window *window)
{
    const int64_t end = end_in(window, cursor);
    const uint32_t lowest = window->lowest;
    const double idf = s->idfs[w];
    const Norm norm = window->norm;
    for (; cursor->at < end; cursor->at++) {
        const uint32_t row = cursor->rows[cursor->at];
        const double score = score_at(s, part, cursor, s->firsts[w], norm, row);
        if (score > 0) add(window, row - lowest, score, idf);
    }
}

/* Finds the best variant of a word in each row. */
static void compare_variant(const Scoring *s, const Rows *part, int32_t v, Cursor *cursor, Window *window)
{
    const int64_t end = end_in(window, cursor);
    for (; cursor->at < end; cursor->at++) {
        const uint32_t row = cursor->rows[cursor->at];
        const double score = score_at(s, part, cursor, v, window->norm, row);
        if (score > window->word[row - window->lowest]) window->word[row - window->lowest] = score;
    }
}

/* Adds the scores of the best variants of a word, in the rows that the cursor of one of them has just passed. */
static void add_best_variant(const Scoring *s, int64_t w, const Cursor *cursor, int64_t since, Window *window)
{
    for (int64_t at = since; at < cursor->at; at++) {
        const uint32_t place = cursor->rows[at] - window->lowest;
        if (place >= window->size || !(window->word[place] > 0)) continue; /* it was added with another variant */
        add(window, place, window->word[place], s->idfs[w]);
        window->word[place] = 0.0;
    }
}

/* Adds the scores of all words in the rows of a window. */
static void fill(const Scoring *s, const Rows *part, Cursor *cursors, int64_t *since, Window *window)
{
    for (int64_t w = 0; w < s->words; w++) {
        const int32_t first = s->firsts[w], end = s->firsts[w + 1];
        if (end - first == 1) {
            add_word(s, part, w, cursors + first, window);
            continue;
        }
        for (int32_t v = first; v < end; v++) {
            since[v] = cursors[v].at;
            compare_variant(s, part, v, cursors + v, window);
        }
        for (int32_t v = first; v < end; v++) add_best_variant(s, w, cursors + v, since[v], window);
    }
}

/* Offers the rows of a window that pass, and clears it; returns DONE or NO_MEMORY. */
static int read_out(const uint8_t *passing, Window *window, Best *best)
{
    int result = DONE;
    for (uint32_t i = 0; i < window->count; i++) {
        const uint32_t place = window->found[i];
        const int64_t row = (int64_t)window->lowest + place;
        const double score = window->scores[place], covered = window->covered[place];
        window->scores[place] = window->covered[place] = 0.0;
        if (score >= best->least && (!passing || passing[row]) && result == DONE)
            result = offer(best, row, score, covered);
    }
    window->count = 0;
    return result;
}

/* The lowest row of all cursors, or `none`. */
static int64_t lowest_row(const Cursor *cursors, int32_t count, int64_t none)
{
    int64_t lowest = none;
    for (int32_t v = 0; v < count; v++)
        if (cursors[v].at < cursors[v].end && cursors[v].rows[cursors[v].at] < lowest) lowest = cursors[v].rows[cursors[v].at];
    return lowest;
}

/* Writes the items of the best `limit` of the published rows that pass (NULL: all) and of some rows of the tail, with
   scores and coverage: best first, ties by id. Returns how many were written, DAMAGED or NO_MEMORY. */
API int64_t ff_best_words(
    const Scoring *s, const uint8_t *passing, const int64_t *tail, int64_t tail_count, int64_t limit, int64_t *ids,
    double *scores, double *coverage)
{
    const Rows *const part = s->parts, *const rest = s->parts + 1;
    const int32_t variants = s->firsts[s->words];
    Cursor *cursors = malloc(((size_t)variants + 1) * sizeof *cursors);
    int64_t *since = malloc(((size_t)variants + 1) * sizeof *since);
    Window *window = calloc(1, sizeof *window);
    const size_t room = SPARE * (size_t)limit + SPARE;
    double *floats = malloc(2 * room * sizeof *floats);
    Best best = {s->parts, malloc(room * sizeof(int64_t)), floats, floats + room, 0, limit, (int64_t)room, 0.0};
    double *tail_scores = malloc((2 * (size_t)tail_count + 1) * sizeof *tail_scores);
    int64_t result = cursors && since && window && best.rows && floats && tail_scores ? DONE : NO_MEMORY;
    if (window) window->norm = norm_for(s->average_length, s->base_length, s->k1, s->b);
    for (int64_t b = 0, same; b < part->block_count && result == DONE; b += same) {
        const Block *const blocks = part->blocks + b;
        same = blocks_of_rows(blocks, part->block_count - b);
        result = find_variants(s, part, blocks, same, cursors);
        for (int64_t row; result == DONE && (row = lowest_row(cursors, variants, UINT32_MAX)) < UINT32_MAX;) {
            if (row >= blocks->end_row) result = DAMAGED;
            else {
                window->lowest = (uint32_t)row;
                window->size = blocks->end_row - row < WINDOW ? (uint32_t)(blocks->end_row - row) : WINDOW;
                fill(s, part, cursors, since, window);
                result = read_out(passing, window, &best);
            }
        }
    }
    if (result == DONE && tail_count)
        result = ff_bm25(
            rest->content, rest->size, rest->ends, rest->row_count, tail, tail_count, s->hashes, s->worth, s->same,
            s->firsts, s->idfs, s->words, 1.0, s->average_length, s->k1, s->b, s->base_length, tail_scores,
            tail_scores + tail_count);
    for (int64_t i = 0; i < tail_count && result == DONE; i++)
        if (tail_scores[i] > 0 && tail_scores[i] >= best.least)
            result = offer(&best, -1 - tail[i], tail_scores[i], tail_scores[tail_count + i]);
    if (result == DONE) cut(&best);
    if (result == DONE) result = cut_exactly(&best);
    for (int64_t i = 0; i < best.count && result == DONE; i++) {
        ids[i] = id_of(&best, best.rows[i]);
        scores[i] = best.scores[i];
        coverage[i] = best.covered[i] / s->weight;
    }
    free(cursors);
    free(since);
    free(window);
    free(best.rows);
    free(floats);
    free(tail_scores);
    return result == DONE ? best.count : result;
}

/* ---------------------------------------------------------------- given rows */

/* Moves a cursor to the first row that is not below this one. */
static void advance(Cursor *cursor, uint32_t row)
{
    int64_t step = 1, high = cursor->end;
    while (cursor->at + step < cursor->end && cursor->rows[cursor->at + step] < row) {
        cursor->at += step;
        step *= 2;
    }
    if (cursor->at + step < high) high = cursor->at + step;
    while (cursor->at < high) {
        const int64_t middle = cursor->at + (high - cursor->at) / 2;
        if (cursor->rows[middle] < row) cursor->at = middle + 1;
        else high = middle;
    }
}

/* Adds the scores of all words in rows of the same blocks. Keys are in the order of their upper halves, the rows; the
   lower ones are the places of the results. */
static void add_scores(
    const Scoring *s, const Rows *part, Cursor *cursors, const uint64_t *keys, int64_t count, double *word, double *scores,
    double *covered)
{
    const Norm norm = norm_for(s->average_length, s->base_length, s->k1, s->b);
    for (int64_t w = 0; w < s->words; w++) {
        memset(word, 0, (size_t)count * sizeof *word);
        for (int32_t v = s->firsts[w]; v < s->firsts[w + 1]; v++) {
            Cursor *const cursor = cursors + v;
            for (int64_t i = 0; i < count && cursor->at < cursor->end; i++) {
                const uint32_t row = (uint32_t)(keys[i] >> 32);
                advance(cursor, row);
                if (cursor->at == cursor->end || cursor->rows[cursor->at] != row) continue;
                const double score = score_at(s, part, cursor, v, norm, row);
                if (score > word[i]) word[i] = score;
            }
        }
        for (int64_t i = 0; i < count; i++) {
            if (!(word[i] > 0)) continue;
            scores[(uint32_t)keys[i]] += word[i];
            covered[(uint32_t)keys[i]] += s->idfs[w];
        }
    }
}

/* Scores rows of a part with postings; returns DONE, DAMAGED or NO_MEMORY. */
API int ff_score_posted(
    const Scoring *s, const Rows *part, const int64_t *rows, int64_t count, double *scores, double *coverage)
{
    const int32_t variants = s->firsts[s->words];
    Cursor *cursors = malloc(((size_t)variants + 1) * sizeof *cursors);
    uint64_t *keys = malloc((2 * (size_t)count + 1) * sizeof *keys);
    double *word = malloc(((size_t)count + 1) * sizeof *word);
    int result = cursors && keys && word ? DONE : NO_MEMORY;
    for (int64_t i = 0; i < count && result == DONE; i++) {
        if (rows[i] < 0 || rows[i] >= part->row_count) result = DAMAGED;
        else keys[i] = (uint64_t)rows[i] << 32 | (uint64_t)i;
        scores[i] = coverage[i] = 0.0;
    }
    const uint64_t *const sorted = result == DONE ? sorted_keys(keys, keys + count, count) : keys;
    int64_t from = 0;
    for (int64_t b = 0, same; b < part->block_count && result == DONE; b += same) {
        const Block *const blocks = part->blocks + b;
        same = blocks_of_rows(blocks, part->block_count - b);
        int64_t to = from;
        while (to < count && (int64_t)(sorted[to] >> 32) < blocks->end_row) to++;
        if (to == from) continue;
        result = find_variants(s, part, blocks, same, cursors);
        if (result == DONE) add_scores(s, part, cursors, sorted + from, to - from, word, scores, coverage);
        from = to;
    }
    for (int64_t i = 0; i < count && result == DONE; i++) coverage[i] /= s->weight;
    free(cursors);
    free(keys);
    free(word);
    return result;
}
