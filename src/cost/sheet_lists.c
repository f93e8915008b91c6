/* What a strategy has of different terms and pieces. Both are told apart by
 * shapes and attributes alone, beside the strategy, so that graphs that are
 * alike in these have one list: those with other numbers of samples, as a rule.
 */
#include "config.h"
#include "cost/sheet_parts.h"

#include "ir/compact.h"
#include "ir/words.h"

#include <string.h>

/* ---- kinds ---- */

enum {
    SHAPE_WORDS = 1 + IR_WORDS_OF_SHAPE,
    NODE_WORDS = 1 + IR_WORDS_OF_ATTRIBUTES
};

static int32_t shape_kind(cost_numbers *numbers, const ir_tensor *t)
{
    int64_t word[SHAPE_WORDS];
    ir_words key = {0, SHAPE_WORDS, word};
    bool known;
    ir_put_shape(&key, &t->shape, t->dtype);
    return cost_number_of(numbers, &key, &known);
}

static int32_t node_kind(cost_numbers *numbers, const ir_node *node)
{
    int64_t word[NODE_WORDS];
    ir_words key = {0, NODE_WORDS, word};
    bool known;
    ir_put_word(&key, ir_times(node));
    ir_put_attributes(&key, node);
    return cost_number_of(numbers, &key, &known);
}

int32_t sheet_kinds(const cost_fold *fold)
{
    const ir_graph *graph = fold->graph;
    fs_arena *scratch = fs_arena_create();
    cost_numbers shapes = {.known = {.arena = scratch}},
                 nodes = {.known = {.arena = scratch}};
    const int32_t room = graph->tensors.n + graph->nodes.n;
    ir_words key = {0, room, fs_new(scratch, int64_t, room)};
    bool known;
    for (int32_t x = 0; x < graph->tensors.n; x++)
        ir_put_word(&key, shape_kind(&shapes, &graph->tensors.at[x]));
    for (int32_t v = 0; v < graph->nodes.n; v++)
        ir_put_word(&key, node_kind(&nodes, &graph->nodes.at[v]));
    const int32_t number = cost_number_of(&fold->home->kinds_of, &key, &known);
    fs_arena_destroy(scratch);
    return number;
}

/* ---- terms ---- */

static void count_terms(cost_sheet *sheet, const cost_formula *f)
{
    sheet_lists *lists = sheet->lists;
    const int32_t sums = 2 * sheet->fold->n_stages;
    fs_arena *scratch = fs_arena_create();
    sheet_count *all = fs_new(scratch, sheet_count, f->n_terms * sums);
    for (int32_t k = 0; k < f->n_counted; k++) {
        const cost_counted *one = &f->counted[k];
        sheet_count *at = &all[one->term * sums + one->sum];
        at->term = one->term;
        at->sum = one->sum;
        *(sheet_is_between(sheet->fold, one->node) ? &at->between
                                                   : &at->once) += one->times;
    }
    for (int32_t k = 0; k < f->n_terms * sums; k++)
        if (all[k].once || all[k].between)
            fs_push(lists->arena, &lists->counts, all[k]);
    fs_arena_destroy(scratch);
}

static void find_terms(cost_sheet *sheet)
{
    cost_formula formula = {.graph = sheet->fold->graph,
                            .strategy = &sheet->strategy,
                            .known = &sheet->fold->home->term_of,
                            .of = sheet->fold->of};
    cost_list_terms(sheet->fold->model, sheet->lists->arena, &formula);
    sheet->lists->n_terms = formula.n_terms;
    sheet->lists->terms = formula.terms;
    count_terms(sheet, &formula);
}

/* ---- contents ---- */

enum {
    CONTENT_WORDS = 2 + IR_MAX_OUT * (IR_WORDS_OF_SHAPE + IR_MAX_MESH) +
                    IR_WORDS_OF_SHAPE + (PLAN_MAX_BOXING + 1) * IR_MAX_MESH
};

static int32_t content_of(cost_sheet *sheet, cost_numbers *numbers,
                          const ir_words *key, sheet_content content)
{
    bool known;
    const int32_t number = cost_number_of(numbers, key, &known);
    if (!known)
        fs_push(sheet->lists->arena, &sheet->lists->contents, content);
    return number;
}

static int32_t node_content(cost_sheet *sheet, cost_numbers *numbers, int32_t v)
{
    const ir_graph *graph = sheet->fold->graph;
    const ir_node *node = &graph->nodes.at[v];
    int64_t word[CONTENT_WORDS];
    ir_words key = {0, CONTENT_WORDS, word};
    ir_put_word(&key, -1 - node->n_out);
    for (int32_t o = 0; o < node->n_out; o++) {
        const ir_tensor *t = &graph->tensors.at[node->out[o]];
        ir_put_shape(&key, &t->shape, t->dtype);
        ir_put_sbp(&key, &sheet->strategy.sig[v].out[o], IR_MAX_MESH);
    }
    return content_of(sheet, numbers, &key, (sheet_content){v, -1, false});
}

static void edge_contents(cost_sheet *sheet, cost_numbers *numbers, int32_t v,
                          int32_t slot)
{
    const cost_sum sum = {.graph = sheet->fold->graph,
                          .strategy = &sheet->strategy};
    const int32_t e = sheet->fold->first_edge[v] + slot;
    sheet_lists *lists = sheet->lists;
    cost_edge edge;
    if (!cost_sum_edge_at(&sum, v, slot, &edge))
        return;
    const bool crosses = plan_ends_cross(&edge.ends);
    for (int32_t arrives = 0; arrives <= crosses; arrives++) {
        const ir_tensor *t = edge.ends.tensor;
        int64_t word[CONTENT_WORDS];
        ir_words key = {0, CONTENT_WORDS, word};
        ir_put_pair(&key, edge.path->n, crosses ? 1 + edge.path->cross : 0);
        ir_put_word(&key, arrives);
        ir_put_shape(&key, &t->shape, t->dtype);
        for (int32_t k = 0; k <= edge.path->n; k++)
            ir_put_sbp(&key, &edge.path->at[k], IR_MAX_MESH);
        lists->of_edge[arrives][e] =
            content_of(sheet, numbers, &key, (sheet_content){v, slot, arrives});
    }
}

static void find_content(cost_sheet *sheet, cost_numbers *numbers, int32_t v)
{
    sheet_lists *lists = sheet->lists;
    const int32_t *first = sheet->fold->first_edge;
    lists->of_node[v] = node_content(sheet, numbers, v);
    for (int32_t e = first[v]; e < first[v + 1]; e++)
        edge_contents(sheet, numbers, v, e - first[v]);
}

static void copy_content(cost_sheet *sheet, int32_t v, int32_t u)
{
    sheet_lists *lists = sheet->lists;
    const int32_t *first = sheet->fold->first_edge;
    lists->of_node[v] = lists->of_node[u];
    for (int32_t k = 0; k < first[v + 1] - first[v]; k++)
        for (int32_t arrives = 0; arrives < 2; arrives++)
            lists->of_edge[arrives][first[v] + k] =
                lists->of_edge[arrives][first[u] + k];
}

static void find_contents(cost_sheet *sheet)
{
    sheet_lists *lists = sheet->lists;
    const cost_fold *fold = sheet->fold;
    const int32_t n = fold->graph->nodes.n;
    fs_arena *scratch = fs_arena_create();
    cost_numbers numbers = {.known = {.arena = scratch}};
    lists->of_node = fs_new(lists->arena, int32_t, n);
    for (int32_t arrives = 0; arrives < 2; arrives++) {
        lists->of_edge[arrives] =
            fs_new(lists->arena, int32_t, fold->first_edge[n]);
        memset(lists->of_edge[arrives], 0xff,
               (size_t)fold->first_edge[n] * sizeof(int32_t));
    }
    lists->anew = fs_new(lists->arena, bool, fold->first_edge[n]);
    for (int32_t e = 0; e < fold->first_edge[n]; e++)
        lists->anew[e] = sheet->strategy.edge[e].sharing > 0;
    for (int32_t v = 0; v < n; v++)
        if (plan_node_like(&sheet->strategy, v) == v)
            find_content(sheet, &numbers, v);
        else
            copy_content(sheet, v, plan_node_like(&sheet->strategy, v));
    fs_arena_destroy(scratch);
}

/* ---- all ---- */

sheet_lists *sheet_known_lists(const cost_fold *fold,
                               const plan_strategy *strategy)
{
    for (int32_t k = 0; k < fold->home->lists.n; k++) {
        sheet_lists *lists = fold->home->lists.at[k];
        if (lists->of == strategy && lists->kinds == fold->kinds)
            return lists;
    }
    return NULL;
}

void sheet_make_lists(cost_sheet *sheet, const plan_strategy *strategy,
                      const int32_t *like)
{
    cost_fold *home = sheet->fold->home;
    sheet_lists *lists = fs_new(home->arena, sheet_lists, 1);
    *lists = (sheet_lists){.of = strategy,
                           .kinds = sheet->fold->kinds,
                           .arena = home->arena,
                           .like = like};
    sheet->lists = lists;
    sheet->strategy.like = like;
    find_terms(sheet);
    find_contents(sheet);
    fs_push(home->arena, &home->lists, lists);
}
