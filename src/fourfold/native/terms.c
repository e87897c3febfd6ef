/* Index terms of many texts at once: text/tokens.py and text/analysis.py for ASCII. Stems, stop words and words with
   other characters are requested from Python once per word, and cached in a table.

   The caller provides the memory: one block for the table, and buffers for the results. If something does not fit, the
   return value says so, and nothing is written beyond the end of a buffer. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "api.h"

enum {
    READ = 256,   /* maximum characters of a token that are used */
    TERM = 64,    /* maximum characters of a term */
    JOINED = 7,   /* maximum words of a token after the first one */
    SHORT = 1024, /* maximum characters of a run that is split here */
    TERMS = 8192, /* maximum characters of the terms of a run */
    BLOCK = 16,   /* readable bytes after the last terms */
    TOGETHER = 64, /* runs that are requested from memory together */
    AHEAD = 16,    /* runs that are requested before they are used */
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

typedef struct {
    uint32_t *hashes;
    int64_t hash_count, hash_room;
    uint8_t *letters;
    int64_t letter_count, letter_room;
} Found;

typedef struct {
    uint8_t *keys;
    int64_t length, room;
    uint32_t *entries;
    int64_t count, most;
} Asked;

/* ---------------------------------------------------------------- the table */

static uint32_t *cells(Table *table) { return (uint32_t *)table; }
static Slot *slots(Table *table) { return (Slot *)(table + 1); }
static uint32_t words_of(int64_t bytes) { return (uint32_t)((bytes + 3) / 4); }
static uint32_t header(void) { return (uint32_t)(sizeof(Entry) / 4); }

API int64_t ff_terms_clear(uint32_t *memory, int64_t size, int64_t bits)
{
    Table *table = (Table *)memory;
    const int64_t start = (int64_t)(sizeof(Table) + (sizeof(Slot) << bits)) / 4;
    if (start >= size || size >= KNOWN) return NO_ROOM;
    if (table->size) memset(memory, 0, (size_t)start * 4); /* new memory is zero, and most of it is never needed */
    table->count = 0;
    table->size = (uint32_t)size;
    table->used = (uint32_t)start;
    table->bits = (uint32_t)bits;
    return 0;
}

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

/* ---------------------------------------------------------------- a token and its pieces */

enum { LOWER = 1, UPPER = 2, DIGIT = 4, BAR = 8, JOINT = 16, SHARP = 32, OTHER = 64 };

/* Kinds of bytes; those that are not ASCII are OTHER. */
#define OTHERS 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64
static const uint8_t KINDS[256] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 16, 0, 16, 16, 0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0,
    16, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 0, 8,
    0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0,
    OTHERS, OTHERS, OTHERS, OTHERS, OTHERS, OTHERS, OTHERS, OTHERS,
};

static int kind_of(uint8_t c) { return KINDS[c]; }
static int is_lower(uint8_t c) { return kind_of(c) & LOWER; }
static int is_upper(uint8_t c) { return kind_of(c) & UPPER; }
static int is_digit(uint8_t c) { return kind_of(c) & DIGIT; }
static int is_letter(uint8_t c) { return kind_of(c) & (LOWER | UPPER); }
static int is_word(uint8_t c) { return kind_of(c) & (LOWER | UPPER | DIGIT | BAR); }
static int is_joint(uint8_t c) { return kind_of(c) & JOINT; }
static uint8_t lower(uint8_t c) { return is_upper(c) ? (uint8_t)(c + 32) : c; }

static int64_t after_word(const uint8_t *text, int64_t at, int64_t end)
{
    while (at < end && is_word(text[at])) at++;
    return at;
}

/* Finds the next token from `*start` on and sets `*start` to it; returns its end, or -1 if there is none. */
static int64_t next_token(const uint8_t *text, int64_t *start, int64_t end)
{
    int64_t at = *start;
    while (at < end && !is_word(text[at])) at++;
    if (at >= end) return -1;
    *start = at;
    at = after_word(text, at, end);
    for (int more = 0; more < JOINED && at + 1 < end && is_joint(text[at]) && is_word(text[at + 1]); more++)
        at = after_word(text, at + 1, end);
    if (at + 1 < end && text[at] == '+' && text[at + 1] == '+' && (at + 2 >= end || !is_word(text[at + 2]))) return at + 2;
    if (at < end && text[at] == '#' && (at + 1 >= end || !is_word(text[at + 1]))) return at + 1;
    return at;
}

typedef struct {
    const uint8_t *letters;
    int64_t length;
} Piece;

/* A token in lower case, the same without joints, and its pieces, which point into either. */
typedef struct {
    uint8_t small[READ], whole[READ];
    Piece pieces[READ + 1];
    int64_t count;
} Cut;

static int same(Piece a, Piece b) { return a.length == b.length && !memcmp(a.letters, b.letters, (size_t)a.length); }

/* Whether a word is split before `at`. */
static int is_cut(const uint8_t *word, int64_t at, int64_t length)
{
    const uint8_t before = word[at - 1], next = word[at];
    if (is_lower(before) && is_upper(next)) return 1;
    if (is_upper(before) && is_upper(next) && at + 2 < length && is_lower(word[at + 1]) && is_letter(word[at + 2]))
        return 1;
    if (is_digit(next) && at >= 2 && is_letter(before) && is_letter(word[at - 2])) return 1;
    return is_digit(before) && at + 1 < length && is_letter(next) && is_letter(word[at + 1]);
}

/* Whether a word of letters and digits has no humps: all digits, or letters in one case except the first. */
static int is_one(const uint8_t *word, int64_t length)
{
    int64_t upper = 0, small = 0;
    for (int64_t i = 0; i < length; i++) {
        upper += is_upper(word[i]) != 0;
        small += is_lower(word[i]) != 0;
    }
    if (!upper && !small) return 1;
    return upper + small == length && (!upper || !small || (upper == 1 && is_upper(word[0])));
}

/* Adds the parts of a token from `start` to `end`, a range of letters and digits. */
static void add_parts(Cut *cut, const uint8_t *token, int64_t start, int64_t end, int humped)
{
    const uint8_t *word = token + start;
    const int64_t length = end - start, begin = start;
    if (humped && !is_one(word, length))
        for (int64_t at = start + 1; at < end; at++) {
            if (!is_cut(word, at - begin, length)) continue;
            cut->pieces[cut->count++] = (Piece){cut->small + start, at - start};
            start = at;
        }
    cut->pieces[cut->count++] = (Piece){cut->small + start, end - start};
}

/* Returns the caseless pieces of a token: the whole first, then its parts, if any. */
static const Piece *pieces_of(const uint8_t *token, int64_t length, Cut *cut, int64_t *count)
{
    int64_t all = 0, start = 0;
    int humped = 0, small = 0;
    if (length > READ) length = READ;
    for (int64_t i = 0; i < length; i++) {
        cut->small[i] = lower(token[i]);
        humped |= is_upper(token[i]) || is_digit(token[i]);
        small |= is_lower(token[i]);
        if (token[i] != '-' && token[i] != '_') cut->whole[all++] = cut->small[i];
    }
    cut->count = 1;
    for (int64_t at = 0; at <= length; at++) {
        if (at < length && (is_letter(token[at]) || is_digit(token[at]))) continue;
        if (at > start) add_parts(cut, token, start, at, humped || !small);
        start = at + 1;
    }
    const Piece whole = {cut->whole, all};
    if (cut->count == 1 || (cut->count == 2 && same(cut->pieces[1], whole))) {
        *count = cut->count - 1;
        return cut->pieces + 1;
    }
    cut->pieces[0] = whole;
    *count = 1;
    for (int64_t i = 1; i < cut->count; i++)
        if (cut->pieces[i].length > 1 && !same(cut->pieces[i], whole)) cut->pieces[(*count)++] = cut->pieces[i];
    return cut->pieces;
}

/* ---------------------------------------------------------------- a run and its terms */

/* Requests the terms of an entry from Python, once. */
static int ask(Table *table, Entry *entry, Asked *asked)
{
    const int64_t length = entry->length & LENGTH;
    if (entry->terms) return LATER;
    if (asked->count == asked->most || asked->room - asked->length <= length) return STOP;
    memcpy(asked->keys + asked->length, entry + 1, (size_t)length);
    asked->length += length;
    asked->keys[asked->length++] = '\n';
    asked->entries[asked->count++] = (uint32_t)((uint32_t *)entry - cells(table));
    entry->terms = 1;
    return LATER;
}

/* Appends the term of a piece and a space to `letters`. */
static int add_term(Table *table, Piece piece, uint8_t *letters, int64_t *length, Asked *asked)
{
    int is_name = 0;
    if (piece.length > TERM) piece.length = TERM;
    for (int64_t i = 0; i < piece.length; i++) is_name |= !is_lower(piece.letters[i]);
    const uint8_t *term = piece.letters;
    int64_t size = piece.length;
    if (!is_name) {
        const uint32_t hash = hash_of(piece.letters, piece.length, WORD);
        Entry *entry = entry_of(table, piece.letters, piece.length, WORD, hash);
        if (!entry) return FULL;
        if (!entry->value) return ask(table, entry, asked);
        term = letters_of(table, entry);
        size = entry->letters;
    }
    if (*length + size + 1 > TERMS) return LONG;
    memcpy(letters + *length, term, (size_t)size);
    *length += size;
    if (is_name) letters[(*length)++] = ' ';
    return 0;
}

static int is_plain(const uint8_t *run, int64_t length)
{
    for (int64_t i = 0; i < length; i++)
        if (run[i] >= 0x80) return 0;
    return length <= SHORT;
}

/* Finds the terms of a new run; LATER if some were requested from Python. */
static int find_terms(Table *table, Entry *entry, const uint8_t *run, int64_t length, Asked *asked)
{
    uint8_t letters[TERMS];
    int64_t found = 0, start = 0, end, count;
    int all = 0;
    Cut cut;
    if (!is_plain(run, length)) return ask(table, entry, asked);
    for (; (end = next_token(run, &start, length)) >= 0; start = end) {
        const Piece *pieces = pieces_of(run + start, end - start, &cut, &count);
        for (int64_t i = 0; i < count; i++) {
            const int done = add_term(table, pieces[i], letters, &found, asked);
            if (done == LONG) return ask(table, entry, asked);
            if (done < 0) return done;
            all |= done;
        }
    }
    return all ? all : set_terms(table, entry, letters, found);
}

static int emit(Table *table, const Entry *entry, Found *found)
{
    if (found->hash_room - found->hash_count < entry->terms) return NO_ROOM;
    if (found->letter_room - found->letter_count < entry->letters) return NO_ROOM;
    const uint32_t *hashes = cells(table) + (entry->value & ~KNOWN);
    uint8_t *letters = found->letters + found->letter_count;
    if (entry->terms == 1) found->hashes[found->hash_count] = *hashes;
    else memcpy(found->hashes + found->hash_count, hashes, (size_t)entry->terms * 4);
    if (entry->letters <= BLOCK && found->letter_room - found->letter_count >= BLOCK)
        memcpy(letters, letters_of(table, entry), BLOCK); /* most are this short, and a fixed size copies faster */
    else
        memcpy(letters, letters_of(table, entry), entry->letters);
    found->hash_count += entry->terms;
    found->letter_count += entry->letters;
    return 0;
}

/* ---------------------------------------------------------------- texts */

/* Whether the character at `at` belongs to a run; a full stop before a space does not. */
static int in_run(const uint8_t *at) { return kind_of(*at) && !(*at == '.' && at[1] == ' '); }

/* Finds the start and end of the next run of a text, which is followed by a zero byte. */
static int next_run(const uint8_t *text, int64_t *start, int64_t *end, int64_t length)
{
    int64_t at = *end;
    while (at < length && !in_run(text + at)) at++;
    *start = at;
    while (in_run(text + at)) at++;
    *end = at;
    return *start < at;
}

/* The entries of runs, in order, as positions in the table. */
typedef struct {
    uint32_t *entries;
    int64_t count, room;
} Runs;

typedef struct {
    int64_t start, end;
    uint32_t hash;
} Run;

/* Finds the next runs of a text, up to TOGETHER; `*end`: where the last one ended. Requests their slots and entries from
   memory before the first of them is used: they are spread over many megabytes, and waiting for each takes longer than
   everything else. */
static int64_t next_runs(Table *table, const uint8_t *text, int64_t length, int64_t *end, Run *runs)
{
    int64_t count = 0, start;
    for (; count < TOGETHER && next_run(text, &start, end, length); count++) {
        runs[count] = (Run){start, *end, hash_of(text + start, *end - start, RUN)};
        __builtin_prefetch(slot_of(table, runs[count].hash));
    }
    for (int64_t i = 0; i < count; i++) {
        const Slot *slot = slot_of(table, runs[i].hash);
        if (slot->entry) __builtin_prefetch(cells(table) + slot->entry);
    }
    return count;
}

static int scan_text(Table *table, const uint8_t *text, int64_t length, Runs *runs, Asked *asked)
{
    Run next[TOGETHER];
    int64_t count, end = 0;
    while ((count = next_runs(table, text, length, &end, next)) > 0)
        for (const Run *run = next; run < next + count; run++) {
            const uint8_t *key = text + run->start;
            Entry *entry = entry_of(table, key, run->end - run->start, RUN, run->hash);
            if (!entry) return FULL;
            if (!entry->value && !entry->terms) {
                const int done = find_terms(table, entry, key, run->end - run->start, asked);
                if (done < 0) return done;
                if (done) entry->terms = 1; /* all of its words are requested, so they are not looked at again */
            }
            if (runs->count == runs->room) return NO_ROOM;
            runs->entries[runs->count++] = (uint32_t)((uint32_t *)entry - cells(table));
        }
    return 0;
}

/* Appends the terms from these positions on once more. */
static int repeat(Found *found, int64_t hashes, int64_t letters)
{
    const int64_t more_hashes = found->hash_count - hashes, more_letters = found->letter_count - letters;
    if (found->hash_room - found->hash_count < more_hashes) return NO_ROOM;
    if (found->letter_room - found->letter_count < more_letters) return NO_ROOM;
    memcpy(found->hashes + found->hash_count, found->hashes + hashes, (size_t)more_hashes * 4);
    memcpy(found->letters + found->letter_count, found->letters + letters, (size_t)more_letters);
    found->hash_count += more_hashes;
    found->letter_count += more_letters;
    return 0;
}

/* Finds the runs of items, given as title and text, each followed by a zero byte.

   Writes the entry of each run, and where the runs of each title and text end. Returns the number of words and runs whose
   terms Python must supply, one on each line of `keys`: pass the answers to ff_terms_learn, then call ff_terms_emit. If
   the last end is -1, too many keys were requested: scan again. Negative: FULL (clear the table) or MALFORMED input. */
API int64_t ff_terms_scan(
    uint32_t *memory, const uint8_t *text, int64_t length, int64_t items, uint32_t *runs, int64_t run_room,
    int64_t *run_ends, uint8_t *keys, int64_t key_room, uint32_t *entries, int64_t most, int64_t *key_length)
{
    Runs found = {runs, 0, run_room};
    Asked asked = {keys, 0, key_room, entries, 0, most};
    int64_t at = 0;
    for (int64_t part = 0; part < 2 * items; part++) {
        const uint8_t *zero = memchr(text + at, 0, (size_t)(length - at));
        if (!zero) return MALFORMED;
        const int done = scan_text((Table *)memory, text + at, zero - (text + at), &found, &asked);
        if (done < 0 && (done != STOP || !asked.count)) return done == STOP ? NO_ROOM : done;
        if (done < 0) {
            run_ends[2 * items - 1] = -1;
            *key_length = asked.length;
            return asked.count;
        }
        at = zero - text + 1;
        run_ends[part] = found.count;
    }
    if (at != length) return MALFORMED;
    *key_length = asked.length;
    return asked.count;
}

/* Writes the terms of scanned items: the hashes of all terms in order, their letters with a space after each, and the
   ends of each item in both. Titles count twice. Negative: FULL, NO_ROOM (larger buffers) or MALFORMED (a key was not
   answered). */
API int64_t ff_terms_emit(
    uint32_t *memory, const uint32_t *runs, const int64_t *run_ends, int64_t items, uint32_t *hashes, int64_t hash_room,
    uint8_t *letters, int64_t letter_room, int64_t *hash_ends, int64_t *letter_ends)
{
    Table *table = (Table *)memory;
    Found found = {hashes, 0, hash_room, letters, 0, letter_room};
    Asked none = {NULL, 0, 0, NULL, 0, 0};
    for (int64_t part = 0, run = 0; part < 2 * items; part++) {
        const int64_t hashes_before = found.hash_count, letters_before = found.letter_count;
        int done = 0;
        for (; run < run_ends[part]; run++) {
            if (run + AHEAD < run_ends[2 * items - 1]) __builtin_prefetch(cells(table) + runs[run + AHEAD]);
            Entry *entry = (Entry *)(cells(table) + runs[run]);
            if (!entry->value) {
                done = find_terms(table, entry, (const uint8_t *)(entry + 1), entry->length & LENGTH, &none);
                if (done) return done == FULL ? FULL : MALFORMED;
            }
            done = emit(table, entry, &found);
            if (done < 0) return done;
        }
        if (part % 2 == 0) done = repeat(&found, hashes_before, letters_before);
        if (done < 0) return done;
        hash_ends[part / 2] = found.hash_count;
        letter_ends[part / 2] = found.letter_count;
    }
    return 0;
}

/* Stores the answers to the requested keys: one line each, with a space after each term. */
API int64_t ff_terms_learn(
    uint32_t *memory, const uint32_t *entries, int64_t count, const uint8_t *answers, int64_t length)
{
    Table *table = (Table *)memory;
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *line_end = at < length ? memchr(answers + at, '\n', (size_t)(length - at)) : NULL;
        if (!line_end) return MALFORMED;
        const int done = set_terms(table, (Entry *)(cells(table) + entries[i]), answers + at, line_end - (answers + at));
        if (done < 0) return done;
        at = line_end - answers + 1;
    }
    return at == length ? 0 : MALFORMED;
}
