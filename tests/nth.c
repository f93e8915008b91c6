/* Preloaded into the program (LD_PRELOAD) by tests: the N-th call of a kind
 * fails, in one process of a job.
 *
 *   NTH_KIND   alloc   memory that our code asks for, also through Jansson and
 *                      SQLite
 *              write   what goes into files whose path holds NTH_PATH: writes,
 *                      syncs, changes of length
 *              sync    of those, what brings them to the disk
 *              socket  what goes through TCP: the socket is shut down, as when
 *                      the peer has closed it
 *   NTH_AT     N, from 1; 0: none fails
 *   NTH_ERRNO  its errno; of memory and sockets none
 *   NTH_RANK   the rank, -1: the process that started the ranks
 *   NTH_COUNT  a file that is told how many calls there were, at the end
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

static enum { NOTHING, ALLOC, WRITE, SYNC, SOCKET } kind;
static long fails_at;
static int fails_with;
static const char *path_part;
static char count_file[1024];
static atomic_long calls;

/* ---- whose calls count ---- */

enum { MOST_OURS = 4 };
static struct {
    uintptr_t from, to;
} ours[MOST_OURS];
static int n_ours;

static int note_code(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    const bool mine = !info->dlpi_name[0] ||
                      strstr(info->dlpi_name, "libjansson") ||
                      strstr(info->dlpi_name, "libsqlite3");
    for (int i = 0; mine && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || n_ours == MOST_OURS)
            continue;
        ours[n_ours].from = info->dlpi_addr + p->p_vaddr;
        ours[n_ours++].to = info->dlpi_addr + p->p_vaddr + p->p_memsz;
    }
    return 0;
}

static bool is_ours(const void *caller)
{
    const uintptr_t at = (uintptr_t)caller;
    for (int i = 0; i < n_ours; i++)
        if (at >= ours[i].from && at < ours[i].to)
            return true;
    return false;
}

static const char *said(const char *name)
{
    const char *text = getenv(name);
    return text ? text : "";
}

static int own_rank(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank ? atoi(rank) : getenv("FS_RANKS_OF") ? 0 : -1;
}

__attribute__((constructor)) static void begin(void)
{
    const char *word = said("NTH_KIND");
    if (strcmp(program_invocation_short_name, "flowsearch") != 0 ||
        atoi(said("NTH_RANK")) != own_rank())
        return;
    fails_at = atol(said("NTH_AT"));
    fails_with = atoi(said("NTH_ERRNO"));
    path_part = said("NTH_PATH");
    snprintf(count_file, sizeof count_file, "%s", said("NTH_COUNT"));
    dl_iterate_phdr(note_code, NULL);
    kind = strcmp(word, "alloc") == 0    ? ALLOC
           : strcmp(word, "sync") == 0   ? SYNC
           : strcmp(word, "write") == 0  ? WRITE
           : strcmp(word, "socket") == 0 ? SOCKET
                                         : NOTHING;
}

__attribute__((destructor)) static void end(void)
{
    char text[32];
    const int n = snprintf(text, sizeof text, "%ld\n", (long)calls);
    if (kind == NOTHING || !count_file[0])
        return;
    kind = NOTHING;
    const int file = open(count_file, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (file < 0 || write(file, text, (size_t)n) != n)
        perror(count_file);
    close(file);
}

static bool fails(void)
{
    return atomic_fetch_add(&calls, 1) + 1 == fails_at;
}

/* ---- memory ---- */

#define FAILS_HERE                                                             \
    (kind == ALLOC && is_ours(__builtin_return_address(0)) && fails() &&       \
     (errno = ENOMEM))

void *malloc(size_t bytes)
{
    return FAILS_HERE ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return FAILS_HERE ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    return FAILS_HERE ? NULL : __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return FAILS_HERE ? NULL : __libc_memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
    if (FAILS_HERE)
        return ENOMEM;
    *out = __libc_memalign(align, bytes);
    return *out ? 0 : ENOMEM;
}

/* ---- files ---- */

static bool is_named(int file)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    path[n < 0 ? 0 : n] = '\0';
    return strstr(path, path_part) != NULL;
}

static bool fails_in(int file, bool syncs)
{
    const bool counts = kind == WRITE || (kind == SYNC && syncs);
    if (!counts || !is_named(file) || !fails())
        return false;
    errno = fails_with;
    return true;
}

#define REAL(name) (__extension__((__typeof__(&name))dlsym(RTLD_NEXT, #name)))
#define OF_FILES(syncs, type, name, arguments, ...)                            \
    type name arguments                                                        \
    {                                                                          \
        return fails_in(file, syncs) ? -1 : REAL(name)(__VA_ARGS__);           \
    }

OF_FILES(false, ssize_t, write, (int file, const void *at, size_t n), file, at,
         n)
OF_FILES(false, ssize_t, pwrite, (int file, const void *at, size_t n, off_t to),
         file, at, n, to)
OF_FILES(false, ssize_t, pwrite64,
         (int file, const void *at, size_t n, off64_t to), file, at, n, to)
OF_FILES(true, int, fsync, (int file), file)
OF_FILES(true, int, fdatasync, (int file), file)
OF_FILES(false, int, ftruncate, (int file, off_t n), file, n)
OF_FILES(false, int, ftruncate64, (int file, off64_t n), file, n)

/* What stdio writes goes past the functions above. */
static ssize_t stream_write(void *cookie, const char *at, size_t n)
{
    return write((int)(intptr_t)cookie, at, n);
}

static int stream_close(void *cookie)
{
    return close((int)(intptr_t)cookie);
}

FILE *fdopen(int file, const char *mode)
{
    const cookie_io_functions_t functions = {.write = stream_write,
                                             .close = stream_close};
    if (kind != WRITE || mode[0] != 'w' || !is_named(file))
        return REAL(fdopen)(file, mode);
    return fopencookie((void *)(intptr_t)file, mode, functions);
}

FILE *fopen(const char *path, const char *mode)
{
    if (kind != WRITE || mode[0] != 'w' || !strstr(path, path_part))
        return REAL(fopen)(path, mode);
    const int file = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
    return file < 0 ? NULL : fdopen(file, mode);
}

/* ---- sockets ---- */

static void come_through(int file)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    if (kind == SOCKET && getsockname(file, (struct sockaddr *)&at, &n) == 0 &&
        at.ss_family == AF_INET && fails())
        shutdown(file, SHUT_RDWR);
}

ssize_t writev(int file, const struct iovec *parts, int n)
{
    come_through(file);
    return REAL(writev)(file, parts, n);
}

ssize_t readv(int file, const struct iovec *parts, int n)
{
    come_through(file);
    return REAL(readv)(file, parts, n);
}
