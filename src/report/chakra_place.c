/* From the folder where a step's traces were written to the one where they are
 * to be: all of them, and none of a former export beside. */
#include "config.h"
#include "report/chakra.h"

#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char groups[] = "comm_group.json";

/* The rank of "plan.RANK.et"; -1: it is called otherwise. */
static int64_t rank_of(const char *name)
{
    static const char begin[] = "plan.", end[] = ".et";
    const size_t n = strlen(begin);
    if (strncmp(name, begin, n) != 0)
        return -1;
    const size_t digits = strspn(name + n, "0123456789");
    const bool is_number =
        digits > 0 && digits < 10 && (digits == 1 || name[n] != '0');
    return is_number && strcmp(name + n + digits, end) == 0
               ? strtoll(name + n, NULL, 10)
               : -1;
}

/* The first message of a file of ours is its metadata: behind its length (of
 * one byte) a version, and attributes of these names. */
static bool has_our_metadata(const char *path)
{
    static const char *const names[] = {"rank", "n_ranks", "plan_digest"};
    unsigned char head[128];
    FILE *file = fopen(path, "rb");
    const size_t n = file ? fread(head, 1, sizeof head, file) : 0;
    if (file)
        fclose(file);
    const size_t length = n > 0 ? head[0] : 0;
    bool ours = length > 0 && length < sizeof head && length < n;
    for (size_t i = 0; ours && i < sizeof names / sizeof *names; i++)
        ours = memmem(head + 1, length, names[i], strlen(names[i])) != NULL;
    return ours;
}

/* A link may lead to what is somebody's. */
static bool is_ours(const char *path)
{
    struct stat at;
    return lstat(path, &at) == 0 && S_ISREG(at.st_mode) &&
           has_our_metadata(path);
}

/* A folder's entries, one by one; `stop`: the status that ends it. */
typedef fs_status on_entry(void *ctx, const char *path, int64_t rank);
static fs_status each_trace(const char *dir, fs_arena *arena, void *ctx,
                            on_entry *on)
{
    fs_status status = FS_OK;
    DIR *all = opendir(dir);
    for (struct dirent *d; status == FS_OK && all && (d = readdir(all));) {
        const int64_t rank = rank_of(d->d_name);
        if (rank >= 0)
            status = on(ctx, fs_printf(arena, "%s/%s", dir, d->d_name), rank);
    }
    if (all)
        closedir(all);
    return status;
}

typedef struct looking {
    int32_t n_ranks;
    int32_t ours;          /* traces */
    FS_VEC(char *) beyond; /* of ranks that there are no more */
    fs_arena *arena;
    fs_err *err;
} looking;

static fs_status look_at(void *ctx, const char *path, int64_t rank)
{
    looking *l = ctx;
    if (!is_ours(path))
        return fs_fail(l->err, FS_INVALID,
                       "%s is no trace that this program wrote, and would be "
                       "%s: name another folder, or remove it",
                       path,
                       rank < l->n_ranks ? "overwritten"
                                         : "taken for one of this plan's");
    l->ours++;
    if (rank >= l->n_ranks)
        fs_push(l->arena, &l->beyond, fs_strdup(l->arena, path));
    return FS_OK;
}

static fs_status look(looking *l, const char *dir)
{
    struct stat at;
    const char *path = fs_printf(l->arena, "%s/%s", dir, groups);
    FS_TRY(each_trace(dir, l->arena, l, look_at));
    if (lstat(path, &at) != 0 || (S_ISREG(at.st_mode) && l->ours > 0))
        return FS_OK;
    return fs_fail(l->err, FS_INVALID,
                   "%s stands beside no trace that this program wrote, and "
                   "would be overwritten: name another folder, or remove it",
                   path);
}

fs_status report_chakra_check(const char *dir, int32_t n_ranks, fs_err *err)
{
    looking l = {.n_ranks = n_ranks, .err = err, .arena = fs_arena_create()};
    const fs_status status = look(&l, dir);
    fs_arena_destroy(l.arena);
    return status;
}

/* What is beyond goes first: nothing else has changed if it does not go. */
static fs_status place_all(looking *l, const char *from, const char *dir)
{
    FS_TRY(look(l, dir));
    for (int32_t i = 0; i < l->beyond.n; i++)
        if (unlink(l->beyond.at[i]) != 0)
            return fs_write_fail(l->beyond.at[i], errno, l->err);
    for (int32_t r = -1; r < l->n_ranks; r++) {
        const char *name =
            r < 0 ? groups : fs_printf(l->arena, "plan.%d.et", r);
        const char *to = fs_printf(l->arena, "%s/%s", dir, name);
        if (rename(fs_printf(l->arena, "%s/%s", from, name), to) != 0)
            return fs_write_fail(to, errno, l->err);
    }
    return FS_OK;
}

fs_status report_chakra_place(const char *from, const char *dir,
                              int32_t n_ranks, fs_err *err, int32_t *removed)
{
    looking l = {.n_ranks = n_ranks, .err = err, .arena = fs_arena_create()};
    const fs_status status = place_all(&l, from, dir);
    *removed = status == FS_OK ? l.beyond.n : 0;
    fs_arena_destroy(l.arena);
    return status;
}
