/* Postings from the terms of rows. */

#include <stdlib.h>

#include "keys.h"
#include "rankings.h"

static int is_between(uint32_t hash, uint32_t lowest, uint32_t highest)
{
    return hash >= lowest && hash <= highest;
}

/* The number of terms with a hash in this range. */
API int64_t ff_terms_between(const uint32_t *terms, int64_t count, uint32_t lowest, uint32_t highest)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) found += is_between(terms[i], lowest, highest);
    return found;
}

/* Writes the postings of the terms with a hash in a range, of which there are `count` in the rows from `first_row` to
   `end_row`, in the form of a `Block`; each array has room for `count`. Returns the number of postings, and in
   `term_count` that of the terms. DAMAGED if the ends of the rows do not ascend, or if there are more terms. */
API int64_t ff_invert(
    const uint32_t *terms, int64_t all_terms, const int64_t *row_ends, int64_t first_row, int64_t end_row, uint32_t lowest,
    uint32_t highest, int64_t count, uint32_t *hashes, uint32_t *ends, uint32_t *rows, uint8_t *counts, int64_t *term_count)
{
    uint64_t *keys = malloc((2 * (size_t)count + 1) * sizeof *keys);
    if (!keys) return NO_MEMORY;
    int64_t found = 0, made = 0, distinct = 0, begin = first_row ? row_ends[first_row - 1] : 0;
    int damaged = begin < 0;
    for (int64_t row = first_row; row < end_row && !damaged; row++) {
        const int64_t end = row_ends[row];
        damaged = end < begin || end > all_terms;
        for (int64_t t = begin; t < end && !damaged; t++) {
            if (!is_between(terms[t], lowest, highest)) continue;
            damaged = found == count;
            if (!damaged) keys[found++] = (uint64_t)terms[t] << 32 | (uint64_t)row;
        }
        begin = end;
    }
    const uint64_t *const sorted = damaged ? keys : sorted_keys(keys, keys + count, found);
    for (int64_t i = 0; i < found && !damaged; i++) {
        const uint32_t hash = (uint32_t)(sorted[i] >> 32);
        if (i && sorted[i] == sorted[i - 1]) {
            if (counts[made - 1] < MANY) counts[made - 1]++;
            continue;
        }
        if (!distinct || hashes[distinct - 1] != hash) hashes[distinct++] = hash;
        rows[made] = (uint32_t)sorted[i];
        counts[made++] = 1;
        ends[distinct - 1] = (uint32_t)made;
    }
    free(keys);
    *term_count = distinct;
    return damaged ? DAMAGED : made;
}
