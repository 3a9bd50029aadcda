/* Preloaded into a process, makes its disk fail while files of these names are in the folder FAILING_DISK:
   "sync" (EIO), "write" (a part is written, then ENOSPC), "rename" (EIO), "directory" (only directories fail to sync, with EIO). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *folder;

__attribute__((constructor)) static void begin(void) { folder = getenv("FAILING_DISK"); }

static int fails(const char *what) {
    char path[4096];
    if (!folder) return 0;
    snprintf(path, sizeof path, "%s/%s", folder, what);
    int before = errno;
    int found = access(path, F_OK) == 0;
    errno = before;
    return found;
}

static int is_a(int file, mode_t kind) {
    struct stat status;
    return fstat(file, &status) == 0 && (status.st_mode & S_IFMT) == kind;
}

static int sync_fails(int file) {
    if (!fails("sync") && !(fails("directory") && is_a(file, S_IFDIR))) return 0;
    errno = EIO;
    return 1;
}

static int write_fails(int file) { return is_a(file, S_IFREG) && fails("write"); }

static ssize_t full(void) {
    errno = ENOSPC;
    return -1;
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

int fsync(int file) { REAL(fsync); return sync_fails(file) ? -1 : real(file); }
int fdatasync(int file) { REAL(fdatasync); return sync_fails(file) ? -1 : real(file); }
int syncfs(int file) { REAL(syncfs); return sync_fails(file) ? -1 : real(file); }

ssize_t write(int file, const void *bytes, size_t length) {
    REAL(write);
    if (!write_fails(file)) return real(file, bytes, length);
    if (length > 1) real(file, bytes, length / 2);
    return full();
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t at) {
    REAL(pwrite64);
    if (!write_fails(file)) return real(file, bytes, length, at);
    if (length > 1) real(file, bytes, length / 2, at);
    return full();
}

ssize_t pwrite(int file, const void *bytes, size_t length, off_t at) { return pwrite64(file, bytes, length, at); }

ssize_t writev(int file, const struct iovec *parts, int count) {
    REAL(writev);
    return write_fails(file) ? full() : real(file, parts, count);
}

ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t at) {
    REAL(pwritev64);
    return write_fails(file) ? full() : real(file, parts, count, at);
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t at) { return pwritev64(file, parts, count, at); }

int fallocate64(int file, int mode, off64_t at, off64_t length) {
    REAL(fallocate64);
    return write_fails(file) ? (int)full() : real(file, mode, at, length);
}

int fallocate(int file, int mode, off_t at, off_t length) { return fallocate64(file, mode, at, length); }

int rename(const char *from, const char *to) {
    REAL(rename);
    if (!fails("rename")) return real(from, to);
    errno = EIO;
    return -1;
}
