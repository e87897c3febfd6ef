/* A table of words and runs with their terms, in one block of memory. For terms.c. */

#include <stdint.h>
#include <string.h>

enum {
    TERMS = 8192, /* maximum characters of the terms of a run */
    BLOCK = 16,   /* readable bytes after the last terms */
};
#define KNOWN 0x80000000u

enum { FULL = -1, NO_ROOM = -2, MALFORMED = -3, STOP = -4, LATER = 1, LONG = 2 };
enum { WORD = 1, RUN = 2 }; /* the two highest bits of an entry's length */
#define LENGTH 0x3fffffffu

typedef struct {
    uint32_t size; /* of the whole block, in cells of four bytes */
    uint32_t used;
    uint32_t bits; /* 2^bits slots follow */
    uint32_t count;
} Table;

typedef struct {
    uint32_t hash; /* of a key */
    uint32_t entry; /* 0: free */
} Slot;

/* The terms of a word (one or none) or of a run. The key follows the entry, and after it there is room for one term that
   is as long as the key. `value` is the position of the terms: their hashes, then their letters with a space after each. */
typedef struct {
    uint32_t length;
    uint32_t value; /* 0: unknown */
    uint32_t terms; /* of an unknown value, 1: requested */
    uint32_t letters;
} Entry;

static uint32_t *cells(Table *table) { return (uint32_t *)table; }
static Slot *slots(Table *table) { return (Slot *)(table + 1); }
static uint32_t words_of(int64_t bytes) { return (uint32_t)((bytes + 3) / 4); }
static uint32_t header(void) { return (uint32_t)(sizeof(Entry) / 4); }

/* Up to eight bytes as one number. */
static uint64_t number_of(const uint8_t *bytes, int64_t length)
{
    uint64_t number = 0;
    uint32_t first, last;
    if (length >= 8) {
        memcpy(&number, bytes, 8);
    } else if (length >= 4) {
        memcpy(&first, bytes, 4);
        memcpy(&last, bytes + length - 4, 4);
        number = (uint64_t)first << 32 | last;
    } else if (length) {
        number = (uint64_t)bytes[0] << 16 | (uint64_t)bytes[length / 2] << 8 | bytes[length - 1];
    }
    return number;
}

static uint32_t hash_of(const uint8_t *key, int64_t length, uint32_t kind)
{
    uint64_t hash = ((uint64_t)length << 2 | kind) * 0x9e3779b97f4a7c15u;
    for (; length > 8; key += 8, length -= 8) {
        hash = (hash ^ number_of(key, 8)) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    hash = (hash ^ number_of(key, length)) * 0xff51afd7ed558ccdu;
    hash = (hash ^ hash >> 32) * 0xc4ceb9fe1a85ec53u;
    return (uint32_t)(hash >> 32);
}

/* The slot at which the search for a hash begins. */
static Slot *slot_of(Table *table, uint32_t hash) { return slots(table) + (hash & (((uint32_t)1 << table->bits) - 1)); }

/* Returns the entry of a key, adding it if it is new; NULL if the table is full. */
static Entry *entry_of(Table *table, const uint8_t *key, int64_t length, uint32_t kind, uint32_t hash)
{
    const uint32_t kinded = (uint32_t)length | kind << 30, mask = ((uint32_t)1 << table->bits) - 1;
    Slot *slot = slot_of(table, hash);
    while (slot->entry) {
        Entry *entry = (Entry *)(cells(table) + slot->entry);
        if (slot->hash == hash && entry->length == kinded && !memcmp(entry + 1, key, (size_t)length)) return entry;
        if (++slot == slots(table) + mask + 1) slot = slots(table);
    }
    if (length >= LENGTH || table->count > mask / 2) return NULL;
    const uint32_t needed = header() + words_of(length) + 1 + words_of(length + 1);
    if ((int64_t)table->size - table->used < (int64_t)needed + BLOCK / 4) return NULL;
    Entry *entry = (Entry *)(cells(table) + table->used);
    *entry = (Entry){.length = kinded};
    memcpy(entry + 1, key, (size_t)length);
    *slot = (Slot){hash, table->used};
    table->used += needed;
    table->count++;
    return entry;
}

/* The CRC-32 of each number of four bits. */
static const uint32_t CRCS[16] = {
    0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu, 0x76dc4190u, 0x6b6b51f4u, 0x4db26158u, 0x5005713cu,
    0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu, 0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu,
};

static uint32_t crc32_of(const uint8_t *bytes, int64_t length)
{
    uint32_t crc = 0xffffffffu;
    for (int64_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ CRCS[crc & 15];
        crc = crc >> 4 ^ CRCS[crc & 15];
    }
    return ~crc;
}

/* Sets the terms of an entry, given in `letters` with a space after each. */
static int set_terms(Table *table, Entry *entry, const uint8_t *letters, int64_t length)
{
    int64_t terms = 0;
    for (int64_t i = 0; i < length; i++) terms += letters[i] == ' ';
    const int64_t key = entry->length & LENGTH, needed = terms + words_of(length);
    uint32_t *hashes = (uint32_t *)(entry + 1) + words_of(key);
    if (terms > 1 || length > key + 1) {
        if ((int64_t)table->size - table->used < needed + BLOCK / 4) return FULL;
        hashes = cells(table) + table->used;
        table->used += (uint32_t)needed;
    }
    entry->value = (uint32_t)(hashes - cells(table)) | KNOWN;
    for (int64_t start = 0, i = 0; i < length; i++) {
        if (letters[i] != ' ') continue;
        *hashes++ = crc32_of(letters + start, i - start);
        start = i + 1;
    }
    memcpy(hashes, letters, (size_t)length);
    entry->terms = (uint32_t)terms;
    entry->letters = (uint32_t)length;
    return 0;
}

static const uint8_t *letters_of(Table *table, const Entry *entry)
{
    return (const uint8_t *)(cells(table) + (entry->value & ~KNOWN) + entry->terms);
}
