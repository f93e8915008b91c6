#include "config.h"
#include "pricing.h"

#include "ir/precision.h"
#include "ir/recompute.h"
#include "ir/train.h"
#include "search/sweep.h"
#include "zoo/zoo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(fs_status status, const fs_err *err)
{
    if (status == FS_OK)
        return;
    printf("Bail out! %s\n", err->text);
    exit(99);
}

ir_graph *pricing_graph(const pricing_network *network, int32_t layers)
{
    fs_arena *scratch = fs_arena_create();
    ir_train_options train = ir_train_defaults();
    ir_graph *graph;
    fs_err err = {0};
    const char *spec =
        fs_printf(scratch, "%s%slayers=%d", network->spec,
                  strchr(network->spec + 4, ',') ? "," : ",", layers);
    must(zoo_build(spec, network->samples, &err, &graph), &err);
    ir_rewrite_precision(graph, IR_BF16);
    train.optimizer = IR_ADAMW;
    train.micro_batches = 4;
    train.recompute = network->recompute;
    must(ir_train(graph, &train, &err), &err);
    graph->batch = (int64_t)4 * network->samples;
    fs_arena_destroy(scratch);
    return graph;
}

/* ---- patterns ---- */

plan_strategy *pricing_pattern(const ir_graph *graph, int32_t n_stages,
                               const char *recipe, const char *cluster,
                               const char *datasets, fs_arena *arena)
{
    search_recipe r = search_recipe_free();
    plan_strategy *made = NULL;
    hw_cluster *on;
    fs_err err = {0};
    must(hw_cluster_open(cluster, datasets, arena, &err, &on), &err);
    must(search_recipe_parse(fs_printf(arena, "%s%spp=%d", recipe,
                                       *recipe ? "," : "", n_stages),
                             arena, &err, &r),
         &err);
    must(search_sweep_complete(cost_model_create(on, arena), graph, r, arena,
                               &err, &made),
         &err);
    return made;
}

/* ---- written out ---- */

/* Nodes by name, and whether they compute again. */
typedef struct named {
    const char *name;
    bool again;
    int32_t node;
} named;

static int by_name(const void *a, const void *b)
{
    const named *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : (int)x->again - (int)y->again;
}

static named *name_all(const ir_graph *graph, fs_arena *arena)
{
    named *all = fs_new(arena, named, graph->nodes.n);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        all[v] =
            (named){graph->nodes.at[v].name, ir_computes_again(graph, v), v};
    qsort(all, (size_t)graph->nodes.n, sizeof *all, by_name);
    return all;
}

/* The layer of `few` that stands for one of the whole. */
static int32_t stands(int32_t layer, const cost_degrees *d, int32_t n_stages)
{
    const int32_t stage = layer / d->layers, at = layer % d->layers;
    const int32_t of = stage == 0                 ? 0
                       : stage == d->n_stages - 1 ? n_stages - 1
                                                  : 1;
    return PRICING_LAYERS * of + (at == 0 ? 0 : at == d->layers - 1 ? 2 : 1);
}

/* "blocks.7" becomes that of the layer that stands for it; -1: it is of none.
 */
static int32_t rename_node(const char *name, const cost_degrees *d,
                           int32_t n_stages, char out[400])
{
    static const char word[] = "blocks.";
    int32_t layer = -1, n = 0;
    while (*name && n < 380) {
        if (strncmp(name, word, sizeof word - 1) != 0) {
            out[n++] = *name++;
            continue;
        }
        char *end;
        layer = (int32_t)strtol(name + sizeof word - 1, &end, 10);
        n += sprintf(out + n, "%s%d", word, stands(layer, d, n_stages));
        name = end;
    }
    out[n] = 0;
    return layer;
}

/* [nodes of the whole] the node of `few`; stage[]: where each of them is. */
static int32_t *find_reps(const ir_graph *few, const plan_strategy *pattern,
                          const ir_graph *whole, const cost_degrees *d,
                          int32_t *stage, fs_arena *arena)
{
    const named *all = name_all(few, arena);
    int32_t *rep = fs_new(arena, int32_t, whole->nodes.n);
    for (int32_t v = 0; v < whole->nodes.n; v++) {
        char name[400];
        const int32_t layer =
            rename_node(whole->nodes.at[v].name, d, pattern->n_stages, name);
        const named key = {name, ir_computes_again(whole, v), 0};
        const named *found =
            bsearch(&key, all, (size_t)few->nodes.n, sizeof key, by_name);
        if (!found) {
            printf("Bail out! no node %s\n", name);
            exit(99);
        }
        rep[v] = found->node;
        const int32_t of = pattern->stage_of[rep[v]];
        stage[v] = layer >= 0 ? layer / d->layers
                   : of == 0  ? 0
                              : d->n_stages - 1;
    }
    return rep;
}

plan_strategy *pricing_whole(const ir_graph *few, const plan_strategy *pattern,
                             const ir_graph *whole, const cost_degrees *degrees,
                             fs_arena *arena)
{
    plan_strategy *s = plan_strategy_new(whole, degrees->n_stages, arena);
    const int32_t *rep =
        find_reps(few, pattern, whole, degrees, s->stage_of, arena);
    s->schedule = degrees->schedule;
    s->micro_batches = degrees->micro_batches;
    for (int32_t i = 0; i < s->n_stages; i++)
        s->stages[i] =
            (plan_stage){degrees->mesh, i * ir_mesh_size(&degrees->mesh)};
    for (int32_t v = 0; v < whole->nodes.n; v++) {
        const int32_t n = s->first_edge[v + 1] - s->first_edge[v];
        s->sig[v] = pattern->sig[rep[v]];
        memcpy(&s->edge[s->first_edge[v]],
               &pattern->edge[pattern->first_edge[rep[v]]],
               (size_t)n * sizeof *s->edge);
    }
    return s;
}
