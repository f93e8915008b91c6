/* Which pieces are live at a moment, as lowering will have it (src/plan): a
 * piece is held from the task that makes it to the last that reads it. Here
 * every reader is charged with what it needs held, divided by the readers
 * that are live then and may read the same copy: never too much, since the
 * bytes of different copies are at least their mean. */
#include "config.h"
#include "cost/memory_parts.h"

#include "ir/recompute.h"
#include "plan/lower.h"

/* How many nodes of its stage it stands for. */
int32_t cost_times(const cost_memory *mem, int32_t v)
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
    return is_link(mem, tensor, v) ? 1 : cost_times(mem, v);
}

/* Which stage of the pipeline. */
static int32_t place(const cost_memory *mem, int32_t stage)
{
    const cost_standing *standing = mem->program->standing;
    return standing ? standing->stage[stage] : stage;
}

const ir_node *cost_producer_of(const cost_memory *mem, int32_t tensor)
{
    const ir_graph *graph = mem->program->graph;
    return &graph->nodes.at[graph->tensors.at[tensor].producer];
}

int32_t cost_home_of(const cost_memory *mem, int32_t tensor, int32_t reader)
{
    const int32_t home = mem->home[tensor];
    return home < 0 ? mem->program->stage_of[reader] : home;
}

/* May it be left out? */
bool cost_is_loose(const cost_memory *mem, int32_t v)
{
    return mem->program->chooses && ir_computes_again(mem->program->graph, v);
}

int32_t cost_edge_tensor(const cost_memory *mem, int32_t v, int32_t slot)
{
    const ir_graph *graph = mem->program->graph;
    const ir_node *node = &graph->nodes.at[v];
    return node->op == IR_OP_variable ? graph->tensors.at[node->out[0]].next
                                      : node->in[slot];
}

/* ---- what one reader holds ---- */

/* The slot of the backward pass that is looked at has another before it, when
 * one of the fullest has: then all sums of gradients are there too. */
bool cost_goes_on(const cost_memory *mem, int32_t stage, bool first)
{
    return mem->slots->slot[first][place(mem, stage)].goes_on;
}

static int32_t in_flight(const cost_memory *mem, int32_t stage)
{
    return mem->slots->slot[false][place(mem, stage)].in_flight;
}

bool cost_first_differs(const cost_memory *mem, int32_t stage)
{
    const int32_t at = place(mem, stage);
    return mem->slots->slot[true][at].forwards > 0 &&
           mem->slots->slot[false][at].forwards == 0;
}

/* Stages that share devices have nothing to move between them. */
static bool same_role(const cost_memory *mem, int32_t a, int32_t b)
{
    return mem->slots->pipe.role_of[place(mem, a)] ==
           mem->slots->pipe.role_of[place(mem, b)];
}

/* Copies of a variable or constant for the step, made when it begins. */
static void hold_for_step(const cost_memory *mem, const cost_moment *at,
                          int32_t v, plan_phase phase, cost_holding *out)
{
    const cost_fullest *slot =
        &mem->slots->slot[at->first][place(mem, at->stage)];
    bool held = false;
    if (at->phase == PLAN_BACKWARD && phase == PLAN_FORWARD)
        held = slot->forwards > 0;
    else if (at->phase == PLAN_BACKWARD && phase == PLAN_BACKWARD)
        held = slot->backwards > 0 || v >= at->node;
    out->after = held;
}

/* Of the counts of what a stage received. */
static int32_t moved_to(const cost_memory *mem, int32_t *const *counts,
                        int32_t stage, int32_t tensor)
{
    const int32_t at = cost_touch_find(&mem->moved, stage, tensor);
    return at < 0 ? 0 : counts[stage][at];
}

/* Readers of the backward pass that keep what a stage received: those that are
 * there in any case, or else those that may be. */
static int32_t kept_on(const cost_memory *mem, int32_t stage, int32_t tensor)
{
    const int32_t sure = moved_to(mem, mem->kept[0], stage, tensor);
    return sure ? sure : moved_to(mem, mem->kept[1], stage, tensor);
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
    if (cost_producer_of(mem, root)->op == IR_OP_input)
        out->straight = in_flight(mem, at->stage) - 1;
    else if (cost_home_of(mem, root, v) != at->stage)
        out->straight = kept_on(mem, at->stage, root) ? 0 : beyond;
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
        mem->slots->pipe.schedule->splits) /* it may run later */
        return;
    out->straight = cost_home_of(mem, mem->viewed[tensor], v) == at->stage;
    out->after = at->node > boxed_behind;
    out->before = !out->after;
    /* Of layers that hand it on, only the first has been handed it. */
    if (is_link(mem, tensor, v) && cost_times(mem, made) == 1)
        out->times = 1;
}

/* What is boxed anew for a reader is there while that runs; until then what it
 * is made from. */
static void hold_anew(const cost_memory *mem, const cost_moment *at,
                      int32_t tensor, int32_t v, cost_holding *out)
{
    const int32_t held = out->least + out->before + out->after;
    const int32_t n = out->times;
    if (cost_base_of(mem, tensor) == PLAN_BEGIN)
        *out = (cost_holding){.share = 1, .times = n, .after = at->node == v};
    else if (cost_base_of(mem, tensor) == PLAN_FORWARD)
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
    plan_phase base = cost_base_of(mem, tensor);
    plan_phase phase = cost_phase_of(mem, v);
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
    return !mem->view[v] && cost_base_of(mem, tensor) == PLAN_FORWARD &&
           cost_phase_of(mem, v) == PLAN_BACKWARD;
}

/* Buffers of what a stage receives for a reader there, credits of lowering. */
static int32_t received_for(const cost_memory *mem, int32_t tensor, int32_t v)
{
    int32_t to = mem->program->stage_of[v];
    bool kept = kept_by(mem, tensor, v);
    plan_phase made = cost_base_of(mem, tensor);
    /* Between those that stages stand for there may be others. */
    int32_t apart = cost_home_of(mem, tensor, v) - to;
    return cost_slots_received(mem->slots, place(mem, to) + apart,
                               place(mem, to), made, kept);
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
    else if (cost_is_loose(mem, v) && moved_to(mem, mem->kept[0], to, tensor))
        n = 0;
    else if (!kept_on(mem, to, tensor) || kept_by(mem, tensor, v))
        n = received_for(mem, tensor, v);
    else
        n = 0;
    out->after = n < m ? n : m;
    out->straight = per_step && to != at->stage ? 0 : out->after;
}

/* Does a reader on the stage where the tensor is made hold nothing at such a
 * moment, whatever the slots? It is so of most: what hold_here would find. */
static inline bool is_idle(const cost_memory *mem, const cost_moment *at,
                           int32_t tensor, int32_t v)
{
    const bool backward = at->phase == PLAN_BACKWARD;
    switch (cost_base_of(mem, tensor)) {
    case PLAN_BEGIN:
        return !backward;
    case PLAN_FORWARD:
        return !backward || cost_phase_of(mem, v) != PLAN_BACKWARD;
    case PLAN_BACKWARD:
        return !backward || at->node > v;
    default:
        return at->phase != PLAN_END || v != at->node;
    }
}

static bool holds(const cost_holding *h)
{
    return h->straight || h->before || h->after || h->next || h->least;
}

/* What it reads. */
static int32_t read_by(const cost_memory *mem, cost_reader reader)
{
    const int32_t tensor = cost_edge_tensor(mem, reader.node, reader.slot);
    return tensor >= 0 && reader.kept
               ? mem->program->graph->tensors.at[tensor].again_of
               : tensor;
}

/* Copies, without how many share them. */
static void hold(const cost_memory *mem, const cost_moment *at,
                 cost_reader reader, cost_holding *out)
{
    const int32_t v = reader.node;
    const ir_node *node = &mem->program->graph->nodes.at[v];
    int32_t tensor = read_by(mem, reader);
    *out = (cost_holding){.share = 1, .times = cost_times(mem, v)};
    if (tensor < 0 || node->op == IR_OP_variable)
        return;
    int32_t home = cost_home_of(mem, tensor, v), to = mem->program->stage_of[v];
    if (!same_role(mem, home, to))
        hold_moved(mem, at, tensor, v, out);
    else if (home == to && !mem->view[v])
        hold_here(mem, at, tensor, v, out);
    if (reader.anew && home == to && node->phase != IR_UPDATE)
        hold_anew(mem, at, tensor, v, out);
}

/* The number of a tensor at the stage of a moment; -1: nobody reads it. */
static int32_t number_at(const cost_memory *mem, int32_t moment, int32_t root)
{
    return cost_touch_find(&mem->readable, mem->moments.at[moment].stage, root);
}

static int32_t count_at(const cost_memory *mem, int32_t *const *counts,
                        int32_t moment, int32_t root)
{
    const int32_t at = number_at(mem, moment, root);
    return at < 0 ? 0 : counts[moment][at];
}

/* Of what layers hand on, those that the first of them reads with may be more
 * than those that all others read with, or fewer: the most. */
static int32_t share_of(const cost_memory *mem, int32_t moment,
                        const cost_sharers *sharers, int32_t tensor, int32_t v)
{
    const int32_t root = mem->viewed[tensor], inner = mem->between[root];
    int32_t share = count_at(mem, sharers->all, moment, root);
    if (cost_times(mem, v) > 1 && is_link(mem, tensor, v)) {
        const int32_t among = count_at(mem, sharers->among, moment, inner);
        share = among > share ? among : share;
    }
    return share;
}

/* Does it hold nothing where readers that are there in any case hold what the
 * forward pass made? Of other tensors each reader may hold a copy of its own.
 */
static bool stands_back(const cost_memory *mem, int32_t v, int32_t tensor)
{
    return cost_is_loose(mem, v) && cost_base_of(mem, tensor) == PLAN_FORWARD;
}

/* How many edges hold what this one does; 0: others do, and this one may be
 * left out. */
static int32_t sharing(const cost_memory *mem, int32_t moment,
                       cost_reader reader)
{
    const int32_t v = reader.node, tensor = read_by(mem, reader);
    const cost_sharers *by = mem->share[reader.kept];
    const int32_t sure = share_of(mem, moment, &by[0], tensor, v);
    if (!stands_back(mem, v, tensor))
        return sure;
    return sure ? 0 : share_of(mem, moment, &by[1], tensor, v);
}

/* ---- who pays, where that is said ---- */

static int32_t first_like(const cost_memory *mem, int32_t v)
{
    const cost_standing *standing = mem->program->standing;
    return standing ? standing->equal[v] : v;
}

static bool is_payer(const cost_memory *mem, const cost_moment *at,
                     cost_reader reader, int32_t root)
{
    const cost_payers *by = at->payers;
    return by->node[reader.kept][root] == first_like(mem, reader.node) &&
           by->slot[reader.kept][root] == reader.slot;
}

/* How many share what it is charged with; 0: it is not. Where no payer is left
 * all share, but of what layers hand on: there other copies' readers pay for
 * tensors that this one stands for. */
static int32_t paid_by(const cost_memory *mem, int32_t moment,
                       cost_reader reader)
{
    const cost_moment *at = &mem->moments.at[moment];
    const cost_paying *paying = &mem->paying[reader.kept];
    const int32_t root = mem->viewed[read_by(mem, reader)];
    const ir_graph *graph = mem->program->graph;
    if (!at->payers || at->payers->node[reader.kept][root] < 0)
        return sharing(mem, moment, reader);
    const int32_t n = count_at(mem, paying->payers, moment, root);
    if (is_payer(mem, at, reader, root))
        return n;
    const int32_t at_stage = number_at(mem, moment, root);
    const bool apart = cost_times(mem, graph->tensors.at[root].producer) == 1 &&
                       (at_stage < 0 || !paying->handed_on[moment][at_stage]);
    return n == 0 && apart ? sharing(mem, moment, reader) : 0;
}

bool cost_memory_edge(const cost_memory *mem, int32_t moment,
                      cost_reader reader, cost_holding *out)
{
    const cost_moment *at = &mem->moments.at[moment];
    const int32_t v = reader.node, slot = reader.slot;
    int32_t tensor = read_by(mem, reader);
    *out = (cost_holding){.share = 1, .times = cost_times(mem, v)};
    if (tensor < 0)
        return false;
    int32_t home = cost_home_of(mem, tensor, v), to = mem->program->stage_of[v];
    if ((home != at->stage && to != at->stage) ||
        (home == to && !reader.anew && at->scratch_node != v &&
         is_idle(mem, at, tensor, v)))
        return false;
    hold(mem, at, reader, out);
    out->arrives = home != at->stage;
    if (holds(out) && home != at->stage)
        out->share = kept_on(mem, to, tensor)
                         ? kept_on(mem, to, tensor)
                         : moved_to(mem, mem->received, to, tensor);
    else if (holds(out) && !(reader.anew && out->after))
        out->share = paid_by(mem, moment, reader);
    if (out->share == 0)
        *out = (cost_holding){.share = 1, .times = cost_times(mem, v)};
    out->scratch = at->scratch_node == v && at->scratch_slot == slot;
    return holds(out) || out->scratch;
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
        return cost_times(mem, v);
    case IR_OP_constant:
        return cost_times(mem, v) * read_on(mem, node->out[0], at->stage);
    case IR_OP_input: /* ahead by a piece; more for who keeps it */
        return 2 * cost_times(mem, v) * read_on(mem, node->out[0], at->stage);
    case IR_OP_accumulate:
        if (at->phase == PLAN_END)
            return cost_times(mem, v) *
                   (mem->last_end[node->out[0]] >= at->node);
        return cost_times(mem, v) *
               (!mem->slots->pipe.schedule->splits &&
                (cost_goes_on(mem, at->stage, at->first) || v <= at->node));
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
        bytes +=
            copies * cost_aligned_bytes(&p->graph->tensors.at[node->out[o]],
                                        &sig->out[o], mesh);
    return bytes;
}

double cost_whole_bytes(const cost_memory *mem, int32_t tensor)
{
    const ir_tensor *t = &mem->program->graph->tensors.at[tensor];
    return (double)ir_shape_count(&t->shape) * (double)ir_dtype_bytes(t->dtype);
}

/* Is what it reads made by a node that may be left out? */
static bool may_be_kept(const cost_memory *mem, int32_t v, int32_t slot)
{
    const int32_t tensor =
        mem->program->chooses ? cost_edge_tensor(mem, v, slot) : -1;
    return tensor >= 0 &&
           cost_is_loose(mem, mem->program->graph->tensors.at[tensor].producer);
}

static int32_t held_most(const cost_memory *mem, int32_t moment,
                         cost_reader reader)
{
    cost_holding h;
    if (!cost_memory_edge(mem, moment, reader, &h))
        return 0;
    return h.times * (h.straight + h.before + h.after + h.next + h.least) +
           2 * h.scratch;
}

double cost_memory_most(cost_memory *mem, int32_t moment)
{
    const ir_graph *graph = mem->program->graph;
    const cost_nodes *nodes = &mem->nodes_of[mem->moments.at[moment].stage];
    double most = 0;
    if (mem->most[moment] > 0)
        return mem->most[moment];
    for (int32_t i = 0; i < nodes->n; i++) {
        const int32_t v = nodes->at[i];
        const ir_node *node = &graph->nodes.at[v];
        int32_t copies = cost_memory_copies(mem, moment, v);
        const int32_t slots = node->op == IR_OP_variable ? 1 : node->n_in;
        for (int32_t o = 0; copies && o < node->n_out; o++)
            most += copies * (cost_whole_bytes(mem, node->out[o]) + PLAN_ALIGN);
        for (int32_t k = 0; k < slots; k++) {
            const int32_t x = cost_edge_tensor(mem, v, k);
            if (x < 0)
                continue;
            int32_t held =
                held_most(mem, moment, (cost_reader){v, k, false, false});
            int32_t kept = 0;
            if (may_be_kept(mem, v, k))
                kept = held_most(mem, moment, (cost_reader){v, k, false, true});
            most += (kept > held ? kept : held) *
                    (cost_whole_bytes(mem, x) + PLAN_ALIGN);
        }
    }
    mem->most[moment] = most;
    return most;
}

void cost_memory_most_all(cost_memory *mem)
{
    for (int32_t k = 0; k < mem->moments.n; k++)
        cost_memory_most(mem, k);
}

/* ---- making ---- */

/* One that is read, and what stands for it between layers. */
static void note_read(cost_memory *mem, int32_t stage, int32_t tensor)
{
    const int32_t root = mem->viewed[tensor];
    cost_touch_note(&mem->readable, stage, root);
    cost_touch_note(&mem->readable, stage, mem->between[root]);
}

static void note_tensors(cost_memory *mem)
{
    const cost_program *p = mem->program;
    const ir_graph *graph = p->graph;
    cost_touched_make(&mem->readable, p->n_stages, graph->tensors.n,
                      mem->arena);
    cost_touched_make(&mem->moved, p->n_stages, graph->tensors.n, mem->arena);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        for (int32_t k = 0; k < graph->nodes.at[v].n_in; k++) {
            const int32_t x = graph->nodes.at[v].in[k];
            const int32_t home = cost_home_of(mem, x, v);
            note_read(mem, home, x);
            if (may_be_kept(mem, v, k))
                note_read(mem, home, graph->tensors.at[x].again_of);
            if (!same_role(mem, home, p->stage_of[v]))
                cost_touch_note(&mem->moved, p->stage_of[v], x);
        }
}

static void count_received(cost_memory *mem)
{
    const cost_program *p = mem->program;
    for (int32_t i = 0; i < p->n_stages; i++) {
        mem->received[i] = fs_new(mem->arena, int32_t, mem->moved.n[i]);
        for (int32_t loose = 0; loose < 2; loose++)
            mem->kept[loose][i] = fs_new(mem->arena, int32_t, mem->moved.n[i]);
    }
    for (int32_t v = 0; v < p->graph->nodes.n; v++)
        for (int32_t k = 0; k < p->graph->nodes.at[v].n_in; k++) {
            const int32_t x = p->graph->nodes.at[v].in[k], to = p->stage_of[v];
            if (same_role(mem, cost_home_of(mem, x, v), to))
                continue;
            const int32_t n = readers_like(mem, x, v),
                          at = cost_touch_find(&mem->moved, to, x);
            mem->received[to][at] += n;
            mem->kept[cost_is_loose(mem, v)][to][at] += n * kept_by(mem, x, v);
        }
}

static void count_payer(cost_memory *mem, int32_t moment, cost_reader reader,
                        int32_t root)
{
    const cost_paying *paying = &mem->paying[reader.kept];
    const int32_t v = reader.node;
    const int32_t at = number_at(mem, moment, root);
    if (is_payer(mem, &mem->moments.at[moment], reader, root))
        paying->payers[moment][at] +=
            readers_like(mem, read_by(mem, reader), v);
    paying->handed_on[moment][at] |=
        cost_times(mem, v) > 1 && is_link(mem, read_by(mem, reader), v);
}

static void count_reader(cost_memory *mem, int32_t moment, cost_reader reader)
{
    const int32_t v = reader.node, x = read_by(mem, reader);
    const int32_t root = mem->viewed[x];
    const cost_sharers *by = &mem->share[reader.kept][stands_back(mem, v, x)];
    const cost_moment *at = &mem->moments.at[moment];
    cost_holding held;
    hold(mem, at, reader, &held);
    if (!holds(&held))
        return;
    by->all[moment][number_at(mem, moment, root)] += readers_like(mem, x, v);
    if (cost_times(mem, v) > 1 && is_link(mem, x, v))
        by->among[moment][number_at(mem, moment, mem->between[root])]++;
    if (mem->moments.at[moment].payers)
        count_payer(mem, moment, reader, root);
}

static void count_readers(cost_memory *mem, int32_t moment, int32_t v,
                          int32_t slot)
{
    const cost_moment *at = &mem->moments.at[moment];
    const int32_t x = mem->program->graph->nodes.at[v].in[slot];
    if (mem->program->stage_of[v] != at->stage || !is_idle(mem, at, x, v))
        count_reader(mem, moment, (cost_reader){v, slot, false, false});
    if (may_be_kept(mem, v, slot))
        count_reader(mem, moment, (cost_reader){v, slot, false, true});
}

static void make_sharers(cost_memory *mem, int32_t moment, cost_sharers *out)
{
    const int32_t n = mem->readable.n[mem->moments.at[moment].stage];
    out->all[moment] = fs_new(mem->arena, int32_t, n);
    out->among[moment] = out->all[moment];
    if (mem->program->standing)
        out->among[moment] = fs_new(mem->arena, int32_t, n);
}

static void make_paying(cost_memory *mem, int32_t moment, cost_paying *out)
{
    const int32_t n = mem->readable.n[mem->moments.at[moment].stage];
    if (!mem->moments.at[moment].payers)
        return;
    out->payers[moment] = fs_new(mem->arena, int32_t, n);
    out->handed_on[moment] = fs_new(mem->arena, bool, n);
}

/* One before it that differs by its scratch alone, or itself: who shares what
 * is the same. */
static int32_t twin_of(const cost_memory *mem, int32_t moment)
{
    const cost_moment *at = mem->moments.at;
    int32_t k = 0;
    while (at[k].stage != at[moment].stage || at[k].phase != at[moment].phase ||
           at[k].node != at[moment].node || at[k].first != at[moment].first ||
           at[k].payers != at[moment].payers)
        k++;
    return k;
}

static void share_counts(cost_memory *mem, int32_t moment, int32_t twin)
{
    for (int32_t kept = 0; kept < 2; kept++) {
        for (int32_t loose = 0; loose < 2; loose++) {
            const cost_sharers *by = &mem->share[kept][loose];
            by->all[moment] = by->all[twin];
            by->among[moment] = by->among[twin];
        }
        const cost_paying *paying = &mem->paying[kept];
        paying->payers[moment] = paying->payers[twin];
        paying->handed_on[moment] = paying->handed_on[twin];
    }
}

static void count_sharing(cost_memory *mem, int32_t moment)
{
    const cost_program *p = mem->program;
    const cost_moment *at = &mem->moments.at[moment];
    const int32_t twin = twin_of(mem, moment);
    if (twin < moment) {
        share_counts(mem, moment, twin);
        return;
    }
    for (int32_t kept = 0; kept <= p->chooses; kept++) {
        for (int32_t loose = 0; loose <= p->chooses; loose++)
            make_sharers(mem, moment, &mem->share[kept][loose]);
        make_paying(mem, moment, &mem->paying[kept]);
    }
    const cost_nodes *nodes = &mem->nodes_of[at->stage];
    for (int32_t i = 0; i < nodes->n; i++) {
        const int32_t v = nodes->at[i];
        const ir_node *node = &p->graph->nodes.at[v];
        for (int32_t k = 0; k < node->n_in; k++)
            if (cost_home_of(mem, node->in[k], v) == at->stage)
                count_readers(mem, moment, v, k);
    }
}

static plan_pipeline pipe_of(const cost_program *p, fs_arena *arena)
{
    if (p->standing)
        return *p->standing->pipe;
    return plan_pipeline_of(p->stages, p->n_stages, p->schedule,
                            p->micro_batches, arena);
}

/* Room for counts of `n` moments, with those that there are. */
static void grow_counts(cost_memory *mem, int32_t had, int32_t n)
{
    fs_arena *arena = mem->arena;
    for (int32_t k = 0; k < 4; k++) {
        cost_sharers *by = &mem->share[k / 2][k % 2];
        by->all = fs_regrow(arena, by->all, had, n, sizeof *by->all);
        by->among = fs_regrow(arena, by->among, had, n, sizeof *by->among);
    }
    for (int32_t kept = 0; kept < 2; kept++) {
        cost_paying *by = &mem->paying[kept];
        by->payers = fs_regrow(arena, by->payers, had, n, sizeof *by->payers);
        by->handed_on =
            fs_regrow(arena, by->handed_on, had, n, sizeof *by->handed_on);
    }
    mem->most = fs_regrow(arena, mem->most, had, n, sizeof *mem->most);
}

int32_t cost_memory_add(cost_memory *mem, const cost_moments *more)
{
    const int32_t had = mem->counted;
    for (int32_t k = 0; k < more->list.n; k++)
        fs_push(mem->arena, &mem->moments, more->list.at[k]);
    grow_counts(mem, had, mem->moments.n);
    while (mem->counted < mem->moments.n)
        count_sharing(mem, mem->counted++);
    return had;
}

cost_memory *cost_memory_create(const cost_program *program, fs_arena *arena)
{
    return cost_memory_create_with(program, &(cost_moments){0}, arena);
}

static void find_lists(cost_memory *mem)
{
    const int32_t n = mem->program->n_stages;
    mem->uses = ir_graph_uses(mem->program->graph, mem->arena);
    mem->received = fs_new(mem->arena, int32_t *, n);
    mem->kept[0] = fs_new(mem->arena, int32_t *, n);
    mem->kept[1] = fs_new(mem->arena, int32_t *, n);
    cost_find_tensors(mem);
    note_tensors(mem);
    count_received(mem);
}

static void borrow_lists(cost_memory *mem, const cost_memory *like)
{
    mem->uses = like->uses;
    mem->received = like->received;
    mem->kept[0] = like->kept[0];
    mem->kept[1] = like->kept[1];
    mem->nodes_of = like->nodes_of;
    mem->viewed = like->viewed;
    mem->home = like->home;
    mem->base = like->base;
    mem->phase = like->phase;
    mem->view = like->view;
    mem->last = like->last;
    mem->last_end = like->last_end;
    mem->between = like->between;
    mem->readable = like->readable;
    mem->moved = like->moved;
}

cost_memory *cost_memory_create_on(const cost_program *program,
                                   const cost_slots *slots,
                                   const cost_memory *like, fs_arena *arena)
{
    cost_memory *mem = fs_new(arena, cost_memory, 1);
    *mem = (cost_memory){.program = program, .arena = arena, .slots = slots};
    if (like)
        borrow_lists(mem, like);
    else
        find_lists(mem);
    return mem;
}

cost_memory *cost_memory_create_with(const cost_program *program,
                                     const cost_moments *more, fs_arena *arena)
{
    cost_slots *slots = fs_new(arena, cost_slots, 1);
    const plan_pipeline pipe = pipe_of(program, arena);
    *slots = cost_slots_of(&pipe, arena);
    cost_memory *mem = cost_memory_create_on(program, slots, NULL, arena);
    cost_choose_moments(mem);
    mem->chosen = mem->moments.n;
    cost_memory_add(mem, more);
    return mem;
}
