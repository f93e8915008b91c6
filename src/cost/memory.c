/* Which pieces are live at a moment, as lowering will have it (src/plan): a
 * piece is held from the task that makes it to the last that reads it. Here
 * every reader is charged with what it needs held, divided by the readers
 * that are live then and may read the same copy: never too much, since the
 * bytes of different copies are at least their mean. */
#include "config.h"
#include "cost/memory.h"

#include "cost/parts.h"
#include "plan/lower.h"

struct cost_memory {
    const cost_program *program;
    fs_arena *arena;
    ir_uses uses;
    int32_t prefetch;
    plan_pipeline pipe;
    cost_fullest *slot; /* [n_stages] */
    plan_pace pace;
    int32_t *viewed;    /* [tensors] what its register was made for */
    int32_t *last;      /* [tensors] of those: last backward reader, or -1 */
    int32_t *last_end;  /* and last reader of the updates */
    int32_t *between;   /* [tensors] that of a layer between the first and the
                           last for one that layers hand on; else itself */
    int32_t **sharing;  /* [moment][tensors] edges that hold a copy, */
    int32_t **among;    /* and of such a layer, those of layers like it */
    int32_t **received; /* [n_stages][tensors] edges that cross to a stage, */
    int32_t **kept;     /* and those of them that the backward pass reads */
    FS_VEC(cost_moment) moments;
    double *most; /* [moment] 0: not known yet */
};

/* How many nodes of its stage it stands for. */
static int32_t times(const cost_memory *mem, int32_t v)
{
    const cost_standing *standing = mem->program->standing;
    return standing ? standing->times[v] : 1;
}

/* Is it handed on from the layer before? */
static bool is_link(const cost_memory *mem, int32_t tensor, int32_t v)
{
    const cost_standing *standing = mem->program->standing;
    const ir_tensor *root =
        &mem->program->graph->tensors.at[mem->viewed[tensor]];
    return standing && standing->run[v] >= 0 &&
           standing->run[v] == standing->run[root->producer];
}

/* Readers like v of one copy of a tensor: layers read what is of none of them
 * all together, and each what the one before it made. */
static int32_t readers_like(const cost_memory *mem, int32_t tensor, int32_t v)
{
    return is_link(mem, tensor, v) ? 1 : times(mem, v);
}

/* Which stage of the pipeline. */
static int32_t place(const cost_memory *mem, int32_t stage)
{
    const cost_standing *standing = mem->program->standing;
    return standing ? standing->stage[stage] : stage;
}

static const ir_node *producer_of(const cost_memory *mem, int32_t tensor)
{
    const ir_graph *graph = mem->program->graph;
    return &graph->nodes.at[graph->tensors.at[tensor].producer];
}

/* Inputs and constants are made anew on each stage that reads them. */
static int32_t home_of(const cost_memory *mem, int32_t tensor, int32_t reader)
{
    const ir_node *node = producer_of(mem, tensor);
    if (node->op == IR_OP_input || node->op == IR_OP_constant)
        return mem->program->stage_of[reader];
    return mem->program
        ->stage_of[mem->program->graph->tensors.at[tensor].producer];
}

static int32_t edge_tensor(const cost_memory *mem, int32_t v, int32_t slot)
{
    const ir_graph *graph = mem->program->graph;
    const ir_node *node = &graph->nodes.at[v];
    return node->op == IR_OP_variable ? graph->tensors.at[node->out[0]].next
                                      : node->in[slot];
}

static int64_t aligned(const ir_tensor *tensor, const ir_nd_sbp *sbp,
                       const ir_mesh *mesh)
{
    int64_t bytes = cost_piece_bytes(tensor, sbp, mesh);
    return (bytes + PLAN_ALIGN - 1) / PLAN_ALIGN * PLAN_ALIGN;
}

/* ---- what one reader holds ---- */

/* The slot of the backward pass that is looked at has another before it, when
 * one of the fullest has: then all sums of gradients are there too. */
static bool goes_on(const cost_memory *mem, int32_t stage)
{
    return mem->slot[place(mem, stage)].goes_on;
}

static int32_t in_flight(const cost_memory *mem, int32_t stage)
{
    return mem->slot[place(mem, stage)].in_flight;
}

/* Stages that share devices have nothing to move between them. */
static bool same_role(const cost_memory *mem, int32_t a, int32_t b)
{
    return mem->pipe.role_of[place(mem, a)] == mem->pipe.role_of[place(mem, b)];
}

/* Copies of a variable or constant for the step, made when it begins. */
static void hold_for_step(const cost_memory *mem, const cost_moment *at,
                          int32_t v, plan_phase phase, cost_holding *out)
{
    const cost_fullest *slot = &mem->slot[place(mem, at->stage)];
    bool held = false;
    if (at->phase == PLAN_BACKWARD && phase == PLAN_FORWARD)
        held = slot->forwards > 0;
    else if (at->phase == PLAN_BACKWARD && phase == PLAN_BACKWARD)
        held = slot->backwards > 0 || v >= at->node;
    out->after = held;
}

/* A forward tensor for a backward reader: one per micro-batch in flight. What
 * is boxed may have been boxed for forward already, or wait unboxed. */
static void hold_forward(const cost_memory *mem, const cost_moment *at,
                         int32_t tensor, int32_t v, plan_phase phase,
                         cost_holding *out)
{
    if (at->phase != PLAN_BACKWARD || phase != PLAN_BACKWARD)
        return;
    int32_t n = in_flight(mem, at->stage) - 1 + (v >= at->node);
    int32_t root = mem->viewed[tensor];
    int32_t beyond = n > 2 ? n - 2 : 0;
    /* Of what is loaded or received two are counted already; what is boxed
     * may be one of them. */
    if (producer_of(mem, root)->op == IR_OP_input)
        out->straight = in_flight(mem, at->stage) - 1;
    else if (home_of(mem, root, v) != at->stage)
        out->straight = mem->kept[at->stage][root] ? 0 : beyond;
    else
        out->straight = out->least = n;
}

static void hold_backward(const cost_memory *mem, const cost_moment *at,
                          int32_t tensor, int32_t v, cost_holding *out)
{
    const ir_graph *graph = mem->program->graph;
    int32_t made = graph->tensors.at[mem->viewed[tensor]].producer;
    int32_t boxed_behind = graph->tensors.at[tensor].producer;
    if (at->phase != PLAN_BACKWARD || at->node < made || at->node > v ||
        mem->pipe.schedule->splits) /* it may run later */
        return;
    out->straight = home_of(mem, mem->viewed[tensor], v) == at->stage;
    out->after = at->node > boxed_behind;
    out->before = !out->after;
    /* Of layers that hand it on, only the first has been handed it. */
    if (is_link(mem, tensor, v) && times(mem, made) == 1)
        out->times = 1;
}

/* What is boxed anew for a reader is there while that runs; until then what it
 * is made from. */
static void hold_anew(const cost_memory *mem, const cost_moment *at,
                      int32_t tensor, int32_t v, cost_holding *out)
{
    const int32_t held = out->least + out->before + out->after;
    const int32_t n = out->times;
    if (plan_lower_base(mem->program->graph, tensor) == PLAN_BEGIN)
        *out = (cost_holding){.share = 1, .times = n, .after = at->node == v};
    else if (plan_lower_base(mem->program->graph, tensor) == PLAN_FORWARD)
        *out = (cost_holding){
            .share = 1, .times = n, .straight = out->straight, .before = held};
    else if (out->straight && at->node == v)
        *out =
            (cost_holding){.share = 1, .times = n, .straight = 1, .after = 1};
    else if (out->straight)
        *out =
            (cost_holding){.share = 1, .times = n, .straight = 1, .before = 1};
}

/* A reader on the stage where the tensor is made. */
static void hold_here(const cost_memory *mem, const cost_moment *at,
                      int32_t tensor, int32_t v, cost_holding *out)
{
    const ir_graph *graph = mem->program->graph;
    plan_phase base = plan_lower_base(graph, tensor);
    plan_phase phase = plan_lower_phase(graph, &graph->nodes.at[v]);
    if (base == PLAN_BEGIN)
        hold_for_step(mem, at, v, phase, out);
    else if (base == PLAN_FORWARD)
        hold_forward(mem, at, tensor, v, phase, out);
    else if (base == PLAN_BACKWARD)
        hold_backward(mem, at, tensor, v, out);
    else
        out->next = at->phase == PLAN_END && v == at->node;
}

/* Does a backward node of the stage read it, itself or through views? */
static bool backward_reads(const cost_memory *mem, int32_t tensor,
                           int32_t stage)
{
    const ir_graph *graph = mem->program->graph;
    const ir_uses *uses = &mem->uses;
    for (int32_t u = uses->first[tensor]; u < uses->first[tensor + 1]; u++) {
        const ir_node *reader = &graph->nodes.at[uses->list[u]];
        if (mem->program->stage_of[uses->list[u]] != stage)
            continue;
        if (plan_lower_is_view(reader)
                ? backward_reads(mem, reader->out[0], stage)
                : plan_lower_phase(graph, reader) == PLAN_BACKWARD)
            return true;
    }
    return false;
}

/* Is a received piece kept for this reader of the backward pass? */
static bool kept_by(const cost_memory *mem, int32_t tensor, int32_t v)
{
    const ir_graph *graph = mem->program->graph;
    const ir_node *node = &graph->nodes.at[v];
    return !plan_lower_is_view(node) &&
           plan_lower_base(graph, tensor) == PLAN_FORWARD &&
           plan_lower_phase(graph, node) == PLAN_BACKWARD;
}

/* Buffers of what a stage receives for a reader there, credits of lowering. */
static int32_t received_for(const cost_memory *mem, int32_t tensor, int32_t v)
{
    const ir_graph *graph = mem->program->graph;
    int32_t to = mem->program->stage_of[v];
    bool kept = kept_by(mem, tensor, v);
    int32_t least = kept ? in_flight(mem, to) : 1;
    plan_phase made = plan_lower_base(graph, tensor);
    /* Between those that stages stand for there may be others. */
    int32_t apart = home_of(mem, tensor, v) - to;
    plan_crossing crossing = {place(mem, to) + apart, place(mem, to), made,
                              kept ? PLAN_BACKWARD : made};
    return plan_pace_buffers(&mem->pace, &crossing, least) + mem->prefetch;
}

/* A reader on another stage: received pieces and sent ones share with nothing,
 * and have credits of their own. */
static void hold_moved(const cost_memory *mem, const cost_moment *at,
                       int32_t tensor, int32_t v, cost_holding *out)
{
    const ir_graph *graph = mem->program->graph;
    int32_t m = mem->program->micro_batches, n;
    int32_t to = mem->program->stage_of[v];
    bool per_step = plan_tensor_per_step(graph, tensor);
    if (per_step)
        n = 1;
    else if (to != at->stage)
        n = backward_reads(mem, mem->viewed[tensor], at->stage) ? 1 : 2;
    else if (!mem->kept[to][tensor] || kept_by(mem, tensor, v))
        n = received_for(mem, tensor, v);
    else
        n = 0;
    out->after = n < m ? n : m;
    out->straight = per_step && to != at->stage ? 0 : out->after;
}

static bool holds(const cost_holding *h)
{
    return h->straight || h->before || h->after || h->next || h->least;
}

/* Copies, without how many share them. */
static void hold(const cost_memory *mem, const cost_moment *at,
                 cost_reader reader, cost_holding *out)
{
    const int32_t v = reader.node;
    const ir_node *node = &mem->program->graph->nodes.at[v];
    int32_t tensor = edge_tensor(mem, v, reader.slot);
    *out = (cost_holding){.share = 1, .times = times(mem, v)};
    if (tensor < 0 || node->op == IR_OP_variable)
        return;
    int32_t home = home_of(mem, tensor, v), to = mem->program->stage_of[v];
    if (!same_role(mem, home, to))
        hold_moved(mem, at, tensor, v, out);
    else if (home == to && !plan_lower_is_view(node))
        hold_here(mem, at, tensor, v, out);
    if (reader.anew && home == to && node->phase != IR_UPDATE)
        hold_anew(mem, at, tensor, v, out);
}

/* Of what layers hand on, those that the first of them reads with may be more
 * than those that all others read with, or fewer: the most. */
static int32_t share_of(const cost_memory *mem, int32_t moment, int32_t tensor,
                        int32_t v)
{
    const int32_t root = mem->viewed[tensor], inner = mem->between[root];
    int32_t share = mem->sharing[moment][root];
    if (times(mem, v) > 1 && is_link(mem, tensor, v)) {
        const int32_t among = mem->among[moment][inner];
        share = among > share ? among : share;
    }
    return share;
}

bool cost_memory_edge(const cost_memory *mem, int32_t moment,
                      cost_reader reader, cost_holding *out)
{
    const cost_moment *at = &mem->moments.at[moment];
    const int32_t v = reader.node, slot = reader.slot;
    int32_t tensor = edge_tensor(mem, v, slot);
    *out = (cost_holding){.share = 1, .times = times(mem, v)};
    if (tensor < 0)
        return false;
    int32_t home = home_of(mem, tensor, v), to = mem->program->stage_of[v];
    if (home != at->stage && to != at->stage)
        return false;
    hold(mem, at, reader, out);
    out->arrives = home != at->stage;
    if (holds(out) && home != at->stage)
        out->share = mem->kept[to][tensor] ? mem->kept[to][tensor]
                                           : mem->received[to][tensor];
    else if (holds(out) && !(reader.anew && out->after))
        out->share = share_of(mem, moment, tensor, v);
    out->scratch = at->scratch_node == v && at->scratch_slot == slot;
    return holds(out) || out->scratch;
}

static int64_t scratch_of(const ir_tensor *tensor, const ir_mesh *mesh,
                          const plan_boxing *path)
{
    int64_t most = 0;
    for (int32_t k = 0; k < path->n; k++) {
        plan_box_step step;
        if (!plan_box_step_make(tensor, mesh, &path->at[k], &path->at[k + 1],
                                &step) ||
            !plan_box_is_collective(step.kind))
            continue;
        int64_t bytes = step.bytes_in + step.bytes_out;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* The part of a path that lies on the holding's stage. */
static plan_boxing part_of(const cost_holding *h, const plan_ends *ends,
                           const plan_boxing *path)
{
    plan_boxing part = *path;
    if (!plan_ends_cross(ends))
        return part;
    if (!h->arrives) {
        part.n = path->cross;
        return part;
    }
    part.n = path->n - path->cross - 1;
    for (int32_t k = 0; k <= part.n; k++)
        part.at[k] = path->at[path->cross + 1 + k];
    return part;
}

/* Where what arrives is boxed again, one buffer of it is there in any case. */
static int64_t arrived_bytes(const cost_holding *h, const ir_tensor *tensor,
                             const ir_mesh *mesh, const plan_boxing *part)
{
    int64_t first = aligned(tensor, &part->at[0], mesh);
    return part->n ? (h->after > 0) * first : h->straight * first;
}

static int64_t held_bytes(const cost_holding *h, const ir_tensor *tensor,
                          const ir_mesh *mesh, const plan_boxing *part)
{
    int64_t first = aligned(tensor, &part->at[0], mesh), least = first,
            last = aligned(tensor, &part->at[part->n], mesh);
    if (part->n == 0)
        return h->straight * first;
    for (int32_t k = 1; h->least && k <= part->n; k++) {
        int64_t here = aligned(tensor, &part->at[k], mesh);
        least = here < least ? here : least;
    }
    return h->before * first + h->after * last + h->least * least +
           h->next * aligned(tensor, &part->at[1], mesh);
}

int64_t cost_holding_bytes(const cost_holding *h, const plan_ends *ends,
                           const plan_boxing *path)
{
    const ir_tensor *tensor = ends->tensor;
    const plan_boxing part = part_of(h, ends, path);
    const ir_mesh *mesh = h->arrives || ends->anywhere
                              ? &ends->to_stage->mesh
                              : &ends->from_stage->mesh;
    int64_t bytes = h->arrives ? arrived_bytes(h, tensor, mesh, &part)
                               : held_bytes(h, tensor, mesh, &part);
    bytes = bytes / h->share * h->times;
    return bytes + (h->scratch ? scratch_of(tensor, mesh, &part) : 0);
}

/* ---- nodes ---- */

static bool read_on(const cost_memory *mem, int32_t tensor, int32_t stage)
{
    const ir_uses *uses = &mem->uses;
    for (int32_t u = uses->first[tensor]; u < uses->first[tensor + 1]; u++)
        if (mem->program->stage_of[uses->list[u]] == stage)
            return true;
    return false;
}

int32_t cost_memory_copies(const cost_memory *mem, int32_t moment, int32_t v)
{
    const cost_moment *at = &mem->moments.at[moment];
    const ir_graph *graph = mem->program->graph;
    const ir_node *node = &graph->nodes.at[v];
    if (mem->program->stage_of[v] != at->stage)
        return 0;
    switch (node->op) {
    case IR_OP_variable:
        return times(mem, v);
    case IR_OP_constant:
        return times(mem, v) * read_on(mem, node->out[0], at->stage);
    case IR_OP_input: /* ahead by a piece; more for who keeps it */
        return 2 * times(mem, v) * read_on(mem, node->out[0], at->stage);
    case IR_OP_accumulate:
        if (at->phase == PLAN_END)
            return times(mem, v) * (mem->last_end[node->out[0]] >= at->node);
        return times(mem, v) * (!mem->pipe.schedule->splits &&
                                (goes_on(mem, at->stage) || v <= at->node));
    default:
        return 0;
    }
}

int64_t cost_memory_node(const cost_memory *mem, int32_t moment, int32_t v,
                         const ir_mesh *mesh, const ir_nd_sig *sig)
{
    const cost_program *p = mem->program;
    const ir_node *node = &p->graph->nodes.at[v];
    int64_t bytes = 0;
    int32_t copies = cost_memory_copies(mem, moment, v);
    for (int32_t o = 0; copies && o < node->n_out; o++)
        bytes += copies * aligned(&p->graph->tensors.at[node->out[o]],
                                  &sig->out[o], mesh);
    return bytes;
}

static double whole_bytes(const cost_memory *mem, int32_t tensor)
{
    const ir_tensor *t = &mem->program->graph->tensors.at[tensor];
    return (double)ir_shape_count(&t->shape) * (double)ir_dtype_bytes(t->dtype);
}

double cost_memory_most(cost_memory *mem, int32_t moment)
{
    const ir_graph *graph = mem->program->graph;
    double most = 0;
    if (mem->most[moment] > 0)
        return mem->most[moment];
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        int32_t copies = cost_memory_copies(mem, moment, v);
        int32_t slots = node->op == IR_OP_variable ? 1 : node->n_in;
        for (int32_t o = 0; copies && o < node->n_out; o++)
            most += copies * (whole_bytes(mem, node->out[o]) + PLAN_ALIGN);
        for (int32_t k = 0; k < slots; k++) {
            cost_holding h;
            if (cost_memory_edge(mem, moment, (cost_reader){v, k, false}, &h))
                most +=
                    (whole_bytes(mem, edge_tensor(mem, v, k)) + PLAN_ALIGN) *
                    (h.times *
                         (h.straight + h.before + h.after + h.next + h.least) +
                     2 * h.scratch);
        }
    }
    mem->most[moment] = most;
    return most;
}

/* ---- which moments ---- */

/* Whole bytes that come and go at nodes of a stage's backward pass. */
typedef struct tide {
    double *kept, *sums, *gathered; /* [nodes + 1] change before node v */
} tide;

static void add_tides(const cost_memory *mem, int32_t stage, tide *t)
{
    const ir_graph *graph = mem->program->graph;
    for (int32_t x = 0; x < graph->tensors.n; x++) {
        int32_t made = graph->tensors.at[x].producer;
        if (mem->program->stage_of[made] != stage || mem->viewed[x] != x)
            continue;
        plan_phase base = plan_lower_base(graph, x);
        double bytes = times(mem, made) * whole_bytes(mem, x);
        if (graph->nodes.at[made].op == IR_OP_accumulate) {
            t->sums[goes_on(mem, stage) ? 0 : made] += bytes;
        } else if (mem->last[x] >= 0 &&
                   (base == PLAN_FORWARD || base == PLAN_BACKWARD)) {
            t->kept[base == PLAN_FORWARD ? 0 : made] += bytes;
            t->kept[mem->last[x] + 1] -= bytes;
        } else if (mem->last[x] >= 0 && base == PLAN_BEGIN) {
            t->gathered[0] += bytes;
            t->gathered[mem->last[x] + 1] -= bytes;
        }
    }
}

/* The node of the stage's backward pass at which most is held, if what is
 * kept of a micro-batch is cut into `parts` and sums of gradients are not;
 * with or without copies of variables. */
static int32_t fullest(const cost_memory *mem, int32_t stage, double parts,
                       bool copies)
{
    const ir_graph *graph = mem->program->graph;
    fs_arena *scratch = fs_arena_create();
    tide t = {fs_new(scratch, double, graph->nodes.n + 1),
              fs_new(scratch, double, graph->nodes.n + 1),
              fs_new(scratch, double, graph->nodes.n + 1)};
    double kept = 0, sums = 0, most = -1;
    int32_t best = -1;
    add_tides(mem, stage, &t);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        kept += t.kept[v];
        sums += t.sums[v] + (copies ? t.gathered[v] : 0);
        if (mem->program->stage_of[v] != stage || node->phase != IR_BACKWARD ||
            times(mem, v) > 1 || plan_lower_is_view(node) ||
            kept / parts + sums <= most)
            continue;
        most = kept / parts + sums;
        best = v;
    }
    fs_arena_destroy(scratch);
    return best;
}

/* The edge of the stage with the largest tensor: into the sums of gradients,
 * or else of what is there per micro-batch. */
static void choose_scratch(const cost_memory *mem, bool sums, cost_moment *at)
{
    const ir_graph *graph = mem->program->graph;
    double most = 0;
    at->scratch_node = at->scratch_slot = -1;
    for (int32_t v = 0; v < graph->nodes.n; v++)
        for (int32_t k = 0; k < graph->nodes.at[v].n_in; k++) {
            int32_t x = graph->nodes.at[v].in[k];
            const ir_node *made = producer_of(mem, x);
            bool summed = graph->nodes.at[v].op == IR_OP_accumulate;
            if (summed != sums || made->op == IR_OP_input ||
                plan_tensor_per_step(graph, x) ||
                home_of(mem, x, v) != at->stage || whole_bytes(mem, x) <= most)
                continue;
            most = whole_bytes(mem, x);
            at->scratch_node = v;
            at->scratch_slot = k;
        }
}

/* The update that reads the largest sum of gradients, or -1. */
static int32_t largest_update(const cost_memory *mem, int32_t stage)
{
    const cost_program *p = mem->program;
    int32_t best = -1;
    double most = 0;
    for (int32_t x = 0; x < p->graph->tensors.n; x++) {
        int32_t reader = mem->last_end[x];
        if (reader < 0 || p->stage_of[reader] != stage ||
            times(mem, reader) > 1 ||
            producer_of(mem, x)->op != IR_OP_accumulate ||
            whole_bytes(mem, x) <= most)
            continue;
        most = whole_bytes(mem, x);
        best = reader;
    }
    return best;
}

static void add_moment(cost_memory *mem, int32_t stage, plan_phase phase,
                       int32_t node, bool sums)
{
    cost_moment at = {.stage = stage, .phase = phase, .node = node};
    choose_scratch(mem, sums, &at);
    fs_push(mem->arena, &mem->moments, at);
}

/* Where a data-parallel, a tensor-parallel and a gathering strategy are
 * fullest, each with either scratch; and the largest update. */
static void choose_moments(cost_memory *mem, int32_t stage)
{
    int32_t size = ir_mesh_size(&mem->program->stages[stage].mesh);
    int32_t at[3] = {fullest(mem, stage, size, false),
                     fullest(mem, stage, 1, false),
                     fullest(mem, stage, 1, size > 1)};
    for (int32_t k = 0; k < 3; k++) {
        if (at[k] < 0 || (k > 0 && at[k] == at[0]) || (k > 1 && at[k] == at[1]))
            continue;
        add_moment(mem, stage, PLAN_BACKWARD, at[k], true);
        add_moment(mem, stage, PLAN_BACKWARD, at[k], false);
    }
    add_moment(mem, stage, PLAN_END, largest_update(mem, stage), true);
}

/* ---- making ---- */

static void fill_viewed(cost_memory *mem)
{
    const ir_graph *graph = mem->program->graph;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        for (int32_t o = 0; o < node->n_out; o++)
            mem->viewed[node->out[o]] = plan_lower_is_view(node)
                                            ? mem->viewed[node->in[0]]
                                            : node->out[o];
    }
}

static void fill_last(cost_memory *mem)
{
    const ir_graph *graph = mem->program->graph;
    for (int32_t x = 0; x < graph->tensors.n; x++)
        mem->last[x] = mem->last_end[x] = -1;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        plan_phase phase = plan_lower_phase(graph, node);
        for (int32_t k = 0; k < node->n_in && !plan_lower_is_view(node); k++) {
            int32_t x = mem->viewed[node->in[k]];
            if (phase == PLAN_BACKWARD)
                mem->last[x] = v;
            else if (phase == PLAN_END)
                mem->last_end[x] = v;
        }
    }
}

static void count_received(cost_memory *mem)
{
    const cost_program *p = mem->program;
    for (int32_t i = 0; i < p->n_stages; i++) {
        mem->received[i] = fs_new(mem->arena, int32_t, p->graph->tensors.n);
        mem->kept[i] = fs_new(mem->arena, int32_t, p->graph->tensors.n);
    }
    for (int32_t v = 0; v < p->graph->nodes.n; v++)
        for (int32_t k = 0; k < p->graph->nodes.at[v].n_in; k++) {
            int32_t x = p->graph->nodes.at[v].in[k];
            if (same_role(mem, home_of(mem, x, v), p->stage_of[v]))
                continue;
            const int32_t n = readers_like(mem, x, v);
            mem->received[p->stage_of[v]][x] += n;
            mem->kept[p->stage_of[v]][x] += n * kept_by(mem, x, v);
        }
}

static void count_reader(cost_memory *mem, int32_t moment, int32_t v,
                         int32_t slot)
{
    const int32_t x = mem->program->graph->nodes.at[v].in[slot];
    const int32_t root = mem->viewed[x];
    cost_holding held;
    hold(mem, &mem->moments.at[moment], (cost_reader){v, slot, false}, &held);
    if (!holds(&held))
        return;
    mem->sharing[moment][root] += readers_like(mem, x, v);
    if (times(mem, v) > 1 && is_link(mem, x, v))
        mem->among[moment][mem->between[root]]++;
}

static void count_sharing(cost_memory *mem, int32_t moment)
{
    const cost_program *p = mem->program;
    const cost_moment *at = &mem->moments.at[moment];
    mem->sharing[moment] = fs_new(mem->arena, int32_t, p->graph->tensors.n);
    mem->among[moment] = mem->sharing[moment];
    if (p->standing)
        mem->among[moment] = fs_new(mem->arena, int32_t, p->graph->tensors.n);
    for (int32_t v = 0; v < p->graph->nodes.n; v++)
        for (int32_t k = 0; k < p->graph->nodes.at[v].n_in; k++)
            if (home_of(mem, p->graph->nodes.at[v].in[k], v) == at->stage)
                count_reader(mem, moment, v, k);
}

static void find_between(cost_memory *mem)
{
    const cost_standing *standing = mem->program->standing;
    const ir_graph *graph = mem->program->graph;
    fs_arena *scratch = fs_arena_create();
    int32_t *inner = fs_new(scratch, int32_t, graph->nodes.n);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        inner[v] = v;
    for (int32_t v = 0; standing && v < graph->nodes.n; v++)
        if (standing->times[v] > 1)
            inner[standing->equal[v]] = v;
    for (int32_t x = 0; x < graph->tensors.n; x++) {
        const ir_tensor *t = &graph->tensors.at[x];
        const int32_t first =
            standing ? standing->equal[t->producer] : t->producer;
        mem->between[x] = graph->nodes.at[inner[first]].out[t->slot];
    }
    fs_arena_destroy(scratch);
}

static plan_pipeline pipe_of(const cost_program *p, fs_arena *arena)
{
    if (p->standing)
        return *p->standing->pipe;
    return plan_pipeline_of(p->stages, p->n_stages, p->schedule,
                            p->micro_batches, arena);
}

cost_memory *cost_memory_create(const cost_program *program, fs_arena *arena)
{
    cost_memory *mem = fs_new(arena, cost_memory, 1);
    int32_t n = program->graph->tensors.n;
    *mem =
        (cost_memory){.program = program,
                      .arena = arena,
                      .uses = ir_graph_uses(program->graph, arena),
                      .prefetch = plan_lower_defaults().prefetch,
                      .pipe = pipe_of(program, arena),
                      .viewed = fs_new(arena, int32_t, n),
                      .between = fs_new(arena, int32_t, n),
                      .last = fs_new(arena, int32_t, n),
                      .last_end = fs_new(arena, int32_t, n),
                      .received = fs_new(arena, int32_t *, program->n_stages),
                      .kept = fs_new(arena, int32_t *, program->n_stages)};
    mem->pace = plan_pace_of(&mem->pipe, arena);
    mem->slot = cost_fullest_of(&mem->pipe, arena);
    fill_viewed(mem);
    find_between(mem);
    fill_last(mem);
    count_received(mem);
    for (int32_t i = 0; i < program->n_stages; i++)
        choose_moments(mem, i);
    mem->sharing = fs_new(arena, int32_t *, mem->moments.n);
    mem->among = fs_new(arena, int32_t *, mem->moments.n);
    mem->most = fs_new(arena, double, mem->moments.n);
    for (int32_t k = 0; k < mem->moments.n; k++)
        count_sharing(mem, k);
    return mem;
}

int32_t cost_memory_moments(const cost_memory *mem, const cost_moment **out)
{
    *out = mem->moments.at;
    return mem->moments.n;
}
