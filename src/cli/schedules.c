/* --schedule any, or a list of those to choose from. */
#include "config.h"
#include "cli/making.h"

#include "plan/schedule.h"

#include <stdlib.h>
#include <string.h>

/* What "any" is: gpipe takes as long as 1f1b and holds more. Where layers do
 * not suffice for as many stages, there are no such configurations. */
#define ANY_SCHEDULE "1f1b,zb-h1,zb-h2,interleaved:2,interleaved:4,zb-v"

bool cli_several_schedules(const char *schedule)
{
    return strpbrk(schedule, ",:") || strcmp(schedule, "any") == 0;
}

enum { MOST_SCHEDULES = 8, MOST_DEPTH = 64 };

/* What may be told of several schedules. */
typedef struct schedule_list {
    const char **names;
    int32_t *depths, n;
} schedule_list;

static bool read_depth(const char *text, int32_t *depth)
{
    char *end;
    const long number = strtol(text, &end, 10);
    if (end == text || *end || number < 1 || number > MOST_DEPTH)
        return false;
    *depth = (int32_t)number;
    return true;
}

/* "interleaved:4"; without a number as many stages of a group of devices as is
 * usual. */
static fs_status parse_schedule(cli *c, const char *said, schedule_list *out)
{
    const size_t length = strcspn(said, ":");
    const char *name = fs_strndup(c->arena, said, length);
    const plan_schedule *known = plan_schedule_find(name);
    if (!known)
        return fs_fail(&c->err, FS_INVALID,
                       "--schedule: unknown schedule '%.40s' (%s; any, alone)",
                       name, plan_schedule_names());
    if (known->passes > 1)
        return fs_fail(&c->err, FS_INVALID,
                       "--schedule: %s is not one of several: give it alone",
                       name);
    const bool once = known->placing == PLAN_PLACED_ONCE;
    int32_t depth = once ? 1 : 2;
    if (said[length] && !read_depth(&said[length + 1], &depth))
        return fs_fail(&c->err, FS_INVALID,
                       "--schedule: %.60s: stages per group of devices, 1 to "
                       "%d, are wanted behind the colon",
                       said, MOST_DEPTH);
    if (once ? depth != 1
             : depth < 2 || (depth > 2 && known->placing == PLAN_PLACED_V))
        return fs_fail(&c->err, FS_INVALID,
                       "--schedule: %.60s: %s runs %s on a group of devices",
                       said, name,
                       once                              ? "one stage"
                       : known->placing == PLAN_PLACED_V ? "two stages"
                                                         : "several stages");
    for (int32_t k = 0; k < out->n; k++)
        if (strcmp(out->names[k], name) == 0 && out->depths[k] == depth)
            return fs_fail(&c->err, FS_INVALID, "--schedule: %s is named twice",
                           said);
    if (out->n == MOST_SCHEDULES)
        return fs_fail(&c->err, FS_INVALID, "--schedule: more than %d",
                       MOST_SCHEDULES);
    out->names[out->n] = name;
    out->depths[out->n++] = depth;
    return FS_OK;
}

/* One of one stage per group first: it suits a single group, too. */
static fs_status begin_with_plain(cli *c, schedule_list *list)
{
    int32_t k = 0;
    while (k < list->n && list->depths[k] > 1)
        k++;
    if (k == list->n)
        return fs_fail(&c->err, FS_INVALID,
                       "--schedule %s: of several, one must run one stage on a "
                       "group of devices, for plans that have one group; "
                       "--fix schedule=..,interleave=.. asks for one alone",
                       c->args.schedule);
    const char *name = list->names[k];
    for (; k > 0; k--) {
        list->names[k] = list->names[k - 1];
        list->depths[k] = list->depths[k - 1];
    }
    list->names[0] = name;
    list->depths[0] = 1;
    return FS_OK;
}

fs_status cli_parse_schedules(cli *c, search_problem *out)
{
    const char *said = c->args.schedule;
    schedule_list list = {fs_new(c->arena, const char *, MOST_SCHEDULES),
                          fs_new(c->arena, int32_t, MOST_SCHEDULES), 0};
    if (strcmp(said, "any") == 0)
        said = ANY_SCHEDULE;
    for (const char *at = said;; at++) {
        const size_t length = strcspn(at, ",");
        FS_TRY(parse_schedule(c, fs_strndup(c->arena, at, length), &list));
        at += length;
        if (!*at)
            break;
    }
    if (list.n == 1 && list.depths[0] > 1) { /* as --fix says it */
        out->schedule = list.names[0];
        out->interleave = list.depths[0];
        out->fix_schedule = true;
        return FS_OK;
    }
    FS_TRY(begin_with_plain(c, &list));
    out->n_schedules = list.n;
    out->schedules = list.names;
    out->depths = list.depths;
    out->schedule = list.names[0];
    return FS_OK;
}
