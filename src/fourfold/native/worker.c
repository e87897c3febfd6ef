/* A thread that searches vectors while its caller does the rest of a search, without the GIL.

   The caller does itself what the thread has not taken when the result is needed. So nothing depends on the thread: it
   may be busy, or not exist, as on Windows, in a forked child, or where no thread can be started. */

#ifndef _WIN32
#define _POSIX_C_SOURCE 200809L
#endif

#include "rankings.h"

#ifdef _WIN32

API void ff_begin(Nearest *job) { (void)job; }
API int64_t ff_finish(Nearest *job) { return ff_nearest(job); }
API int ff_is_busy(const Nearest *job) { return (void)job, 0; }
API void ff_end(void) {}

#else

#include <pthread.h>
#include <signal.h>

enum { NEW, OFFERED, RUNNING, OVER }; /* stages of a job */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for everything here, and for the stages */
static pthread_cond_t given = PTHREAD_COND_INITIALIZER, over = PTHREAD_COND_INITIALIZER;
static Nearest *offered, *running;
static int exists, has_ended, follows_forks;

static void *work(void *nothing)
{
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!offered) pthread_cond_wait(&given, &lock);
        Nearest *const job = running = offered;
        offered = NULL;
        job->stage = RUNNING;
        pthread_mutex_unlock(&lock);
        ff_nearest(job);
        pthread_mutex_lock(&lock);
        job->stage = OVER; /* its memory may be freed as soon as the lock is free */
        running = NULL;
        pthread_cond_broadcast(&over);
    }
    return nothing;
}

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

/* A child has no thread: what it was doing is done again by whoever needs the result. */
static void in_child(void)
{
    const pthread_cond_t fresh = PTHREAD_COND_INITIALIZER;
    given = over = fresh;
    if (offered) offered->stage = NEW;
    if (running) running->stage = NEW;
    offered = running = NULL;
    exists = 0;
    pthread_mutex_unlock(&lock);
}

/* Starts the thread, which leaves signals to the others, except for those that it causes itself. */
static int start(void)
{
    pthread_t thread;
    sigset_t blocked, before;
    if (!follows_forks) follows_forks = !pthread_atfork(before_fork, after_fork, in_child);
    if (!follows_forks) return 0;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGSEGV);
    sigdelset(&blocked, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    const int failed = pthread_create(&thread, NULL, work, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !failed && !pthread_detach(thread);
}

/* Offers a new job to the thread. The job and all that it points to must live until it is not busy any more. */
API void ff_begin(Nearest *job)
{
    pthread_mutex_lock(&lock);
    if (!exists && !has_ended) exists = start();
    const int accepted = exists && !has_ended && !offered;
    if (accepted) {
        job->stage = OFFERED;
        offered = job;
    }
    pthread_mutex_unlock(&lock);
    if (accepted) pthread_cond_signal(&given);
}

/* Waits for a job, or does it here if it was not begun or not taken. Returns the same as `ff_nearest`. */
API int64_t ff_finish(Nearest *job)
{
    pthread_mutex_lock(&lock);
    if (offered == job) {
        offered = NULL;
        job->stage = NEW;
    }
    while (job->stage == RUNNING) pthread_cond_wait(&over, &lock);
    const int done = job->stage == OVER;
    pthread_mutex_unlock(&lock);
    return done ? job->found : ff_nearest(job);
}

/* Whether the thread has the job, or will have it. */
API int ff_is_busy(const Nearest *job)
{
    pthread_mutex_lock(&lock);
    const int busy = job == offered || job == running;
    pthread_mutex_unlock(&lock);
    return busy;
}

/* Waits until the thread reads nothing any more, and gives it no more jobs: the process ends. */
API void ff_end(void)
{
    pthread_mutex_lock(&lock);
    has_ended = 1;
    if (offered) offered->stage = NEW;
    offered = NULL;
    while (running) pthread_cond_wait(&over, &lock);
    pthread_mutex_unlock(&lock);
}

#endif
