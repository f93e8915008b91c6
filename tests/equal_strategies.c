/* Random strategies for exec_equal_test: any legal signature of any node, any
 * cut of the network into stages. */
#include "config.h"

#include "equal.h"
#include "exec_plans.h"
#include "ir/recompute.h"
#include "plan/schedule.h"

typedef struct drawing {
    const equal_case *c;
    const ir_graph *g;
    plan_strategy *s;
    plan_boxer *boxer;
    fs_arena *arena;
    fs_err *err;
} drawing;

/* Of one node's draws, whatever the others are. */
static uint64_t seed_of(const drawing *d, int32_t v)
{
    return fs_hash_text(fs_mix(d->c->seed + 1), d->g->nodes.at[v].name);
}

/* ---- signatures ---- */

typedef struct choice {
    const ir_node *node;
    ir_io io;
    ir_sig_list list;
    const ir_mesh *mesh;
    uint64_t seed;
} choice;

static void put_axis(const choice *k, int32_t axis, const ir_sig *one,
                     ir_nd_sig *sig)
{
    for (int32_t i = 0; i < k->node->n_in; i++)
        sig->in[i].at[axis] = one->in[i];
    for (int32_t i = 0; i < k->node->n_out; i++)
        sig->out[i].at[axis] = one->out[i];
}

/* Puts a one-axis signature on the axis if the whole stays legal. */
static bool try_axis(const choice *k, int32_t axis, int32_t which,
                     ir_nd_sig *sig)
{
    put_axis(k, axis, &k->list.at[which], sig);
    if (ir_signature_fits(k->node, &k->io, k->mesh, sig))
        return true;
    put_axis(k, axis, &k->list.at[0], sig);
    return false;
}

static void draw_any(choice *k, ir_nd_sig *sig)
{
    for (int32_t a = 0; a < k->mesh->n; a++) {
        bool put = k->mesh->dim[a] == 1;
        for (int32_t attempt = 0; attempt < 6 && !put; attempt++) {
            int32_t which = (int32_t)fs_rand_below(&k->seed, k->list.n);
            put = try_axis(k, a, which, sig);
        }
    }
}

/* On each axis what asks for the fewest changes of its inputs. */
static void follow_inputs(const drawing *d, choice *k, ir_nd_sig *sig)
{
    for (int32_t a = 0; a < k->mesh->n; a++) {
        int32_t best = 0, fewest = INT32_MAX;
        for (int32_t w = 0; w < k->list.n && k->mesh->dim[a] > 1; w++) {
            int32_t changes = 0;
            for (int32_t i = 0; i < k->node->n_in; i++) {
                const ir_tensor *t = &d->g->tensors.at[k->node->in[i]];
                const ir_nd_sbp *has = &d->s->sig[t->producer].out[t->slot];
                changes += !ir_sbp_equal(has->at[a], k->list.at[w].in[i]);
            }
            if (changes < fewest && try_axis(k, a, w, sig)) {
                fewest = changes;
                best = w;
            }
        }
        try_axis(k, a, best, sig);
    }
}

static bool choose(const drawing *d, int32_t v)
{
    const ir_node *node = &d->g->nodes.at[v];
    choice k = {.node = node,
                .mesh = &d->s->stages[d->s->stage_of[v]].mesh,
                .seed = seed_of(d, v)};
    ir_node_io(d->g, node, &k.io);
    ir_signatures_local(node, &k.io, d->arena, &k.list);
    const bool source = node->n_in == 0;
    const bool wild =
        fs_rand_below(&k.seed, 100) < (source && d->c->wild ? 60 : d->c->wild);
    for (int32_t attempt = 0; attempt < 8; attempt++) {
        ir_nd_sig sig = {0};
        const bool plain = attempt == 7 || (d->c->plain && d->c->plain[v]);
        if (!plain && wild)
            draw_any(&k, &sig);
        else if (!plain)
            follow_inputs(d, &k, &sig);
        d->s->sig[v] = sig;
        if (join_inputs(d->g, d->s, d->boxer, v)) {
            if (d->c->anew && !plain)
                draw_sharing(d->g, d->s, v, &k.seed);
            return true;
        }
    }
    fs_fail(d->err, FS_NO, "%s: no path of boxing to all B", node->name);
    return false;
}

/* ---- the whole ---- */

/* Does place a stand before place b on the devices? In a third of the cases in
 * any order. */
static bool stands_before(const equal_case *c, int32_t a, int32_t b)
{
    const uint64_t x = fs_mix(c->seed + 2 + (uint64_t)a);
    const uint64_t y = fs_mix(c->seed + 2 + (uint64_t)b);
    return c->seed % 3 == 0 ? x < y : a < b;
}

static void place_meshes(const equal_case *c, plan_strategy *s)
{
    plan_placing placing = plan_schedule_find(c->schedule)->placing;
    for (int32_t i = 0; i < s->n_stages; i++) {
        int32_t place = plan_placing_role(placing, c->n_stages, i);
        s->stages[i].mesh = c->mesh[place];
        for (int32_t k = 0; k < c->n_stages; k++)
            if (stands_before(c, k, place))
                s->stages[i].first_device += ir_mesh_size(&c->mesh[k]);
    }
}

/* The graph as stages drawn of it have it, and an empty strategy with them. */
static ir_graph *bind_stages(const equal_case *c, const ir_graph *g, drawing *d)
{
    uint64_t seed = fs_mix(c->seed + 2);
    const int32_t n_stages = c->n_stages * c->chunks;
    plan_strategy *whole = plan_strategy_new(g, n_stages, d->arena);
    ir_graph *bound = ir_graph_copy(g, d->arena);
    place_stages(g, whole, &seed);
    ir_recompute_bind(bound, whole->stage_of);
    d->g = bound;
    d->s = plan_strategy_new(bound, n_stages, d->arena);
    d->s->stage_of = whole->stage_of;
    return bound;
}

plan_strategy *equal_strategy(const equal_case *c, const ir_graph *g,
                              fs_arena *arena, fs_err *err, ir_graph **bound)
{
    plan_boxing_cost cost = {.seconds = unit_seconds};
    drawing d = {.c = c, .arena = arena, .err = err};
    d.boxer = plan_boxer_create(cost, arena);
    *bound = bind_stages(c, g, &d);
    d.s->schedule = c->schedule;
    place_meshes(c, d.s);
    for (int32_t v = 0; v < d.g->nodes.n; v++)
        if (!choose(&d, v))
            return NULL;
    if (close_loops(d.g, d.s, d.boxer))
        return d.s;
    fs_fail(err, FS_NO, "a loop has no path of boxing");
    return NULL;
}

plan_strategy *equal_alone(const ir_graph *g, fs_arena *arena)
{
    return plan_strategy_new(g, 1, arena);
}
