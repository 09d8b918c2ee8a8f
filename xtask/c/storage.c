/*
 * A library that `cargo xtask torture` and `cargo xtask power-cut` preload into `lango`. It wraps functions of the C library
 * and affects only the files of one database:
 *
 *   faults  syncs fail or are slow, with probabilities that the test may change while the program runs;
 *   trace   every operation that changes the disk, and every sync, is appended to one file.
 *
 * Environment:
 *
 *   STORAGE_DATABASE  path of the database; its side files begin with the same path. Their syncs may fail.
 *   STORAGE_CONTROL   file with three numbers: failing syncs per thousand, slow syncs per thousand, and the delay of a slow
 *                     sync in microseconds. It is read before each sync.
 *   STORAGE_NO_SYNC   if set, syncs of the database do not reach the disk. A killed process loses no data by that, and other
 *                     programs that use the disk do not slow down the test.
 *   STORAGE_SEED      seed of the random numbers.
 *   STORAGE_TRACED    directory; operations on files and directories below it are traced.
 *   STORAGE_TRACE     file that the trace is appended to. If unset, nothing is traced.
 *   STORAGE_PARENT    process id; a direct child of that process is killed when its parent dies.
 *
 * A record of the trace is a header, a path, and the bytes of a write. Records are in the order in which the operations
 * took effect, also across threads and processes: a lock is held from before the operation until its record is written.
 * A sync is recorded after it succeeded, with the length of the trace when it began: operations that were recorded before
 * that length are durable.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MAGIC = 0x31545344, PATH = 4096 };

enum operation { CREATE = 1, WRITE, TRUNCATE, SYNC, SYNC_DIRECTORY, UNLINK, RENAME, MAKE_DIRECTORY };

struct header {
    uint32_t magic;
    uint32_t operation;
    uint64_t inode;
    /* WRITE: the offset. TRUNCATE: the new length. Syncs: the length of the trace when the sync began. */
    uint64_t offset;
    uint32_t path_length;
    uint32_t data_length;
};

static const char *database, *traced;
static int has_no_sync;
static int control = -1, trace = -1;
static _Atomic uint64_t random_state;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* The wrapped function of the C library. */
#define REAL(type, name, ...)                                        \
    static type (*real)(__VA_ARGS__);                                \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int real_open(const char *path, int flags) {
    REAL(int, "open", const char *, int, ...);
    return real(path, flags | O_CLOEXEC, 0600);
}

static ssize_t real_write(int file, const void *bytes, size_t length) {
    REAL(ssize_t, "write", int, const void *, size_t);
    return real(file, bytes, length);
}

__attribute__((constructor)) static void initialize(void) {
    const char *path, *seed, *parent;
    database = getenv("STORAGE_DATABASE");
    traced = getenv("STORAGE_TRACED");
    has_no_sync = getenv("STORAGE_NO_SYNC") != NULL;
    if ((path = getenv("STORAGE_CONTROL"))) control = real_open(path, O_RDONLY);
    if ((path = getenv("STORAGE_TRACE"))) trace = real_open(path, O_RDWR | O_APPEND | O_CREAT);
    seed = getenv("STORAGE_SEED");
    random_state = (seed ? strtoull(seed, NULL, 10) : 0) ^ ((uint64_t)getpid() << 32);
    parent = getenv("STORAGE_PARENT");
    if (parent && getppid() == atoi(parent)) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* The parent may have died before the call above. */
        if (getppid() != atoi(parent)) _exit(1);
    }
}

/* SplitMix64. */
static uint64_t next_random(void) {
    uint64_t z = atomic_fetch_add(&random_state, 0x9E3779B97F4A7C15ull) + 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static int path_of(int file, char *path) {
    char link[64];
    ssize_t length;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    length = readlink(link, path, PATH - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return 1;
}

static int is_database(const char *path) {
    return database && strncmp(path, database, strlen(database)) == 0;
}

/* The index of the write-ahead log is rebuilt after a power cut, so its contents are irrelevant. */
static int is_index(const char *path) {
    size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, "-shm") == 0;
}

static int is_traced(const char *path) {
    size_t length;
    if (trace < 0 || !traced || !path) return 0;
    length = strlen(traced);
    return strncmp(path, traced, length) == 0 && (path[length] == '/' || !path[length]) && !is_index(path);
}

static int is_traced_file(int file) {
    char path[PATH];
    return trace >= 0 && path_of(file, path) && is_traced(path);
}

static void lock_trace(void) {
    pthread_mutex_lock(&mutex);
    while (flock(trace, LOCK_EX) < 0 && errno == EINTR) {
    }
}

static void unlock_trace(void) {
    int saved = errno;
    flock(trace, LOCK_UN);
    pthread_mutex_unlock(&mutex);
    errno = saved;
}

static uint64_t trace_length(void) {
    struct stat status;
    return fstat(trace, &status) < 0 ? 0 : (uint64_t)status.st_size;
}

static uint64_t inode_of(int file) {
    struct stat status;
    return fstat(file, &status) < 0 ? 0 : (uint64_t)status.st_ino;
}

static void append(enum operation operation, uint64_t inode, uint64_t offset, const char *path, const struct iovec *data) {
    static char *record;
    static size_t capacity;
    struct header header = {MAGIC, operation, inode, offset, path ? strlen(path) : 0, data ? data->iov_len : 0};
    size_t length = sizeof header + header.path_length + header.data_length, done = 0;
    int saved = errno;
    if (length > capacity) {
        char *larger = realloc(record, length);
        if (!larger) abort();
        record = larger;
        capacity = length;
    }
    memcpy(record, &header, sizeof header);
    if (path) memcpy(record + sizeof header, path, header.path_length);
    if (data) memcpy(record + sizeof header + header.path_length, data->iov_base, header.data_length);
    while (done < length) {
        ssize_t count = real_write(trace, record + done, length - done);
        if (count < 0 && errno != EINTR) abort();
        if (count > 0) done += (size_t)count;
    }
    errno = saved;
}

/* ---- creation and names ---- */

static int open_traced(int (*real)(const char *, int, ...), const char *path, int flags, mode_t mode) {
    struct stat status;
    int existed, file;
    if (!(flags & O_CREAT) || !is_traced(path)) return real(path, flags, mode);
    lock_trace();
    existed = stat(path, &status) == 0;
    file = real(path, flags, mode);
    if (file >= 0 && !existed) append(CREATE, inode_of(file), 0, path, NULL);
    if (file >= 0 && existed && (flags & O_TRUNC)) append(TRUNCATE, inode_of(file), 0, NULL, NULL);
    unlock_trace();
    return file;
}

static mode_t mode_of(int flags, va_list arguments) {
    return flags & O_CREAT ? (mode_t)va_arg(arguments, int) : 0;
}

int open(const char *path, int flags, ...) {
    REAL(int, "open", const char *, int, ...);
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return open_traced(real, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    REAL(int, "open64", const char *, int, ...);
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return open_traced(real, path, flags, mode);
}

int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    int result;
    if (!is_traced(path)) return real(path, mode);
    lock_trace();
    result = real(path, mode);
    if (result == 0) append(MAKE_DIRECTORY, 0, 0, path, NULL);
    unlock_trace();
    return result;
}

int unlink(const char *path) {
    REAL(int, "unlink", const char *);
    int result;
    if (!is_traced(path)) return real(path);
    lock_trace();
    result = real(path);
    if (result == 0) append(UNLINK, 0, 0, path, NULL);
    unlock_trace();
    return result;
}

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *);
    struct iovec target = {(void *)to, strlen(to)};
    int result;
    if (!is_traced(from) && !is_traced(to)) return real(from, to);
    lock_trace();
    result = real(from, to);
    if (result == 0) append(RENAME, 0, 0, from, &target);
    unlock_trace();
    return result;
}

/* ---- contents ---- */

static void record_write(int file, uint64_t offset, const void *bytes, ssize_t count) {
    struct iovec data = {(void *)bytes, count > 0 ? (size_t)count : 0};
    if (count > 0) append(WRITE, inode_of(file), offset, NULL, &data);
}

ssize_t pwrite(int file, const void *bytes, size_t length, off_t offset) {
    REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
    ssize_t count;
    if (!is_traced_file(file)) return real(file, bytes, length, offset);
    lock_trace();
    count = real(file, bytes, length, offset);
    record_write(file, (uint64_t)offset, bytes, count);
    unlock_trace();
    return count;
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t offset) {
    return pwrite(file, bytes, length, (off_t)offset);
}

static uint64_t end_of_write(int file) {
    off_t position = lseek(file, 0, SEEK_CUR);
    return position < 0 ? 0 : (uint64_t)position;
}

ssize_t write(int file, const void *bytes, size_t length) {
    ssize_t count;
    if (!is_traced_file(file)) return real_write(file, bytes, length);
    lock_trace();
    count = real_write(file, bytes, length);
    if (count > 0) record_write(file, end_of_write(file) - (uint64_t)count, bytes, count);
    unlock_trace();
    return count;
}

ssize_t writev(int file, const struct iovec *pieces, int number) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    ssize_t count, rest;
    if (!is_traced_file(file)) return real(file, pieces, number);
    lock_trace();
    count = rest = real(file, pieces, number);
    for (int i = 0; i < number && rest > 0; i++) {
        ssize_t piece = rest < (ssize_t)pieces[i].iov_len ? rest : (ssize_t)pieces[i].iov_len;
        record_write(file, end_of_write(file) - (uint64_t)rest, pieces[i].iov_base, piece);
        rest -= piece;
    }
    unlock_trace();
    return count;
}

int ftruncate(int file, off_t length) {
    REAL(int, "ftruncate", int, off_t);
    int result;
    if (!is_traced_file(file)) return real(file, length);
    lock_trace();
    result = real(file, length);
    if (result == 0) append(TRUNCATE, inode_of(file), (uint64_t)length, NULL, NULL);
    unlock_trace();
    return result;
}

int ftruncate64(int file, off64_t length) { return ftruncate(file, (off_t)length); }

static int record_allocation(int file, int result, uint64_t end) {
    struct stat status;
    if (result == 0 && fstat(file, &status) == 0 && (uint64_t)status.st_size == end)
        append(TRUNCATE, inode_of(file), end, NULL, NULL);
    return result;
}

int fallocate(int file, int mode, off_t offset, off_t length) {
    REAL(int, "fallocate", int, int, off_t, off_t);
    int result;
    if (!is_traced_file(file)) return real(file, mode, offset, length);
    lock_trace();
    result = record_allocation(file, real(file, mode, offset, length), (uint64_t)(offset + length));
    unlock_trace();
    return result;
}

int posix_fallocate(int file, off_t offset, off_t length) {
    REAL(int, "posix_fallocate", int, off_t, off_t);
    int result;
    if (!is_traced_file(file)) return real(file, offset, length);
    lock_trace();
    result = record_allocation(file, real(file, offset, length), (uint64_t)(offset + length));
    unlock_trace();
    return result;
}

/* ---- syncs ---- */

/* Returns 0, or the error of an injected failure. Sleeps for an injected delay. */
static int fault(void) {
    char text[64];
    unsigned fails = 0, slow = 0, microseconds = 0;
    ssize_t length = control < 0 ? 0 : pread(control, text, sizeof text - 1, 0);
    if (length <= 0) return 0;
    text[length] = 0;
    if (sscanf(text, "%u %u %u", &fails, &slow, &microseconds) != 3) return 0;
    if (next_random() % 1000 < slow) usleep(microseconds);
    return next_random() % 1000 < fails ? EIO : 0;
}

static int sync_traced(int (*real)(int), int file) {
    char path[PATH];
    struct stat status;
    uint64_t begun = 0;
    int result, error, is_recorded;
    if (!path_of(file, path)) return real(file);
    if (is_database(path) && (error = fault())) {
        errno = error;
        return -1;
    }
    is_recorded = is_traced(path) && fstat(file, &status) == 0;
    if (is_recorded) {
        lock_trace();
        begun = trace_length();
        unlock_trace();
    }
    result = has_no_sync && is_database(path) ? 0 : real(file);
    if (is_recorded && result == 0) {
        int is_directory = S_ISDIR(status.st_mode);
        lock_trace();
        append(is_directory ? SYNC_DIRECTORY : SYNC, status.st_ino, begun, is_directory ? path : NULL, NULL);
        unlock_trace();
    }
    return result;
}

int fsync(int file) {
    REAL(int, "fsync", int);
    return sync_traced(real, file);
}

int fdatasync(int file) {
    REAL(int, "fdatasync", int);
    return sync_traced(real, file);
}
