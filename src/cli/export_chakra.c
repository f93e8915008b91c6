/* `export PLAN --to chakra -o DIR`: a step as execution traces. */
#include "config.h"
#include "cli/export.h"

#include "base/clock.h"
#include "base/file.h"
#include "report/chakra.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void tell(cli *c, const report_chakra *done)
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
    json_object_set_new(c->result, "inexpressible", list);
    cli_say(c,
            "%s: plan.0.et to plan.%d.et, %lld nodes of one step, %s; "
            "comm_group.json, %d groups\n",
            c->args.output, done->files - 1, (long long)done->nodes,
            fs_human_bytes(text, (double)done->bytes), done->groups);
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

fs_status cli_export_chakra(cli *c, const cli_plan *p)
{
    report_chakra done;
    plan_report report = {0};
    const char *dir = c->args.output;
    FS_TRY(cli_plan_prove(c, p, &report)); /* or its traces would stall */
    const bool made = mkdir(dir, 0777) == 0;
    if (!made && (errno != EEXIST || access(dir, W_OK) != 0))
        return fs_write_fail(dir, errno, &c->err);
    const plan_timing *timing =
        cost_timing(p->cost, p->model.graph, p->plan, c->arena);
    const fs_status status = report_chakra_write(p->model.graph, p->plan,
                                                 timing, dir, &c->err, &done);
    if (status == FS_OK)
        tell(c, &done);
    else if (made)
        rmdir(dir); /* unless something is in it */
    return status;
}
