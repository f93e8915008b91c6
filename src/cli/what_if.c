/* `sim --set PATH*=X`: the plan on its cluster with other figures. */
#include "config.h"
#include "cli/simulate.h"
#include "cli/collectives.h"

#include "base/clock.h"

#include <string.h>

bool cli_has_what_if(const cli *c)
{
    return c->args.set.n > 0;
}

fs_status cli_what_if(cli *c, const cli_plan *p, cli_plan *out,
                      hw_changes *changes)
{
    cli_plan q = *p;
    if (c->args.timing && strcmp(c->args.timing, "predicted") != 0)
        return fs_fail(&c->err, FS_INVALID,
                       "--set is of a prediction; --timing %s was measured on "
                       "the cluster as it is",
                       c->args.timing);
    for (int32_t i = 0; i < c->args.set.n; i++)
        FS_TRY(hw_cluster_set(q.cluster, c->args.set.at[i], c->arena, &c->err,
                              &q.cluster, changes));
    q.cost = cli_cost_model(c, q.cluster);
    *out = q;
    return FS_OK;
}

/* "1.25 times faster". */
static const char *factor_text(cli *c, double unchanged_s, double changed_s)
{
    const bool faster = changed_s <= unchanged_s;
    const double factor =
        faster ? unchanged_s / changed_s : changed_s / unchanged_s;
    if (unchanged_s == changed_s)
        return "as fast";
    if (factor < 1.00005)
        return fs_printf(c->arena, "%s by less than 0.01 %%",
                         faster ? "faster" : "slower");
    return fs_printf(c->arena, "%.4g times %s", factor,
                     faster ? "faster" : "slower");
}

/* "45 -> 90", with as many digits as tell them apart. */
static const char *change_text(cli *c, double from, double to)
{
    char a[32], b[32];
    for (int digits = 6; digits < 18; digits++) {
        snprintf(a, sizeof a, "%.*g", digits, from);
        snprintf(b, sizeof b, "%.*g", digits, to);
        if (strcmp(a, b) != 0)
            break;
    }
    return fs_printf(c->arena, "%s -> %s", a, b);
}

void cli_tell_what_if(cli *c, const hw_changes *changes, double unchanged_s,
                      double changed_s)
{
    char text[32], other[32];
    json_t *list = json_array();
    for (int32_t i = 0; i < changes->n; i++) {
        const hw_change *change = &changes->at[i];
        json_array_append_new(list, json_pack("{s:s, s:f, s:f}", "path",
                                              change->path, "from",
                                              change->from, "to", change->to));
        cli_say(c, "%s%s %s\n", i ? "                " : "what if         ",
                change->path, change_text(c, change->from, change->to));
    }
    json_object_set_new(c->result, "set", list);
    json_object_set_new(c->result, "unchanged_iteration_s",
                        json_real(unchanged_s));
    json_object_set_new(c->result, "speedup",
                        json_real(changed_s > 0 ? unchanged_s / changed_s : 0));
    cli_say(c, "unchanged       %s; what if: %s, %s\n",
            fs_human_seconds(text, unchanged_s),
            fs_human_seconds(other, changed_s),
            factor_text(c, unchanged_s, changed_s));
}
