/* Graphs with copies of all that may be computed again, made when search wants
 * them, and what a plan that chose from them says of its graph. */
#include "config.h"
#include "cli/making.h"

#include "base/clock.h"
#include "ir/recompute.h"

#include <string.h>

bool cli_making_any(const cli_making *m)
{
    const char *said = m->c->args.recompute;
    const bool any = said ? strcmp(said, "any") == 0 : !m->recipe.recompute;
    return !m->by_hand && any && !m->origin.infer;
}

bool cli_making_chooses(const cli_making *m)
{
    return cli_making_any(m) && strcmp(cli_making_engine(m), "exhaustive") != 0;
}

static void close_sizes(cli_making *m)
{
    cli_sizes_destroy(m->again_sizes);
    m->again_sizes = NULL;
}

/* Of networks without repeated blocks, what is cheap; with either, and of all
 * others alone, casts of mixed precision. */
static fs_status build(cli_making *m, int32_t count, cli_model *out)
{
    static const char *const policies[] = {"block", "cheap", "casts"};
    enum { POLICIES = sizeof policies / sizeof policies[0] };
    plan_origin origin = m->origin;
    fs_status status = FS_INVALID;
    cli own = *m->c; /* what went wrong before stays said */
    origin.recompute = "";
    for (int32_t k = 0; k < POLICIES && status != FS_OK; k++) {
        origin.again = m->policy ? m->policy : policies[k];
        if (!m->again_sizes)
            m->again_sizes = cli_sizes_create(&origin);
        own.err = (fs_err){0};
        status = cli_sizes_train(&own, m->again_sizes, count, out);
        if (status != FS_OK)
            close_sizes(m);
    }
    m->policy = status == FS_OK ? origin.again : "";
    return status;
}

const ir_graph *cli_making_again(void *ctx, const search_graph *of)
{
    cli_making *m = ctx;
    const int64_t start_ns = fs_now_ns();
    const int32_t k = (int32_t)(of - m->graphs) % m->n_models;
    if (m->policy && !m->policy[0])
        return NULL;
    /* that takes long, and who interrupted the search does not wait */
    if (!m->again[k].graph && !(m->stop && atomic_load(m->stop)))
        build(m, of->micro_batches, &m->again[k]);
    const ir_graph *graph = m->again[k].graph;
    if (graph)
        graph = cli_making_with_states(m, graph, of);
    m->graphs_s += 1e-9 * (double)(fs_now_ns() - start_ns);
    return graph;
}

/* Has the graph any of mixed precision? */
static bool has_casts(const ir_graph *graph)
{
    bool any = false;
    for (int32_t v = 0; v < graph->nodes.n && !any; v++)
        any = ir_changes_precision(graph, &graph->nodes.at[v]);
    return any;
}

const ir_graph *cli_making_casts(void *ctx, const search_graph *of)
{
    cli_making *m = ctx;
    const int64_t start_ns = fs_now_ns();
    const int32_t k = (int32_t)(of - m->graphs) % m->n_models;
    if (!has_casts(of->graph))
        return NULL;
    if (!m->casts[k].graph && !(m->stop && atomic_load(m->stop))) {
        plan_origin origin = m->origin;
        cli own = *m->c;
        origin.recompute = "";
        if (!m->casts_sizes)
            m->casts_sizes = cli_sizes_create(&origin);
        cli_sizes_train(&own, m->casts_sizes, of->micro_batches, &m->casts[k]);
    }
    const ir_graph *graph = m->casts[k].graph;
    if (graph)
        graph = cli_making_with_states(m, graph, of);
    m->graphs_s += 1e-9 * (double)(fs_now_ns() - start_ns);
    return graph;
}

void cli_making_close_again(cli_making *m)
{
    for (int32_t k = 0; k < CLI_MAX_GRAPHS; k++) {
        cli_model_close(&m->again[k]);
        cli_model_close(&m->casts[k]);
    }
    close_sizes(m);
    cli_sizes_destroy(m->casts_sizes);
    m->casts_sizes = NULL;
    m->policy = NULL;
}

void cli_making_forget_again(cli_making *m)
{
    m->origin.again = "";
    m->origin.n_kept = 0;
    m->origin.kept = NULL;
    if (cli_making_any(m))
        m->origin.recompute = "nothing";
}

void cli_making_take_again(cli_making *m)
{
    if (m->found.of && m->found.of->states)
        m->origin.states = m->found.of->states;
    if (!m->found.again.chosen)
        return;
    m->origin.recompute = "";
    if (m->found.again.casts)
        return;
    m->origin.again = m->policy;
    m->origin.n_kept = m->found.again.n_left;
    m->origin.kept = m->found.again.left;
}
