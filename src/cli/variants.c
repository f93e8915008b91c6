#include "config.h"
#include "cli/variants.h"

#include "base/clock.h"
#include "cli/machine.h"
#include "exec/calibrate.h"
#include "report/report.h"

#include <string.h>

static void list(cli *c, const cli_plan *p, const hw_device *figures,
                 exec_kernels *out)
{
    const exec_ran of = {
        .graph = p->model.graph, .plan = p->plan, .figures = figures};
    exec_list_kernels(&of, c->arena, out);
}

static const char *by(const exec_kernel *k)
{
    return k->by == EXEC_BY_TIMES    ? "times"
           : k->by == EXEC_BY_BUCKET ? "bucket"
                                     : "order";
}

/* "512x768, 768x2304" */
static const char *shapes_text(fs_arena *arena, const exec_kernel *k)
{
    fs_text text = {.arena = arena};
    for (int32_t i = 0; i < k->n_in; i++)
        for (int32_t d = 0; d < k->in[i].rank; d++)
            fs_text_add(&text, "%s%lld",
                        d       ? "x"
                        : i > 0 ? ", "
                                : "",
                        (long long)k->in[i].dim[d]);
    return text.n ? text.at : "";
}

static json_t *timed_json(const exec_kernel *k)
{
    json_t *out = json_array();
    for (int32_t i = 0; i < k->n_timed; i++) {
        const hw_variant *v = &k->timed[i];
        json_array_append_new(out, json_pack("{s:s, s:f, s:f, s:i}", "name",
                                             v->name, "seconds", v->seconds,
                                             "deviation_s", v->deviation_s,
                                             "count", (int)v->count));
    }
    return out;
}

static json_t *shapes_json(const exec_kernel *k)
{
    json_t *out = json_array();
    for (int32_t i = 0; i < k->n_in; i++) {
        json_t *one = json_array();
        for (int32_t d = 0; d < k->in[i].rank; d++)
            json_array_append_new(one, json_integer(k->in[i].dim[d]));
        json_array_append_new(out, one);
    }
    return out;
}

static json_t *kernel_json(const cli_plan *p, const exec_kernel *k)
{
    const char *node = p->model.graph->nodes.at[k->node].name;
    return json_pack("{s:s, s:o, s:o, s:f, s:i, s:s, s:s, s:o}", "op", k->what,
                     "node", fs_json_string(node ? node : ""), "shapes",
                     shapes_json(k), "flop", k->work, "tasks", (int)k->n_tasks,
                     "chosen", k->name, "by", by(k), "timed", timed_json(k));
}

/* "packed 1.2 ms, 81 GFLOP/s" */
static const char *timed_text(fs_arena *arena, const exec_kernel *k)
{
    fs_text text = {.arena = arena};
    char seconds[32], rate[32];
    for (int32_t i = 0; i < k->n_timed; i++) {
        const hw_variant *v = &k->timed[i];
        fs_text_add(&text, "%s%s %s, %sFLOP/s", i ? "; " : "", v->name,
                    fs_human_seconds(seconds, v->seconds),
                    fs_human_count(rate, k->work / v->seconds));
    }
    return text.n ? text.at : "";
}

static const char *why(const exec_kernel *k)
{
    return k->by == EXEC_BY_TIMES    ? "the fastest"
           : k->by == EXEC_BY_BUCKET ? "the fastest of as much work"
           : k->n_timed == 1         ? "no other was measured"
                                     : "the first that pays";
}

static void print(cli *c, const cli_plan *p, const exec_kernels *all)
{
    static const char *const header[] = {"op",     "first", "pieces", "tasks",
                                         "chosen", "why",   "alone"};
    report_table t = {.arena = c->arena, .n_columns = 7, .header = header};
    for (int32_t i = 0; i < all->n; i++) {
        const exec_kernel *k = &all->at[i];
        const char *node = p->model.graph->nodes.at[k->node].name;
        report_table_cell(&t, "%s", k->what);
        report_table_cell(&t, "%s", node ? node : "");
        report_table_cell(&t, "%s", shapes_text(c->arena, k));
        report_table_cell(&t, "%d", k->n_tasks);
        report_table_cell(&t, "%s", k->name);
        report_table_cell(&t, "%s", why(k));
        report_table_cell(&t, "%s", timed_text(c->arena, k));
    }
    report_table_print(&t, stdout);
}

fs_status cli_explain_variants(cli *c, const cli_plan *p)
{
    exec_kernels all;
    const hw_device *figures;
    FS_TRY(cli_figures_of(c, p->cluster, &figures));
    json_t *out = json_array();
    list(c, p, figures, &all);
    for (int32_t i = 0; i < all.n; i++)
        json_array_append_new(out, kernel_json(p, &all.at[i]));
    json_object_set_new(c->result, "variants", out);
    if (c->args.json)
        return FS_OK;
    if (!all.n)
        cli_say(c, "no op of the plan has more than one kernel\n");
    else
        print(c, p, &all);
    return FS_OK;
}

void cli_note_variants(cli *c, const cli_plan *p, bool by_figures)
{
    exec_kernels all;
    const hw_device *figures =
        by_figures ? &p->cluster->groups[0].device : NULL;
    if (c->args.kernels && strcmp(c->args.kernels, "auto") != 0)
        return;
    json_t *out = json_array();
    list(c, p, figures, &all);
    for (int32_t i = 0; i < all.n; i++) {
        const exec_kernel *k = &all.at[i];
        char form[17];
        fs_hex(k->form, form);
        json_array_append_new(out, json_pack("{s:s, s:s, s:s, s:s}", "op",
                                             k->what, "form", form, "chosen",
                                             k->name, "by", by(k)));
    }
    json_object_set_new(c->result, "variants", out);
}
