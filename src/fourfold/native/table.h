/* A hash table of numbers above 0, at most half full: each slot holds 1 + an index into a column of ids. */

#include <stdint.h>
#include <stdlib.h>

typedef struct {
    int32_t *slots;
    uint64_t mask;
} Table;

static inline Table table_for(int64_t count)
{
    uint64_t size = 16;
    while (size < 2 * (uint64_t)count) size *= 2;
    const Table made = {calloc(size, sizeof(int32_t)), size - 1};
    return made;
}

/* The slot of an id, or the free one for it. */
static inline int32_t *slot_of(Table table, const int64_t *ids, int64_t id)
{
    uint64_t at = (((uint64_t)id * 0x9E3779B97F4A7C15u) >> 20) & table.mask;
    while (table.slots[at] && ids[table.slots[at] - 1] != id) at = (at + 1) & table.mask;
    return table.slots + at;
}
