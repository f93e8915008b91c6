/* Transfers and collectives that share links, against closed forms: when each
 * ends, to the nanosecond. */
#include "plan_hand.h"

#include "sim/sim.h"

#include <math.h>

enum { MOST_MOVES = 8 };

/* Something that moves once: of a stage's ranks among each other, or to
 * another stage's. All begin together. */
typedef struct move {
    int32_t stage, to; /* to: -1 for a collective */
    int64_t ns;        /* alone */
} move;

typedef struct scene {
    int32_t nodes, devices; /* per node */
    int32_t stages, ranks;  /* of each stage */
    hw_wiring wiring;
    hw_fabric fabric;
    int32_t nics;
    int32_t n;
    move moves[MOST_MOVES];
} scene;

static void add_task(plan_role *r, plan_task_kind kind, int32_t comm,
                     int32_t channel, fs_arena *arena)
{
    const int32_t i = r->n_tasks++;
    r->tasks[i] = (plan_task){.kind = kind,
                              .phase = PLAN_FORWARD,
                              .node = -1,
                              .comm = comm,
                              .channel = channel,
                              .stream = i};
    hand_take_registers(&r->tasks[i], arena);
    r->streams[r->n_streams++] =
        (plan_stream){kind == PLAN_BOX    ? PLAN_STREAM_COMM
                      : kind == PLAN_SEND ? PLAN_STREAM_SEND
                                          : PLAN_STREAM_RECV,
                      channel};
    plan_register *g = &r->registers[r->n_registers++];
    *g = (plan_register){.count = 1, .bytes = 256, .producer = -1};
    if (kind == PLAN_SEND || kind == PLAN_BOX) {
        r->tasks[i].in[r->tasks[i].n_in++] = i;
        g->persistent = true;
    } else {
        r->tasks[i].out[r->tasks[i].n_out++] = i;
        g->producer = i;
    }
}

static plan *make_plan(const scene *x, plan_strategy *s, fs_arena *arena)
{
    plan *p = fs_new(arena, plan, 1);
    p->strategy = s;
    p->micro_batches = 1;
    p->n_roles = x->stages;
    p->roles = fs_new(arena, plan_role, x->stages);
    p->channels = fs_new(arena, plan_channel, x->n);
    p->comms = fs_new(arena, plan_comm, x->n);
    for (int32_t i = 0; i < x->stages; i++) {
        plan_role *r = &p->roles[i];
        s->stages[i] = (plan_stage){.first_device = i * x->ranks};
        if (x->ranks > 1)
            s->stages[i].mesh = (ir_mesh){1, {x->ranks}};
        *r = (plan_role){.n_chunks = 1,
                         .stages = fs_new(arena, int32_t, 1),
                         .first_rank = i * x->ranks,
                         .n_ranks = x->ranks,
                         .n_slots = 1,
                         .arena_bytes = 4096,
                         .tasks = fs_new(arena, plan_task, x->n),
                         .streams = fs_new(arena, plan_stream, x->n),
                         .registers = fs_new(arena, plan_register, x->n),
                         .slots = fs_new(arena, plan_slot, 1)};
        r->slots[0].phase = PLAN_FORWARD;
        r->stages[0] = i;
    }
    for (int32_t i = 0; i < x->n; i++) {
        const move *m = &x->moves[i];
        if (m->to < 0) {
            p->comms[p->n_comms] = (plan_comm){m->stage, 1};
            add_task(&p->roles[m->stage], PLAN_BOX, p->n_comms++, -1, arena);
            continue;
        }
        p->channels[p->n_channels] = (plan_channel){m->stage, m->to};
        add_task(&p->roles[m->stage], PLAN_SEND, -1, p->n_channels, arena);
        add_task(&p->roles[m->to], PLAN_RECV, -1, p->n_channels++, arena);
    }
    return p;
}

static const move *move_of(const scene *x, const plan_task *task)
{
    int32_t comm = 0, channel = 0;
    for (int32_t i = 0; i < x->n; i++) {
        if (x->moves[i].to < 0 ? comm == task->comm : channel == task->channel)
            return &x->moves[i];
        comm += x->moves[i].to < 0;
        channel += x->moves[i].to >= 0;
    }
    return NULL;
}

/* When each move ended. */
static void play(const scene *x, int64_t *end_ns)
{
    fs_arena *arena = fs_arena_create();
    ir_graph *g = hand_mlp(1, 4, 4, 1);
    hw_cluster *c = hand_cluster(arena, x->nodes, x->devices, 0);
    c->groups[0].wiring = x->wiring;
    c->fabric = x->fabric;
    c->nics_per_node = x->nics;
    plan *p = make_plan(x, plan_strategy_new(g, x->stages, arena), arena);
    plan_timing *timing = plan_timing_new(p, "test", arena);
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t t = 0; t < p->roles[r].n_tasks; t++)
            timing->demand[r][t].total_s =
                (double)move_of(x, &p->roles[r].tasks[t])->ns * 1e-9;
    plan_trace trace = {.arena = arena};
    sim_options options = {.steps = 1, .trace = &trace};
    sim_result result;
    fs_err err = {0};
    if (sim_run(g, p, c, timing, &options, arena, &err, &result) != FS_OK)
        printf("# %s\n", err.text);
    for (int32_t i = 0; i < trace.events.n; i++) {
        const plan_event *e = &trace.events.at[i];
        const plan_role *role = plan_role_of_rank(p, e->rank);
        end_ns[move_of(x, &role->tasks[e->task]) - x->moves] = e->end_ns;
    }
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

static void ends(const scene *x, const int64_t *wanted, const char *what)
{
    int64_t end_ns[MOST_MOVES] = {0};
    int32_t right = 0;
    play(x, end_ns);
    for (int32_t i = 0; i < x->n; i++)
        right += end_ns[i] == wanted[i];
    tap_equal_int(right, x->n, "%s", what);
    for (int32_t i = 0; i < x->n && right < x->n; i++)
        printf("# move %d ended at %lld ns, should at %lld\n", i,
               (long long)end_ns[i], (long long)wanted[i]);
}

/* ---- by ports ---- */

static void test_ports(void)
{
    scene x = {.nodes = 1, .devices = 4, .stages = 4, .ranks = 1, .n = 1};
    x.moves[0] = (move){0, 1, 1000};
    ends(&x, (int64_t[]){1000}, "one link: one transfer takes its own time");
    x.n = 2;
    x.moves[1] = (move){0, 2, 1000};
    ends(&x, (int64_t[]){2000, 2000}, "two on one link take twice");
    x.moves[1].ns = 3000;
    ends(&x, (int64_t[]){2000, 4000}, "who remains has all of it");
    x.n = 3;
    x.moves[2] = (move){3, 2, 1000};
    ends(&x, (int64_t[]){2000, 4000, 2000},
         "three on two ports: each has half, then the long one both");
    x.moves[2] = (move){2, 0, 1000};
    ends(&x, (int64_t[]){2000, 4000, 1000}, "the other direction is free");
}

/* Rings of n ranks by their ports. */
static void test_rings(void)
{
    int32_t wrong = 0;
    for (int32_t n = 2; n <= 8; n++) {
        int64_t end_ns[MOST_MOVES];
        scene x = {.nodes = 1, .devices = 2 * n, .stages = 2, .ranks = n};
        x.n = 2;
        x.moves[0] = (move){0, -1, 1000 * n};
        x.moves[1] = (move){1, -1, 1000 * n};
        play(&x, end_ns);
        wrong += end_ns[0] != 1000 * n || end_ns[1] != 1000 * n;
    }
    tap_equal_int(wrong, 0, "rings of 2 to 8, of other devices, do not meet");
    scene x = {.nodes = 1, .devices = 8, .stages = 2, .ranks = 4, .n = 2};
    x.moves[0] = (move){0, -1, 1000};
    x.moves[1] = (move){0, 1, 1000};
    ends(&x, (int64_t[]){2000, 2000},
         "a ring and a transfer leave by the same ports: half each");
    x.moves[1] = (move){1, 0, 4000};
    ends(&x, (int64_t[]){2000, 5000}, "or come in by them");
}

/* Between nodes: each member deals with one of the next node. */
static void test_nodes(void)
{
    scene x = {.nodes = 2, .devices = 4, .stages = 1, .ranks = 8, .n = 1};
    x.moves[0] = (move){0, -1, 1000};
    ends(&x, (int64_t[]){1000}, "a hierarchical collective alone");
    x = (scene){.nodes = 4, .devices = 2, .stages = 2, .ranks = 4, .n = 2};
    x.moves[0] = (move){0, -1, 1000};
    x.moves[1] = (move){1, -1, 1000};
    ends(&x, (int64_t[]){1000, 1000}, "two, of other nodes");
    x.moves[1] = (move){0, 1, 1000};
    ends(&x, (int64_t[]){2000, 2000},
         "a collective across nodes and a transfer share the nodes' NICs");
    x.nics = 2;
    x.fabric.rails = true;
    ends(&x, (int64_t[]){2000, 2000}, "device by device on rails too");
    /* Stages 0 and 1 in node 0, 2 and 3 in node 1. */
    x = (scene){.nodes = 2, .devices = 2, .stages = 4, .ranks = 1, .n = 2};
    x.moves[0] = (move){0, 2, 1000};
    x.moves[1] = (move){1, 3, 1000};
    ends(&x, (int64_t[]){2000, 2000}, "two nodes have one link between them");
    x.nics = 2;
    ends(&x, (int64_t[]){1000, 1000}, "of two NICs each transfer has one");
    x.fabric.rails = true;
    ends(&x, (int64_t[]){1000, 1000}, "on rails its own");
    x.moves[1] = (move){1, 2, 1000};
    ends(&x, (int64_t[]){2000, 2000}, "to one device by one rail: half each");
}

static void test_leaves(void)
{
    scene x = {.nodes = 4, .devices = 1, .stages = 4, .ranks = 1, .n = 2};
    x.moves[0] = (move){0, 2, 1000};
    x.moves[1] = (move){1, 3, 1000};
    x.fabric = (hw_fabric){.nodes_per_leaf = 2, .oversubscription = 1};
    ends(&x, (int64_t[]){1000, 1000}, "leaves that are not oversubscribed");
    x.fabric.oversubscription = 2;
    ends(&x, (int64_t[]){2000, 2000}, "two to one: half each across leaves");
    x.moves[1] = (move){1, 0, 1000};
    ends(&x, (int64_t[]){1000, 1000}, "below a leaf nothing is shared");
}

/* ---- by wires ---- */

static void test_wires(void)
{
    static hw_wire chain[] = {{0, 1, 10e9}, {1, 2, 6e9}};
    scene x = {.nodes = 1, .devices = 3, .stages = 3, .ranks = 1, .n = 3};
    x.wiring = (hw_wiring){
        .kind = HW_WIRED_LINKS, .devices = 3, .n_wires = 2, .wires = chain};
    x.moves[0] = (move){0, 2, 1000000};
    x.moves[1] = (move){0, 1, 1000000};
    x.moves[2] = (move){1, 2, 1000000};
    ends(&x, (int64_t[]){2000000, 1428572, 2000000},
         "three flows on two links: 3, 7 and 3 of 10 and 6");
    x.moves[2].ns = 400000;
    /* At 800 us the third ends. The first, which has 600 us left, has 5 of 6
     * and ends at 1520; the second has 440 left, half of its link until then,
     * and all of it for the last 80. Rates are multiples of 2^-30. */
    ends(&x, (int64_t[]){1520001, 1600001, 800000},
         "and when one ends the others have more");
    x.wiring =
        (hw_wiring){.kind = HW_WIRED_MESH, .devices = 3, .bandwidth_bps = 5e9};
    x.moves[2].ns = 1000000;
    ends(&x, (int64_t[]){1000000, 1000000, 1000000},
         "in a mesh everybody has a wire of his own");
    x.wiring = (hw_wiring){
        .kind = HW_WIRED_PCIE, .devices_per_switch = 2, .bandwidth_bps = 1e9};
    x.devices = x.stages = 4;
    x.n = 2;
    x.moves[0] = (move){0, 2, 1000};
    x.moves[1] = (move){1, 3, 1000};
    ends(&x, (int64_t[]){2000, 2000}, "PCIe: from switch to switch, half each");
    x.moves[1] = (move){0, 1, 1000};
    x.moves[0] = (move){2, 3, 1000};
    ends(&x, (int64_t[]){1000, 1000}, "below two switches nothing is shared");
}

/* On a square a ring goes round both ways, with half of what is handed on
 * each. */
static void test_wired_rings(void)
{
    static hw_wire wires[] = {
        {0, 1, 10e9}, {1, 2, 10e9}, {2, 3, 10e9}, {0, 3, 10e9}};
    scene x = {.nodes = 1, .devices = 4, .stages = 1, .ranks = 4, .n = 1};
    x.wiring = (hw_wiring){
        .kind = HW_WIRED_LINKS, .devices = 4, .n_wires = 4, .wires = wires};
    x.moves[0] = (move){0, -1, 1000};
    ends(&x, (int64_t[]){1000}, "a ring on wires alone takes what it should");
    x.stages = x.ranks = x.n = 2;
    x.moves[1] = (move){1, -1, 1000};
    ends(&x, (int64_t[]){1000, 1000}, "two rings on wires of their own");
    /* A chain: 0 to 2 and 1 to 3 share the middle wire, so that they leave half
     * of the first one to the ring of 0 and 1. */
    x.wiring.n_wires = 3;
    x.moves[1] = (move){0, 1, 1000};
    ends(&x, (int64_t[]){1500, 1000}, "a ring and a transfer share a wire");
}

int main(void)
{
    test_ports();
    test_rings();
    test_nodes();
    test_leaves();
    test_wires();
    test_wired_rings();
    return tap_done();
}
