/* Whether files are still those that were opened, and unmodified. os.stat releases the GIL for each file: a thread that
   waits for it takes it then, and a search would wait for that thread once for each file. */

#ifdef __APPLE__
#define _DARWIN_C_SOURCE
#define st_mtim st_mtimespec
#else
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64
#endif

#include <stdint.h>

#include "api.h"

#ifdef _WIN32
/* Files there have no inodes: the caller asks the operating system in another way. */
API int ff_are_files(const char *const *paths, int64_t count, const uint64_t *stamps, int64_t width)
{
    (void)paths, (void)count, (void)stamps, (void)width;
    return 0;
}
#else
#include <sys/stat.h>

/* Whether each path leads to the file with its stamp: device, inode and, if `width` is 3, modification time in
   nanoseconds. 0 also if a path cannot be read. */
API int ff_are_files(const char *const *paths, int64_t count, const uint64_t *stamps, int64_t width)
{
    for (int64_t i = 0; i < count; i++) {
        const uint64_t *stamp = stamps + width * i;
        struct stat found;
        if (stat(paths[i], &found)) return 0;
        if ((uint64_t)found.st_dev != stamp[0] || (uint64_t)found.st_ino != stamp[1]) return 0;
        uint64_t modified = (uint64_t)found.st_mtim.tv_sec * 1000000000u + (uint64_t)found.st_mtim.tv_nsec;
        if (width > 2 && modified != stamp[2]) return 0;
    }
    return 1;
}
#endif
