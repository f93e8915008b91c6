/* `export PLAN --to chakra -o DIR`: a step as execution traces. */
#include "config.h"
#include "cli/export.h"

#include "base/clock.h"
#include "base/file.h"
#include "cli/guard.h"
#include "report/chakra.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_STAGINGS = 100 }; /* left by killed processes */

static void tell(cli *c, const report_chakra *done, int32_t removed)
{
    json_t *list = json_array();
    char text[32];
    if (done->halos)
        json_array_append_new(list, json_string("halos (as all-to-all)"));
    if (done->reslices)
        json_array_append_new(list, json_string("re-slicing (as all-to-all)"));
    json_object_set_new(c->result, "file", fs_json_string(c->args.output));
    json_object_set_new(c->result, "files", json_integer(done->files));
    json_object_set_new(c->result, "nodes", json_integer(done->nodes));
    json_object_set_new(c->result, "groups", json_integer(done->groups));
    json_object_set_new(c->result, "bytes", json_integer(done->bytes));
    json_object_set_new(c->result, "removed", json_integer(removed));
    json_object_set_new(c->result, "inexpressible", list);
    cli_say(c,
            "%s: plan.0.et%s, %lld node%s of one step, %s; comm_group.json, %d "
            "group%s\n",
            c->args.output,
            done->files > 1
                ? fs_printf(c->arena, " to plan.%d.et", done->files - 1)
                : "",
            (long long)done->nodes, done->nodes == 1 ? "" : "s",
            fs_human_bytes(text, (double)done->bytes), done->groups,
            done->groups == 1 ? "" : "s");
    if (removed)
        cli_say(c,
                "%d trace%s of a former export, of ranks that this plan has "
                "not, removed\n",
                removed, removed == 1 ? "" : "s");
    if (done->halos)
        cli_say(c, "%d exchanges of halos a rank stand there as all-to-all\n",
                done->halos);
    if (done->reslices)
        cli_say(c, "%d re-slicings a rank stand there as all-to-all\n",
                done->reslices);
}

fs_status cli_check_chakra(cli *c)
{
    struct stat at;
    if (cli_is_model(c->args.operands[0]))
        return fs_fail(&c->err, FS_INVALID,
                       "--to chakra wants a PLAN: traces say who computes what "
                       "and when");
    if (c->args.external || c->args.no_weights)
        return fs_fail(&c->err, FS_INVALID,
                       "--%s is of values, and traces have none",
                       c->args.external ? "external" : "no-weights");
    if (stat(c->args.output, &at) == 0 && !S_ISDIR(at.st_mode))
        return fs_fail(&c->err, FS_INVALID,
                       "%s is no folder: --to chakra writes a file per rank "
                       "into one",
                       c->args.output);
    return FS_OK;
}

/* A new folder, where all is written first: within DIR, if that is there, else
 * beside it, to become DIR. It goes with whatever is still in it when the
 * command ends, however it ends (c->scratch). */
static fs_status open_staging(cli *c, bool there, const char **out)
{
    const char *dir = c->args.output, *name;
    size_t n = strlen(dir);
    bool made;
    int why, k = 0;
    while (n > 1 && dir[n - 1] == '/')
        n--;
    cli_guard_stop(c);
    do { /* never one that was there */
        name = fs_printf(c->arena, "%.*s%s.%d.%d.tmp", (int)n, dir,
                         there ? "/unfinished" : "", (int)getpid(), k);
        made = mkdir(name, 0777) == 0;
        why = errno;
    } while (!made && why == EEXIST && k++ < MOST_STAGINGS);
    if (made)
        c->scratch = name;
    cli_guard_start(c);
    *out = name;
    return made ? FS_OK : fs_write_fail(dir, why, &c->err);
}

/* The folder that was asked for, in the place of the one at hand, which nobody
 * asked for and which is gone by then. */
static fs_status name_asked(cli *c, const char *staging, fs_status status)
{
    const size_t n = strlen(staging);
    const char *said = fs_strdup(c->arena, c->err.text);
    if (status == FS_OK || strncmp(said, staging, n) != 0)
        return status;
    c->err = (fs_err){0};
    return fs_fail(&c->err, status, "%s%s", c->args.output, said + n);
}

/* A new folder is there with all that is in it, or not at all. */
static fs_status put(cli *c, const char *staging, bool there, int32_t n_ranks,
                     int32_t *removed)
{
    const char *dir = c->args.output;
    *removed = 0;
    if (there)
        return report_chakra_place(staging, dir, n_ranks, &c->err, removed);
    return rename(staging, dir) == 0 ? FS_OK
                                     : fs_write_fail(dir, errno, &c->err);
}

fs_status cli_export_chakra(cli *c, const cli_plan *p)
{
    report_chakra done;
    plan_report report = {0};
    struct stat at;
    const char *dir = c->args.output, *staging;
    const plan_role *last = &p->plan->roles[p->plan->n_roles - 1];
    const int32_t n_ranks = last->first_rank + last->n_ranks;
    const bool there = stat(dir, &at) == 0;
    int32_t removed;
    FS_TRY(cli_plan_prove(c, p, &report)); /* or its traces would stall */
    if (there)
        FS_TRY(report_chakra_check(dir, n_ranks, &c->err));
    const plan_timing *timing =
        cost_timing(p->cost, p->model.graph, p->plan, c->arena);
    FS_TRY(open_staging(c, there, &staging));
    FS_TRY(name_asked(c, staging,
                      report_chakra_write(p->model.graph, p->plan, timing,
                                          staging, &c->err, &done)));
    FS_TRY(put(c, staging, there, n_ranks, &removed));
    tell(c, &done, removed);
    return FS_OK;
}
