/* A device that fails on demand: preloaded into the gateway, it stands before the calls with which
 * SQLite writes and syncs.
 *
 * While the file named by FAULT_FILE exists, calls of one kind on files with one ending fail. It
 * holds the kind (write or sync), the error's number, and the ending: "sync 5 sluice.db-wal". */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether this call is to fail. Sets errno if so. */
static int fails(const char *kind, int fd) {
    const char *control = getenv("FAULT_FILE");
    int file = control ? open(control, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return 0;
    char said[256];
    ssize_t size = read(file, said, sizeof said - 1);
    close(file);
    char of[16], ending[128], link[64], path[PATH_MAX];
    int error;
    said[size < 0 ? 0 : size] = 0;
    if (sscanf(said, "%15s %d %127s", of, &error, ending) != 3 || strcmp(of, kind) != 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    size_t end = strlen(ending);
    if (length < (ssize_t)end || memcmp(path + length - end, ending, end) != 0)
        return 0;
    errno = error;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    return fails("write", fd) ? -1 : REAL(pwrite64)(fd, bytes, count, at);
}

int fsync(int fd) {
    return fails("sync", fd) ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd) {
    return fails("sync", fd) ? -1 : REAL(fdatasync)(fd);
}
