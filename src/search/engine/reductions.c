#include "config.h"
#include "search/engine/reductions.h"

#include <string.h>

static bool named(const char *name, size_t length, uint32_t *bit)
{
    static const char *const known[] = {
#define SEARCH_REDUCTION(NAME, name, of, what) #name,
#include "search/engine/reductions.def"
#undef SEARCH_REDUCTION
        "layers",  "cuts",   "submeshes", "orders",
        "glances", "sweeps", "blends",    "compact"};
    for (int32_t k = 0; k < (int32_t)(sizeof known / sizeof *known); k++)
        if (strlen(known[k]) == length && !memcmp(known[k], name, length)) {
            *bit = 1u << k;
            return true;
        }
    return false;
}

static const char *all_names(void)
{
    static const char names[] =
#define SEARCH_REDUCTION(NAME, name, of, what) ", " #name
#include "search/engine/reductions.def"
#undef SEARCH_REDUCTION
        ", layers, cuts, submeshes, orders, glances, sweeps, blends, compact";
    return names + strlen(", ");
}

fs_status search_reductions_parse(const char *names, fs_err *err,
                                  uint32_t *mask)
{
    uint32_t all = 0;
    for (const char *at = names;; at++) {
        size_t length = strcspn(at, ",");
        uint32_t bit;
        if (!named(at, length, &bit))
            return fs_fail(err, FS_INVALID,
                           "no reduction is called '%.*s'; there are %s",
                           (int)length, at, all_names());
        all |= bit;
        at += length;
        if (!*at)
            break;
    }
    *mask = all;
    return FS_OK;
}
