/* How plans are lowered, and how large their buckets are. */
#include "config.h"
#include "cli/making.h"

#include <string.h>

static bool is_auto(const cli_args *a)
{
    return a->bucket_bytes && strcmp(a->bucket_bytes, "auto") == 0;
}

static fs_status parse(const char *text, fs_err *err, int64_t *bytes)
{
    *bytes = 0;
    return strcmp(text, "0") == 0 ? FS_OK : cli_parse_bytes(text, err, bytes);
}

/* Checked before. */
static int64_t said_bytes(const cli_args *a)
{
    fs_err ignored = {0};
    int64_t bytes = 0;
    if (a->bucket_bytes && !is_auto(a) &&
        parse(a->bucket_bytes, &ignored, &bytes) != FS_OK)
        return 0;
    return bytes;
}

fs_status cli_check_buckets(cli *c)
{
    const cli_args *a = &c->args;
    int64_t bytes;
    if (!a->bucket_bytes || is_auto(a))
        return FS_OK;
    fs_status status = parse(a->bucket_bytes, &c->err, &bytes);
    if (status != FS_OK)
        fs_err_prefix(&c->err, "--bucket-bytes");
    return status;
}

bool cli_making_buckets(const cli_making *m)
{
    return is_auto(&m->c->args) || said_bytes(&m->c->args) > 0;
}

bool cli_making_takes_more(const cli_making *m)
{
    const cli_args *a = &m->c->args;
    return a->overlap || a->no_sharing || cli_making_buckets(m);
}

plan_lower_options cli_making_lowering(const cli_making *m,
                                       const ir_graph *graph,
                                       const plan_strategy *strategy)
{
    const cli_args *a = &m->c->args;
    plan_lower_options options = plan_lower_defaults();
    options.overlap = a->overlap;
    options.share_memory = !a->no_sharing;
    options.bucket_bytes = is_auto(a)
                               ? cost_bucket_bytes(m->cost, graph, strategy)
                               : said_bytes(a);
    return options;
}
