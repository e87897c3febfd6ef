/* Sorting by the upper half of a key, byte by byte: no two keys are compared, and equal ones stay in their order. */

#include <stdint.h>

/* `other` has as much room as `keys`. Returns where the sorted keys are: one of both. */
static inline uint64_t *sorted_keys(uint64_t *keys, uint64_t *other, int64_t count)
{
    enum { BYTES = 4, VALUES = 256 };
    int64_t places[BYTES][VALUES] = {{0}};
    for (int64_t i = 0; i < count; i++)
        for (int byte = 0; byte < BYTES; byte++) places[byte][keys[i] >> (32 + 8 * byte) & (VALUES - 1)]++;
    for (int byte = 0; byte < BYTES && count; byte++) {
        const int shift = 32 + 8 * byte;
        int64_t *const place = places[byte], at = 0;
        if (place[keys[0] >> shift & (VALUES - 1)] == count) continue; /* the same in all */
        for (int value = 0; value < VALUES; value++) {
            const int64_t found = place[value];
            place[value] = at;
            at += found;
        }
        for (int64_t i = 0; i < count; i++) other[place[keys[i] >> shift & (VALUES - 1)]++] = keys[i];
        uint64_t *const sorted = other;
        other = keys;
        keys = sorted;
    }
    return keys;
}
