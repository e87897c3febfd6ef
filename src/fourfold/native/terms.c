/* Index terms of many texts at once: text/tokens.py and text/analysis.py for ASCII. Stems, stop words and words with
   other characters are requested from Python once per word, and cached in a table.

   The caller provides the memory: one block for the table, and buffers for the results. If something does not fit, the
   return value says so, and nothing is written beyond the end of a buffer. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "api.h"
#include "term_table.h"
#include "tokens.h"

enum {
    TERM = 64,     /* maximum characters of a term */
    SHORT = 1024,  /* maximum characters of a run that is split here */
    TOGETHER = 64, /* runs that are requested from memory together */
    AHEAD = 16,    /* runs that are requested before they are used */
};

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
