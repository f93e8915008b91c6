#include "config.h"
#include "cli/places.h"

#include "base/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *folder_of(fs_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? fs_strndup(arena, path, (size_t)(slash - path) + 1) : "./";
}

/* A file at all, not zoo:NAME, local or NODESxDEVICES:NAME? */
static bool is_file_name(const char *spec)
{
    size_t n = strlen(spec);
    return strncmp(spec, "zoo:", 4) != 0 &&
           ((n > 5 && strcmp(spec + n - 5, ".onnx") == 0) ||
            (n > 5 && strcmp(spec + n - 5, ".json") == 0));
}

/* Without NODESxDEVICES: of a part of a cluster. */
static const char *path_of(const char *spec)
{
    const char *path = hw_cluster_file(spec);
    return path ? path : spec;
}

/* From the absolute folder `from` to the absolute folder `to`: "../a/". */
static const char *way_between(fs_arena *arena, const char *from,
                               const char *to)
{
    fs_text way = {.arena = arena};
    size_t same = 0, n = 0;
    for (; from[n] && from[n] == to[n]; n++)
        if (from[n] == '/')
            same = n + 1;
    for (const char *at = from + same; *at; at++)
        if (*at == '/')
            fs_text_add(&way, "../");
    fs_text_add(&way, "%s", to + same);
    return way.n ? way.at : "";
}

/* Absolute, links resolved, ending in '/'; NULL when there is none. */
static const char *real_folder(fs_arena *arena, const char *folder)
{
    char real[FS_PATH_MAX];
    if (!realpath(folder, real))
        return NULL;
    return fs_printf(arena, "%s%s", real, real[1] ? "/" : "");
}

const char *cli_place_stored(cli *c, const char *file, const char *spec)
{
    const char *slash = strrchr(spec, '/');
    if (!is_file_name(spec))
        return spec;
    const char *whole = spec; /* with NODESxDEVICES: of a part */
    spec = path_of(spec);
    if (spec[0] == '/')
        return whole;
    const char *from = real_folder(c->arena, folder_of(c->arena, file));
    const char *to = real_folder(c->arena, folder_of(c->arena, spec));
    if (!from || !to)
        return whole;
    return fs_printf(c->arena, "%.*s%s%s", (int)(spec - whole), whole,
                     way_between(c->arena, from, to), slash ? slash + 1 : spec);
}

fs_status cli_place_find(cli *c, const char *file, const char *what,
                         const char **spec)
{
    if (!is_file_name(*spec))
        return FS_OK;
    const char *path = path_of(*spec);
    const int part = (int)(path - *spec);
    if (path[0] == '/') {
        if (access(path, F_OK) == 0)
            return FS_OK;
        return fs_fail(&c->err, FS_INVALID, "%s: origin.%s: %s is not there",
                       file, what, path);
    }
    const char *beside =
        fs_printf(c->arena, "%s%s", folder_of(c->arena, file), path);
    if (access(beside, F_OK) == 0)
        *spec = fs_printf(c->arena, "%.*s%s", part, *spec,
                          strncmp(beside, "./", 2) == 0 ? beside + 2 : beside);
    else if (access(path, F_OK) != 0)
        return fs_fail(&c->err, FS_INVALID,
                       "%s: origin.%s: there is neither %s nor, from the "
                       "working directory, %s",
                       file, what, beside, path);
    return FS_OK;
}
