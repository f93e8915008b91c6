/* What a strategy's formula sums: its nodes and what is boxed. Terms that no
 * model of the cluster tells apart are one: a deep network has few different
 * ones. */
#include "config.h"
#include "cost/parts.h"

#include "ir/compact.h"
#include "ir/works.h"

#include <stddef.h>
#include <string.h>

/* All that the seconds of a term depend on. */
enum {
    OF_EDGE = 3 + 2 * (1 + IR_MAX_MESH) + 1 + IR_MAX_RANK +
              (PLAN_MAX_BOXING + 1) * IR_MAX_MESH,
    MOST_WORDS = 2 + (IR_WORK_WORDS > OF_EDGE ? IR_WORK_WORDS : OF_EDGE)
};
typedef struct term_key {
    int32_t n;
    int64_t word[MOST_WORDS];
} term_key;

/* A key that was met, and its term. */
typedef struct met {
    int32_t term;
    int64_t word[];
} met;

typedef struct lister {
    const cost_model *model;
    const ir_graph *graph;
    const plan_strategy *strategy;
    fs_arena *arena, *scratch;
    fs_intern known;
    FS_VEC(cost_term) terms;
    FS_VEC(cost_counted) all;
    int32_t *first; /* [nodes + 1] of `all` */
} lister;

static void put(term_key *key, int64_t word)
{
    key->word[key->n++] = word;
}

static void put_pair(term_key *key, int32_t high, int32_t low)
{
    put(key, (int64_t)((uint64_t)(uint32_t)high << 32 | (uint32_t)low));
}

static void put_tensor(term_key *key, const ir_tensor *t)
{
    put_pair(key, (int32_t)t->dtype, t->shape.rank);
    for (int32_t d = 0; d < t->shape.rank; d++)
        put(key, t->shape.dim[d]);
}

static void put_mesh(term_key *key, const ir_mesh *mesh)
{
    put(key, mesh->n);
    for (int32_t a = 0; a < mesh->n; a++)
        put(key, mesh->dim[a]);
}

static void put_sbp(term_key *key, const ir_nd_sbp *sbp, int32_t n)
{
    for (int32_t a = 0; a < n; a++) {
        const ir_sbp *at = &sbp->at[a];
        put_pair(key, at->kind << 8 | at->axis, at->before << 16 | at->after);
    }
}

static void put_node(const lister *l, int32_t v, term_key *key)
{
    const plan_stage *stage = &l->strategy->stages[l->strategy->stage_of[v]];
    const cost_groups groups = cost_groups_of(l->model, stage);
    ir_work_key work;
    ir_work_key_of(l->graph, &l->graph->nodes.at[v], &l->strategy->sig[v],
                   &stage->mesh, &work);
    put_pair(key, groups.first, groups.last);
    memcpy(key->word + key->n, work.word, (size_t)work.n * sizeof *work.word);
    key->n += work.n;
}

static void put_edge(const lister *l, const cost_edge *edge, term_key *key)
{
    const plan_ends *ends = &edge->ends;
    const plan_boxing *path = edge->path;
    const bool crosses = plan_ends_cross(ends);
    const plan_stage *to = ends->to_stage;
    const plan_stage *from = crosses ? ends->from_stage : to;
    const cost_place place = cost_place_of(l->model, from, to);
    put_pair(key, -1 - path->n, crosses ? 1 + path->cross : 0);
    put_pair(key, place.begins[0], place.begins[1]);
    put(key, place.apart);
    put_mesh(key, &from->mesh);
    put_mesh(key, &to->mesh);
    put_tensor(key, ends->tensor);
    for (int32_t k = 0; k <= path->n; k++)
        put_sbp(key, &path->at[k], plan_path_stage(ends, path, k)->mesh.n);
}

static int32_t find_term(lister *l, const term_key *key, const cost_term *term)
{
    const size_t bytes = (size_t)key->n * sizeof *key->word;
    const void *found = fs_intern_find(&l->known, key->word, bytes);
    if (found)
        return ((const met *)((const char *)found - offsetof(met, word)))->term;
    met *made = fs_alloc(l->scratch, 1, sizeof *made + bytes);
    made->term = l->terms.n;
    memcpy(made->word, key->word, bytes);
    fs_intern_add(&l->known, made->word, bytes);
    fs_push(l->arena, &l->terms, *term);
    return made->term;
}

static void add(lister *l, const term_key *key, cost_term term)
{
    const int32_t stage = l->strategy->stage_of[term.node];
    fs_push(
        l->arena, &l->all,
        (cost_counted){find_term(l, key, &term), 2 * stage + term.per_step,
                       ir_times(&l->graph->nodes.at[term.node])});
}

static void add_node(lister *l, int32_t v)
{
    const bool per_step = cost_node_per_step(l->graph, v);
    term_key key = {.n = 0};
    put(&key, per_step);
    put_node(l, v, &key);
    add(l, &key, (cost_term){v, -1, per_step});
}

/* What lies as it is wanted takes no time. */
static void add_edge(lister *l, int32_t v, int32_t slot)
{
    const cost_sum sum = {.graph = l->graph, .strategy = l->strategy};
    cost_edge edge;
    term_key key = {.n = 0};
    if (l->strategy->edge[l->strategy->first_edge[v] + slot].n == 0 ||
        !cost_sum_edge_at(&sum, v, slot, &edge))
        return;
    put(&key, edge.per_step);
    put_edge(l, &edge, &key);
    add(l, &key, (cost_term){v, slot, edge.per_step});
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
                .arena = arena,
                .scratch = fs_arena_create()};
    l.known.arena = l.scratch;
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
