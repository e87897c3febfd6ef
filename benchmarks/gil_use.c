/* Preloaded by gil_use.py: measures the releases of the GIL by extension modules and by the rest of Python's library. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { PLACES = 4096 };

static void *(*save)(void);
static void (*restore)(void *);

/* By the address that a release returns to. Written by the thread that has the GIL, or that just gave it up. */
static struct { void *at; atomic_long count, outside; } places[PLACES];

static atomic_int on;
static atomic_long held, idle, handovers, released_at;
static long taken_at;
static const void *holder;
static __thread long since;
static __thread int place = -1;

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

void *PyEval_SaveThread(void)
{
    if (!save) save = (void *(*)(void))dlsym(RTLD_NEXT, "PyEval_SaveThread");
    if (!on) { place = -1; return save(); }
    void *at = __builtin_return_address(0);
    int i = (int)((unsigned long)at / 4 % PLACES);
    while (places[i].at && places[i].at != at) i = (i + 1) % PLACES;
    places[i].at = at;
    place = i;
    since = now();
    if (taken_at) held += since - taken_at;
    taken_at = 0;
    released_at = since;
    return save();
}

void PyEval_RestoreThread(void *state)
{
    if (!restore) restore = (void (*)(void *))dlsym(RTLD_NEXT, "PyEval_RestoreThread");
    long wanted = now();
    restore(state);
    if (!on || place < 0) return;
    long begin = now();
    places[place].count++;
    places[place].outside += wanted - since;
    if (released_at) idle += begin - released_at;
    if (holder != &since) handovers++;
    holder = &since;
    taken_at = begin;
}

void gil_begin(void)
{
    for (int i = 0; i < PLACES; i++) places[i].count = places[i].outside = 0;
    held = idle = handovers = released_at = 0;
    taken_at = 0;
    on = 1;
}

/* Nanoseconds held and idle, and hand-overs; lines of library, releases and nanoseconds outside the GIL. */
void gil_end(long *totals, char *lines, size_t room)
{
    on = 0;
    totals[0] = held, totals[1] = idle, totals[2] = handovers;
    for (int i = 0; i < PLACES; i++) {
        Dl_info found;
        if (!places[i].count || !dladdr(places[i].at, &found) || !found.dli_fname) continue;
        int length = snprintf(lines, room, "%s %ld %ld\n", found.dli_fname, places[i].count, places[i].outside);
        if (length < 0 || (size_t)length >= room) break;
        lines += length, room -= (size_t)length;
    }
    *lines = 0;
}
