#include "config.h"
#include "report/chakra.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/wire_out.h"

#include <string.h>

/* et_def.proto: fields, types of nodes, types of collectives. */
enum { NODE_ID = 1, NODE_NAME, NODE_TYPE, NODE_CTRL, NODE_DATA };
enum { NODE_DURATION = 7, NODE_ATTR = 10 };
enum { META_VERSION = 1, META_ATTR = 2 };
enum { ATTR_NAME = 1, ATTR_INT32 = 7, ATTR_INT64 = 9, ATTR_UINT64 = 13 };
enum { ATTR_BOOL = 27, ATTR_STRING = 29 };
typedef enum node_type { COMP = 4, SEND = 5, RECV = 6, COLL = 7 } node_type;
enum { ALL_REDUCE = 0, ALL_GATHER = 2, ALL_TO_ALL = 6, REDUCE_SCATTER = 7 };

static const char version[] = "0.0.4";

/* Bytes of a node, about, for the room that all files want. */
enum { BYTES_PER_NODE = 160 };

/* Whom a rank deals with in a move, and how much it gives or takes. */
typedef struct peer {
    int32_t rank;
    int64_t bytes;
} peer;
typedef FS_VEC(peer) peers;

/* What all ranks of a role have in common. */
typedef struct program {
    const plan_role *role;
    report_firings firings;
    const char **name; /* [tasks] */
    ir_work *work;     /* [tasks] */
    int32_t *tag;      /* [tasks] of moves */
} program;

typedef struct writing {
    const ir_graph *graph;
    const plan *p;
    const char *dir;
    fs_arena *arena; /* of the whole; */
    fs_arena *here;  /* of a rank */
    fs_err *err;
    int32_t **group; /* [comms][positions of its stage] from 1 */
    fs_wire_out node, attr;
    fs_output file;
    report_chakra told;
} writing;

/* ---- messages ---- */

static void put_attr_name(writing *w, const char *name)
{
    w->attr.n = 0;
    fs_wire_put_text(&w->attr, ATTR_NAME, name);
}

static void put_number(writing *w, uint32_t field, const char *name,
                       uint32_t kind, int64_t value)
{
    put_attr_name(w, name);
    fs_wire_put_int(&w->attr, kind, value);
    fs_wire_put_message(&w->node, field, &w->attr);
}

static void put_text(writing *w, uint32_t field, const char *name,
                     const char *value)
{
    put_attr_name(w, name);
    fs_wire_put_text(&w->attr, ATTR_STRING, value);
    fs_wire_put_message(&w->node, field, &w->attr);
}

/* The message in w->node, with its length before it. */
static void write_message(writing *w)
{
    unsigned char head[10];
    size_t n = 0, left = w->node.n;
    for (; left > 127; left >>= 7)
        head[n++] = (unsigned char)(left | 128);
    head[n++] = (unsigned char)left;
    fs_output_write(&w->file, head, n);
    fs_output_write(&w->file, w->node.at, w->node.n);
    w->told.bytes += (int64_t)(n + w->node.n);
}

static void write_metadata(writing *w, int32_t rank, int32_t n_ranks)
{
    char digest[17];
    fs_hex(w->p->digest, digest);
    w->node.n = 0;
    fs_wire_put_text(&w->node, META_VERSION, version);
    put_number(w, META_ATTR, "rank", ATTR_INT64, rank);
    put_number(w, META_ATTR, "n_ranks", ATTR_INT64, n_ranks);
    put_text(w, META_ATTR, "plan_digest", digest);
    write_message(w);
}

/* ---- whom a rank deals with ---- */

static int64_t box_bytes(const ir_tensor *tensor, const ir_piece *box)
{
    return ir_shape_count(&box->shape) * ir_dtype_bytes(tensor->dtype);
}

static void add_peer(writing *w, peers *list, int32_t rank, int64_t bytes)
{
    for (int32_t i = 0; i < list->n; i++)
        if (list->at[i].rank == rank) {
            list->at[i].bytes += bytes;
            return;
        }
    if (bytes > 0)
        fs_push(w->here, list, (peer){rank, bytes});
}

static void add_straight(writing *w, const plan_cross *cross,
                         const plan_task *task, int32_t rank, peers *out)
{
    const plan_stage *from = cross->from_stage, *to = cross->to_stage;
    const bool sends = task->kind == PLAN_SEND;
    const int32_t position = rank - (sends ? from : to)->first_device;
    int32_t coords[IR_MAX_MESH];
    ir_mesh_coords(&from->mesh, position, coords);
    const ir_piece piece =
        ir_piece_of(&cross->tensor->shape, &cross->from, &from->mesh, coords);
    add_peer(w, out, (sends ? to : from)->first_device + position,
             box_bytes(cross->tensor, &piece));
}

static peers peers_of(writing *w, const plan_task *task, int32_t rank)
{
    peers out = {0};
    const plan_cross cross = plan_task_cross(w->graph, w->p, task);
    const bool sends = task->kind == PLAN_SEND;
    if (plan_task_is_straight(w->p, task)) {
        add_straight(w, &cross, task, rank, &out);
        return out;
    }
    const plan_exchange x = plan_cross_exchange(&cross);
    plan_shares shares = {0};
    if (sends)
        plan_exchange_gives(&x, rank - cross.from_stage->first_device, w->here,
                            &shares);
    else
        plan_exchange_takes(&x, rank - cross.to_stage->first_device, w->here,
                            &shares);
    const plan_stage *other = sends ? cross.to_stage : cross.from_stage;
    for (int32_t i = 0; i < shares.n; i++)
        if (other->first_device + shares.at[i].position != rank)
            add_peer(w, &out, other->first_device + shares.at[i].position,
                     box_bytes(cross.tensor, &shares.at[i].box));
    return out;
}

/* ---- nodes ---- */

/* A rank's file: where the nodes of each firing begin. */
typedef struct rank_file {
    const program *program;
    int32_t rank;
    peers *peers;   /* [tasks] of moves */
    int64_t *first; /* [firings + 1] id of its first node */
} rank_file;

/* Who deals with nobody still takes part, as a node that takes no time. */
static int64_t nodes_of(const rank_file *f, int32_t firing)
{
    const int32_t task = f->program->firings.at[firing].task;
    const int32_t n = f->peers[task].n;
    return n > 0 ? n : 1;
}

static void put_deps(writing *w, const rank_file *f, uint32_t field,
                     const report_list *list)
{
    int64_t *ids;
    int64_t n = 0, k = 0;
    for (int32_t i = 0; i < list->n; i++)
        n += nodes_of(f, list->at[i]);
    if (n == 0)
        return;
    ids = fs_new(w->here, int64_t, n);
    for (int32_t i = 0; i < list->n; i++)
        for (int64_t j = 0; j < nodes_of(f, list->at[i]); j++)
            ids[k++] = f->first[list->at[i]] + j;
    fs_wire_put_ints(&w->node, field, n, ids);
}

static void begin_node(writing *w, const rank_file *f, int32_t firing,
                       int64_t k, node_type type)
{
    const report_firing *at = &f->program->firings.at[firing];
    const bool idle =
        type == COMP && f->program->role->tasks[at->task].channel >= 0;
    w->node.n = 0;
    fs_wire_put_int(&w->node, NODE_ID, f->first[firing] + k);
    fs_wire_put_text(&w->node, NODE_NAME, f->program->name[at->task]);
    fs_wire_put_int(&w->node, NODE_TYPE, type);
    put_deps(w, f, NODE_CTRL, &at->control);
    put_deps(w, f, NODE_DATA, &at->data);
    fs_wire_put_int(&w->node, NODE_DURATION, idle ? 0 : at->duration_us);
    const plan_task *task = &f->program->role->tasks[at->task];
    put_number(w, NODE_ATTR, "is_cpu_op", ATTR_BOOL, task->kind == PLAN_LOAD);
    put_text(w, NODE_ATTR, "phase", plan_phase_name(task->phase));
    put_number(w, NODE_ATTR, "micro_batch", ATTR_INT64, at->micro_batch);
}

static void write_compute(writing *w, const rank_file *f, int32_t firing)
{
    const int32_t task = f->program->firings.at[firing].task;
    const ir_work *work = &f->program->work[task];
    begin_node(w, f, firing, 0, COMP);
    put_number(w, NODE_ATTR, "num_ops", ATTR_INT64, work->flop);
    put_number(w, NODE_ATTR, "tensor_size", ATTR_UINT64,
               work->read_bytes + work->written_bytes);
    write_message(w);
}

/* What ASTRA-sim takes: bytes of a rank before it. */
static int64_t collective_bytes(const plan_box_step *box)
{
    const int64_t bytes =
        box->kind == PLAN_HALO ? box->bytes_out - box->bytes_in : box->bytes_in;
    return bytes > 0 ? bytes : 1;
}

static int64_t collective_type(plan_box_kind kind)
{
    switch (kind) {
    case PLAN_ALL_REDUCE:
        return ALL_REDUCE;
    case PLAN_ALL_GATHER:
        return ALL_GATHER;
    case PLAN_REDUCE_SCATTER:
        return REDUCE_SCATTER;
    default:
        return ALL_TO_ALL; /* a halo or re-slicing too */
    }
}

static void write_collective(writing *w, const rank_file *f, int32_t firing)
{
    const plan_task *task =
        &f->program->role->tasks[f->program->firings.at[firing].task];
    const plan_comm *comm = &w->p->comms[task->comm];
    const int32_t position =
        f->rank - w->p->strategy->stages[comm->stage].first_device;
    char group[16];
    snprintf(group, sizeof group, "%d", w->group[task->comm][position]);
    begin_node(w, f, firing, 0, COLL);
    put_number(w, NODE_ATTR, "comm_type", ATTR_INT64,
               collective_type(task->box.kind));
    put_number(w, NODE_ATTR, "comm_size", ATTR_INT64,
               collective_bytes(&task->box));
    put_text(w, NODE_ATTR, "pg_name", group);
    write_message(w);
}

static void write_move(writing *w, const rank_file *f, int32_t firing)
{
    const report_firing *at = &f->program->firings.at[firing];
    const plan_task *task = &f->program->role->tasks[at->task];
    const bool sends = task->kind == PLAN_SEND;
    const peers *all = &f->peers[at->task];
    const int32_t tag =
        f->program->tag[at->task] * w->p->micro_batches + at->micro_batch;
    for (int32_t k = 0; k < all->n; k++) {
        const peer *other = &all->at[k];
        begin_node(w, f, firing, k, sends ? SEND : RECV);
        put_number(w, NODE_ATTR, "comm_size", ATTR_INT64, other->bytes);
        put_number(w, NODE_ATTR, "comm_src", ATTR_INT32,
                   sends ? f->rank : other->rank);
        put_number(w, NODE_ATTR, "comm_dst", ATTR_INT32,
                   sends ? other->rank : f->rank);
        put_number(w, NODE_ATTR, "comm_tag", ATTR_INT32, tag);
        write_message(w);
    }
    if (all->n == 0)
        write_compute(w, f, firing);
}

static void write_firing(writing *w, const rank_file *f, int32_t firing)
{
    const plan_task *task =
        &f->program->role->tasks[f->program->firings.at[firing].task];
    if (task->channel >= 0)
        write_move(w, f, firing);
    else if (task->comm >= 0)
        write_collective(w, f, firing);
    else
        write_compute(w, f, firing);
}

/* ---- files ---- */

/* The first tag of each channel: a number for each of its moves. */
static int32_t *first_tags(writing *w)
{
    int32_t *tag = fs_new(w->arena, int32_t, w->p->n_channels + 1);
    for (int32_t r = 0; r < w->p->n_roles; r++)
        for (int32_t t = 0; t < w->p->roles[r].n_tasks; t++)
            if (w->p->roles[r].tasks[t].kind == PLAN_SEND)
                tag[w->p->roles[r].tasks[t].channel + 1]++;
    for (int32_t c = 0; c < w->p->n_channels; c++)
        tag[c + 1] += tag[c];
    return tag;
}

/* Moves have the same order on their channel at both ends. */
static int32_t *tags_of(writing *w, const plan_role *role)
{
    int32_t *next = first_tags(w);
    int32_t *tag = fs_new(w->arena, int32_t, role->n_tasks);
    for (int32_t t = 0; t < role->n_tasks; t++)
        if (role->tasks[t].channel >= 0)
            tag[t] = next[role->tasks[t].channel]++;
    return tag;
}

static program make_program(writing *w, int32_t role, const plan_timing *timing)
{
    const plan_role *r = &w->p->roles[role];
    program out = {.role = r,
                   .firings = report_firings_of(w->p, role, timing, w->arena),
                   .name = fs_new(w->arena, const char *, r->n_tasks),
                   .work = fs_new(w->arena, ir_work, r->n_tasks),
                   .tag = tags_of(w, r)};
    for (int32_t t = 0; t < r->n_tasks; t++) {
        const plan_task *task = &r->tasks[t];
        const plan_stage *stage =
            &w->p->strategy->stages[plan_task_stage(r, task)];
        out.name[t] = plan_task_name(w->graph, task, w->arena);
        if (task->kind == PLAN_COMPUTE)
            ir_node_work(w->graph, &w->graph->nodes.at[task->node],
                         &w->p->strategy->sig[task->node], &stage->mesh,
                         &out.work[t]);
        else if (task->kind == PLAN_BOX)
            out.work[t].written_bytes = task->box.bytes_out;
        w->told.halos += task->comm >= 0 && task->box.kind == PLAN_HALO;
        w->told.reslices += task->comm >= 0 && task->box.kind == PLAN_RESLICE;
    }
    return out;
}

static fs_status write_rank(writing *w, const program *own, int32_t rank,
                            int32_t n_ranks)
{
    const plan_role *role = own->role;
    w->here = fs_arena_create();
    w->node = w->attr = (fs_wire_out){.arena = w->here};
    rank_file f = {.program = own,
                   .rank = rank,
                   .peers = fs_new(w->here, peers, role->n_tasks),
                   .first = fs_new(w->here, int64_t, own->firings.n + 1)};
    for (int32_t t = 0; t < role->n_tasks; t++)
        if (role->tasks[t].channel >= 0)
            f.peers[t] = peers_of(w, &role->tasks[t], rank);
    for (int32_t i = 0; i < own->firings.n; i++)
        f.first[i + 1] = f.first[i] + nodes_of(&f, i);
    const char *path = fs_printf(w->here, "%s/plan.%d.et", w->dir, rank);
    fs_status status = fs_output_open(&w->file, path, w->err);
    if (status == FS_OK) {
        write_metadata(w, rank, n_ranks);
        for (int32_t i = 0; i < own->firings.n; i++)
            write_firing(w, &f, i);
        status = fs_output_close(&w->file, w->err);
        w->told.files++;
        w->told.nodes += f.first[own->firings.n];
    }
    fs_arena_destroy(w->here);
    return status;
}

/* ---- groups ---- */

static void add_group(writing *w, json_t *all, int32_t comm, int32_t rank)
{
    const plan_comm *c = &w->p->comms[comm];
    const int32_t first = w->p->strategy->stages[c->stage].first_device;
    int32_t *ranks = fs_new(w->arena, int32_t, plan_comm_size(w->p, c));
    const int32_t n = plan_comm_ranks(w->p, c, rank, ranks);
    json_t *list = json_array();
    if (ranks[0] == rank) {
        char id[16];
        snprintf(id, sizeof id, "%d", ++w->told.groups);
        for (int32_t i = 0; i < n; i++) {
            w->group[comm][ranks[i] - first] = w->told.groups;
            json_array_append_new(list, json_integer(ranks[i]));
        }
        json_object_set(all, id, list);
    }
    json_decref(list);
}

static fs_status write_groups(writing *w)
{
    json_t *all = json_object();
    w->group = fs_new(w->arena, int32_t *, w->p->n_comms);
    for (int32_t c = 0; c < w->p->n_comms; c++) {
        const plan_stage *stage = &w->p->strategy->stages[w->p->comms[c].stage];
        const int32_t n = ir_mesh_size(&stage->mesh);
        w->group[c] = fs_new(w->arena, int32_t, n);
        for (int32_t i = 0; i < n; i++)
            add_group(w, all, c, stage->first_device + i);
    }
    fs_status status = fs_json_save(
        all, fs_printf(w->arena, "%s/comm_group.json", w->dir), w->err);
    json_decref(all);
    return status;
}

static fs_status check_room(writing *w, int32_t n_ranks)
{
    double nodes = 0;
    for (int32_t r = 0; r < w->p->n_roles; r++)
        for (int32_t t = 0; t < w->p->roles[r].n_tasks; t++)
            nodes += (double)w->p->roles[r].n_ranks *
                     (plan_phase_once(w->p->roles[r].tasks[t].phase)
                          ? 1
                          : w->p->micro_batches);
    if (n_ranks > REPORT_CHAKRA_MOST_RANKS)
        return fs_fail(w->err, FS_INVALID,
                       "the plan has %d ranks, each of which is a file of its "
                       "own; at most %d are written",
                       n_ranks, REPORT_CHAKRA_MOST_RANKS);
    return fs_check_room(fs_printf(w->arena, "%s/plan.0.et", w->dir),
                         (int64_t)(nodes * BYTES_PER_NODE), "", w->err);
}

fs_status report_chakra_write(const ir_graph *graph, const plan *p,
                              const plan_timing *timing, const char *dir,
                              fs_err *err, report_chakra *out)
{
    const plan_role *last = &p->roles[p->n_roles - 1];
    const int32_t n_ranks = last->first_rank + last->n_ranks;
    writing w = {.graph = graph,
                 .p = p,
                 .dir = dir,
                 .err = err,
                 .arena = fs_arena_create()};
    fs_status status = check_room(&w, n_ranks);
    if (status == FS_OK)
        status = write_groups(&w);
    for (int32_t r = 0; r < p->n_roles && status == FS_OK; r++) {
        const program own = make_program(&w, r, timing);
        for (int32_t i = 0; i < p->roles[r].n_ranks && status == FS_OK; i++)
            status = write_rank(&w, &own, p->roles[r].first_rank + i, n_ranks);
    }
    fs_arena_destroy(w.arena);
    if (status == FS_OK)
        *out = w.told;
    return status;
}
