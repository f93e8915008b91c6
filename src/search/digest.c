/* What a proof speaks of, in two numbers: equal numbers, equal questions. */
#include "config.h"
#include "search/digest.h"

#include "search/lay_out.h"
#include "search/recipe/recipe.h"

#include <string.h>

static void add(uint64_t *digest, int64_t value)
{
    *digest = fs_mix(*digest ^ (uint64_t)value) + 0x9e3779b97f4a7c15u;
}

static void add_text(uint64_t *digest, const char *text)
{
    *digest = fs_hash_text(*digest, text ? text : "");
}

static void add_mesh(uint64_t *digest, const ir_mesh *mesh)
{
    add(digest, mesh->n);
    for (int32_t a = 0; a < mesh->n; a++)
        add(digest, mesh->dim[a]);
}

static void add_node(uint64_t *digest, const ir_node *node)
{
    int64_t attrs[IR_MAX_ATTR];
    ir_structural_attrs(node, attrs);
    add(digest, (int64_t)node->op * 4 + (int64_t)node->phase);
    add(digest, node->forward);
    *digest = fs_hash(*digest, node->in, (size_t)node->n_in * sizeof *node->in);
    *digest = fs_hash(*digest, attrs, sizeof attrs);
    *digest = fs_hash(*digest, node->f, sizeof node->f);
}

static void add_tensor(uint64_t *digest, const ir_tensor *tensor)
{
    add(digest, (int64_t)tensor->dtype * 16 + (int64_t)tensor->role);
    add(digest, tensor->next);
    *digest = fs_hash(*digest, tensor->shape.dim,
                      (size_t)tensor->shape.rank * sizeof *tensor->shape.dim);
}

/* The graphs of a problem are of one network and differ in how many
 * micro-batches there are: one is looked at node by node. */
static void add_graphs(uint64_t *digest, const search_problem *p)
{
    for (int32_t g = 0; g < p->n_graphs; g++) {
        add(digest, p->graphs[g].micro_batches);
        add(digest, p->graphs[g].graph->batch);
        add(digest, p->graphs[g].graph->nodes.n);
        if (p->graphs[g].states)
            add_text(digest, p->graphs[g].states);
    }
    if (p->n_graphs == 0)
        return;
    const ir_graph *last = p->graphs[p->n_graphs - 1].graph;
    for (int32_t v = 0; v < last->nodes.n; v++)
        add_node(digest, &last->nodes.at[v]);
    for (int32_t t = 0; t < last->tensors.n; t++)
        add_tensor(digest, &last->tensors.at[t]);
}

static void add_layers(uint64_t *digest, int32_t n, const search_layers *layers)
{
    add(digest, n);
    for (int32_t i = 0; i < n; i++) {
        add(digest, layers[i].blocks);
        add(digest, layers[i].nodes);
    }
}

static void add_each(uint64_t *digest, const search_each *each)
{
    add(digest, each->n);
    for (int32_t i = 0; i < each->n; i++)
        add(digest, each->at[i]);
}

/* What of a recipe the problem says by its filter alone. */
static void add_recipe(uint64_t *digest, const search_recipe *r)
{
    const int32_t parts[] = {r->dp,           r->tp,   r->pp,
                             r->cp,           r->ep,   r->interleave,
                             r->seq_parallel, r->zero, r->pins.n};
    *digest = fs_hash(*digest, parts, sizeof parts);
    add_each(digest, &r->dp_each);
    add_each(digest, &r->tp_each);
    add_each(digest, &r->cp_each);
    add_each(digest, &r->ep_each);
    for (int32_t k = 0; k < r->pins.n; k++)
        add_text(digest, r->pins.at[k].text);
}

static void add_limits(uint64_t *digest, const search_problem *p)
{
    const double share = p->memory_share > 0 ? p->memory_share : 1;
    add(digest, p->memory_bytes);
    *digest = fs_hash(*digest, &share, sizeof share);
    for (int32_t k = 0; k < p->cluster->n_groups; k++) {
        add(digest, (int64_t)p->cluster->groups[k].device.memory_bytes);
        add(digest, p->cluster->groups[k].nodes);
    }
}

uint64_t search_cut_digest(const search_candidate *c)
{
    uint64_t digest = 0;
    add(&digest, c->graph->micro_batches);
    add_text(&digest, c->graph->states);
    add_text(&digest, c->schedule);
    add(&digest, c->n_stages);
    add(&digest, c->depth);
    add(&digest, c->again);
    add(&digest, c->order ? c->order_number : -1);
    add_mesh(&digest, &c->mesh);
    for (int32_t i = 0; c->part->mesh && i < c->n_stages; i++)
        add_mesh(&digest, &c->part->mesh[i]);
    if (c->part->begin)
        digest = fs_hash(digest, c->part->begin,
                         (size_t)c->n_stages * sizeof *c->part->begin);
    return fs_mix(digest);
}

uint64_t search_space_digest(uint64_t question, uint64_t cuts)
{
    return cuts ? fs_mix(question ^ fs_mix(cuts)) : question;
}

uint64_t search_question_digest(const search_problem *p)
{
    uint64_t digest = 0;
    add_graphs(&digest, p);
    add_limits(&digest, p);
    add(&digest, p->cluster->n_devices);
    add_text(&digest, p->schedule);
    add(&digest, p->n_schedules);
    for (int32_t k = 0; k < p->n_schedules; k++)
        add_text(&digest, p->schedules[k]);
    for (int32_t k = 0; p->depths && k < p->n_schedules; k++)
        add(&digest, p->depths[k]);
    add(&digest, p->fix_stages);
    add(&digest, search_depth(p));
    add_mesh(&digest, &p->fix_mesh);
    for (int32_t i = 0; p->stage_mesh && i < p->fix_stages; i++)
        add_mesh(&digest, &p->stage_mesh[i]);
    for (int32_t i = 0; p->first_device && i < p->fix_stages; i++)
        add(&digest, p->first_device[i]);
    add(&digest, p->max_mesh_axes);
    if (p->cluster->n_groups > 1)
        add(&digest, (p->without & SEARCH_ORDERS) == 0);
    add_layers(&digest, p->n_layers, p->layers);
    if (p->stage_of && p->n_graphs)
        digest =
            fs_hash(digest, p->stage_of,
                    (size_t)p->graphs[0].graph->nodes.n * sizeof *p->stage_of);
    add(&digest, (int64_t)p->lives);
    add(&digest, p->again != NULL);
    if (p->recipe)
        add_recipe(&digest, p->recipe);
    return digest;
}

/* ---- the cost model ---- */

static void add_seconds(uint64_t *digest, double seconds)
{
    *digest = fs_hash(*digest, &seconds, sizeof seconds);
}

/* Seconds of the last op of each kind, whole, on one device. */
static void add_ops(uint64_t *digest, const search_problem *p)
{
    const ir_graph *graph = p->graphs[0].graph;
    const plan_stage one = {{0}, 0};
    ir_nd_sig whole = {0};
    int32_t last[IR_OP_COUNT] = {0};
    for (int32_t v = 0; v < graph->nodes.n; v++)
        last[graph->nodes.at[v].op] = v + 1;
    for (int32_t op = 0; op < IR_OP_COUNT; op++)
        if (last[op])
            add_seconds(digest, cost_node_seconds(p->cost, graph, last[op] - 1,
                                                  &whole, &one));
}

/* Boxing of the network's largest tensor over so many devices: seconds and what
 * it holds. */
static void add_boxing(uint64_t *digest, const search_problem *p,
                       int32_t devices)
{
    const ir_graph *graph = p->graphs[0].graph;
    const plan_stage stage = {{1, {devices}}, 0};
    static const ir_sbp_kind ends[][2] = {
        {IR_PSUM, IR_B}, {IR_S, IR_B}, {IR_PSUM, IR_S}};
    int32_t most = -1;
    int64_t count = 0;
    for (int32_t t = 0; t < graph->tensors.n; t++) {
        const ir_shape *shape = &graph->tensors.at[t].shape;
        if (shape->rank > 0 && shape->dim[0] >= devices &&
            ir_shape_count(shape) > count) {
            count = ir_shape_count(shape);
            most = t;
        }
    }
    for (size_t k = 0; most >= 0 && k < sizeof ends / sizeof *ends; k++) {
        const ir_nd_sbp from = {{{.kind = (uint8_t)ends[k][0]}}};
        const ir_nd_sbp to = {{{.kind = (uint8_t)ends[k][1]}}};
        plan_box_step step;
        if (plan_box_step_make(&graph->tensors.at[most], &stage.mesh, &from,
                               &to, &step)) {
            const plan_demand demand = cost_box_step(p->cost, &stage, &step);
            add_seconds(digest, cost_shared_seconds(p->cost, &stage, &demand));
            add(digest,
                plan_box_scratch(&graph->tensors.at[most], &stage.mesh, &step));
        }
    }
}

uint64_t search_cost_digest(const search_problem *p)
{
    uint64_t digest = p->cluster->digest;
    if (p->n_graphs == 0)
        return digest;
    add_ops(&digest, p);
    add_boxing(&digest, p, p->cluster->n_devices);
    if (p->cluster->n_devices > 2)
        add_boxing(&digest, p, 2);
    return digest;
}
