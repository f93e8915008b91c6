/* What a strategy's formula sums: its nodes and what is boxed. Terms that no
 * model of the cluster tells apart are one: a deep network has few different
 * ones. */
#include "config.h"
#include "cost/numbers.h"
#include "cost/parts.h"

#include "ir/compact.h"
#include "ir/works.h"

/* All that the seconds of a term depend on. */
enum {
    OF_EDGE = 3 + 2 * IR_WORDS_OF_MESH + IR_WORDS_OF_SHAPE +
              (PLAN_MAX_BOXING + 1) * IR_MAX_MESH,
    MOST_WORDS = 2 + (IR_WORK_WORDS > OF_EDGE ? IR_WORK_WORDS : OF_EDGE)
};

typedef struct lister {
    const cost_model *model;
    const ir_graph *graph;
    const plan_strategy *strategy;
    fs_arena *arena, *scratch;
    cost_numbers known, *of_all;
    FS_VEC(cost_term) terms;
    FS_VEC(cost_counted) all;
    int32_t of;     /* cost_formula's */
    int32_t *first; /* [nodes + 1] of `all` */
} lister;

static void put_node(const lister *l, int32_t v, ir_words *key)
{
    const plan_stage *stage = &l->strategy->stages[l->strategy->stage_of[v]];
    const cost_groups groups = cost_groups_of(l->model, stage);
    ir_put_pair(key, groups.first, groups.last);
    ir_put_work(l->graph, &l->graph->nodes.at[v], &l->strategy->sig[v],
                &stage->mesh, key);
}

static void put_edge(const lister *l, const cost_edge *edge, ir_words *key)
{
    const plan_ends *ends = &edge->ends;
    const plan_boxing *path = edge->path;
    const bool crosses = plan_ends_cross(ends);
    const plan_stage *to = ends->to_stage;
    const plan_stage *from = crosses ? ends->from_stage : to;
    const cost_place place = cost_place_of(l->model, from, to);
    ir_put_pair(key, -1 - path->n, crosses ? 1 + path->cross : 0);
    ir_put_pair(key, place.begins[0], place.begins[1]);
    ir_put_word(key, place.apart);
    ir_put_mesh(key, &from->mesh);
    ir_put_mesh(key, &to->mesh);
    ir_put_shape(key, &ends->tensor->shape, ends->tensor->dtype);
    for (int32_t k = 0; k <= path->n; k++)
        ir_put_sbp(key, &path->at[k], plan_path_stage(ends, path, k)->mesh.n);
}

static int32_t find_term(lister *l, const ir_words *key, const cost_term *term)
{
    bool known;
    const int32_t number = cost_number_of(&l->known, key, &known);
    if (known)
        return number;
    fs_push(l->arena, &l->terms, *term);
    if (l->of_all)
        l->terms.at[number].number = cost_number_of(l->of_all, key, &known);
    return number;
}

static void add(lister *l, const ir_words *key, cost_term term)
{
    const int32_t stage = l->strategy->stage_of[term.node];
    fs_push(l->arena, &l->all,
            (cost_counted){find_term(l, key, &term), 2 * stage + term.per_step,
                           term.node,
                           ir_times(&l->graph->nodes.at[term.node])});
}

static void add_node(lister *l, int32_t v)
{
    const bool per_step = cost_node_per_step(l->graph, v);
    int64_t word[MOST_WORDS];
    ir_words key = {0, MOST_WORDS, word};
    ir_put_word(&key, 2 * l->of + per_step);
    put_node(l, v, &key);
    add(l, &key, (cost_term){v, -1, per_step, -1});
}

/* What lies as it is wanted takes no time. */
static void add_edge(lister *l, int32_t v, int32_t slot)
{
    const cost_sum sum = {.graph = l->graph, .strategy = l->strategy};
    cost_edge edge;
    int64_t word[MOST_WORDS];
    ir_words key = {0, MOST_WORDS, word};
    if (l->strategy->edge[l->strategy->first_edge[v] + slot].n == 0 ||
        !cost_sum_edge_at(&sum, v, slot, &edge))
        return;
    ir_put_word(&key, 2 * l->of + edge.per_step);
    put_edge(l, &edge, &key);
    add(l, &key, (cost_term){v, slot, edge.per_step, -1});
}

static void add_terms_of(lister *l, int32_t v)
{
    const plan_strategy *s = l->strategy;
    add_node(l, v);
    for (int32_t e = s->first_edge[v]; e < s->first_edge[v + 1]; e++)
        add_edge(l, v, e - s->first_edge[v]);
}

static void add_the_same(lister *l, int32_t v, int32_t u)
{
    const int32_t end = l->first[u + 1];
    for (int32_t k = l->first[u]; k < end; k++) {
        cost_counted one = l->all.at[k];
        one.node = v;
        one.times = ir_times(&l->graph->nodes.at[v]);
        fs_push(l->arena, &l->all, one);
    }
}

void cost_list_terms(const cost_model *model, fs_arena *arena,
                     cost_formula *formula)
{
    const plan_strategy *strategy = formula->strategy;
    lister l = {.model = model,
                .graph = formula->graph,
                .strategy = strategy,
                .of_all = formula->known,
                .of = formula->of,
                .arena = arena,
                .scratch = fs_arena_create()};
    l.known.known.arena = l.scratch;
    fs_reserve(arena, &l.all, strategy->n_nodes);
    l.first = fs_new(l.scratch, int32_t, strategy->n_nodes + 1);
    for (int32_t v = 0; v < strategy->n_nodes; v++) {
        const int32_t u = plan_node_like(strategy, v);
        if (u == v)
            add_terms_of(&l, v);
        else
            add_the_same(&l, v, u);
        l.first[v + 1] = l.all.n;
    }
    fs_arena_destroy(l.scratch);
    formula->n_terms = l.terms.n;
    formula->terms = l.terms.at;
    formula->n_counted = l.all.n;
    formula->counted = l.all.at;
}
