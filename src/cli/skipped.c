/* The steps that a loss scale left out, told beside the losses: such a step has
 * a loss like any other, but nothing was learnt from it. */
#include "config.h"
#include "cli/outcome.h"

#include "ir/precision.h"

void cli_outcome_watch(const ir_graph *graph, cli_outcome *out)
{
    const ir_loss_scale_ends ends = ir_loss_scale_find(graph);
    out->n_watch = 0;
    if (ends.skipped < 0)
        return;
    out->watch[out->n_watch++] = ends.skipped;
    if (ends.scale >= 0)
        out->watch[out->n_watch++] = ends.scale;
}

bool cli_outcome_skipped(const cli_outcome *o, int64_t step)
{
    if (o->n_watch <= CLI_SKIPPED)
        return false;
    const double *so_far = o->result.watched[CLI_SKIPPED];
    if (step == 0 && o->result.first_step > 0)
        return false; /* nobody kept what it was before */
    return so_far[step] > (step > 0 ? so_far[step - 1] : 0);
}

void cli_outcome_tell_skipped(cli *c, const cli_outcome *o, report_table *table)
{
    if (o->n_watch <= CLI_SKIPPED)
        return;
    json_t *list = json_array();
    for (int64_t k = 0; k < o->steps; k++)
        if (cli_outcome_skipped(o, k))
            json_array_append_new(list, json_integer(o->result.first_step + k + 1));
    const size_t n = json_array_size(list);
    json_object_set_new(c->result, "skipped_steps",
                        json_integer((json_int_t)n));
    json_object_set_new(c->result, "skipped", list);
    cli_figure(c, "skipped_steps", (double)n, "");
    report_table_cell(table, "steps skipped");
    report_table_cell(table, "%s", "");
    report_table_cell(table, "%zu", n);
    report_table_cell(table, "%s", "");
    if (o->n_watch <= CLI_SCALE)
        return;
    const double scale = o->result.watched[CLI_SCALE][o->steps - 1];
    json_object_set_new(c->result, "loss_scale", json_real(scale));
    cli_figure(c, "loss_scale", scale, "");
    report_table_cell(table, "loss scale, last");
    report_table_cell(table, "%s", "");
    report_table_cell(table, "%g", scale);
    report_table_cell(table, "%s", "");
}
