/* Execution traces are read back: by the schema, and played. */
#include "plan_hand.h"

#include "base/wire.h"
#include "report/chakra.h"
#include "sim/sim.h"

#include <sys/stat.h>
#include <unistd.h>

enum { MOST_RANKS = 8, MOST_DEPS = 64 };
enum { COMP = 4, SEND = 5, RECV = 6, COLL = 7 };

typedef struct node {
    int64_t id, type, duration_us;
    int32_t n_deps, n_data;
    int64_t deps[MOST_DEPS]; /* data first */
    int64_t comm_type, comm_size, src, dst, tag, group;
    bool cpu;
    const char *name;
    int64_t ready_us, end_us; /* played; -1: not yet */
} node;

typedef struct trace {
    FS_VEC(node) nodes;
} trace;

typedef struct world {
    fs_arena *arena;
    const char *dir;
    int32_t n_ranks, wrong;
    trace of[MOST_RANKS];
    json_t *groups;
} world;

static void wrong(world *w, const char *what)
{
    if (w->wrong++ < 5)
        printf("# %s\n", what);
}

/* ---- reading ---- */

static void read_attr(world *w, fs_wire in, node *out)
{
    fs_err err = {0};
    fs_wire_field f;
    const char *name = "", *text = "";
    int64_t value = 0;
    uint32_t kind = 0;
    while (fs_wire_more(&in) && fs_wire_next(&in, &err, &f) == FS_OK) {
        if (f.number == 1)
            fs_wire_text(&f, w->arena, "name", &err, &name);
        else if (f.number == 29)
            fs_wire_text(&f, w->arena, "text", &err, &text);
        value = (int64_t)f.value;
        kind = f.number;
    }
    if (err.status != FS_OK)
        wrong(w, err.text);
    if (strcmp(name, "comm_type") == 0 && kind == 9)
        out->comm_type = value;
    else if (strcmp(name, "comm_size") == 0 && kind == 9)
        out->comm_size = value;
    else if (strcmp(name, "comm_src") == 0 && kind == 7)
        out->src = value;
    else if (strcmp(name, "comm_dst") == 0 && kind == 7)
        out->dst = value;
    else if (strcmp(name, "comm_tag") == 0 && kind == 7)
        out->tag = value;
    else if (strcmp(name, "pg_name") == 0 && kind == 29)
        out->group = atoll(text);
    else if (strcmp(name, "is_cpu_op") == 0 && kind == 27)
        out->cpu = value != 0;
    else if (strncmp(name, "comm_", 5) == 0)
        wrong(w, "an attribute of another type than is read");
}

static void read_deps(world *w, fs_wire in, node *out)
{
    fs_err err = {0};
    uint64_t id;
    while (fs_wire_more(&in) && fs_wire_varint(&in, &err, &id) == FS_OK) {
        if (out->n_deps == MOST_DEPS) {
            wrong(w, "more dependencies than the test takes");
            return;
        }
        out->deps[out->n_deps++] = (int64_t)id;
    }
}

static node read_node(world *w, fs_wire in)
{
    fs_err err = {0};
    fs_wire_field f;
    fs_wire control = {0};
    node out = {.comm_type = -1, .src = -1, .dst = -1, .group = -1};
    out.ready_us = out.end_us = -1;
    while (fs_wire_more(&in) && fs_wire_next(&in, &err, &f) == FS_OK) {
        if (f.number == 1)
            out.id = (int64_t)f.value;
        else if (f.number == 2)
            fs_wire_text(&f, w->arena, "name", &err, &out.name);
        else if (f.number == 3)
            out.type = (int64_t)f.value;
        else if (f.number == 4)
            control = f.body;
        else if (f.number == 5)
            read_deps(w, f.body, &out);
        else if (f.number == 7)
            out.duration_us = (int64_t)f.value;
        else if (f.number == 10)
            read_attr(w, f.body, &out);
        else
            wrong(w, "a field that the schema does not have");
    }
    out.n_data = out.n_deps;
    read_deps(w, control, &out);
    if (err.status != FS_OK)
        wrong(w, err.text);
    return out;
}

static void read_rank(world *w, int32_t rank)
{
    static unsigned char text[1 << 20];
    fs_err err = {0};
    uint64_t bytes;
    const char *path = fs_printf(w->arena, "%s/plan.%d.et", w->dir, rank);
    FILE *file = fopen(path, "rb");
    const size_t n = file ? fread(text, 1, sizeof text, file) : 0;
    fs_wire in = fs_wire_open(path, fs_memdup(w->arena, text, n), n);
    if (file)
        fclose(file);
    for (int32_t i = 0;
         fs_wire_more(&in) && fs_wire_varint(&in, &err, &bytes) == FS_OK; i++) {
        fs_wire message = in;
        if (bytes > fs_wire_left(&in)) {
            wrong(w, "a message leaves the file");
            return;
        }
        message.end = in.at + bytes;
        in.at += bytes;
        if (i > 0) /* the first is about all of it */
            fs_push(w->arena, &w->of[rank].nodes, read_node(w, message));
    }
    if (w->of[rank].nodes.n == 0)
        wrong(w, "a rank without nodes");
}

/* ---- what must hold ---- */

static void check_deps(world *w)
{
    for (int32_t r = 0; r < w->n_ranks; r++)
        for (int32_t i = 0; i < w->of[r].nodes.n; i++) {
            const node *x = &w->of[r].nodes.at[i];
            if (x->id != i)
                wrong(w, "ids are not counted up");
            for (int32_t k = 0; k < x->n_deps; k++)
                if (x->deps[k] < 0 || x->deps[k] >= x->id)
                    wrong(w, "a dependency that does not stand before");
        }
}

static int32_t count_moves(const world *w, int64_t type, const node *like)
{
    int32_t n = 0;
    const int64_t rank = type == SEND ? like->src : like->dst;
    if (rank < 0 || rank >= w->n_ranks)
        return 0;
    for (int32_t i = 0; i < w->of[rank].nodes.n; i++) {
        const node *x = &w->of[rank].nodes.at[i];
        n += x->type == type && x->src == like->src && x->dst == like->dst &&
             x->tag == like->tag && x->comm_size == like->comm_size;
    }
    return n;
}

static int32_t check_moves(world *w)
{
    int32_t moves = 0;
    for (int32_t r = 0; r < w->n_ranks; r++)
        for (int32_t i = 0; i < w->of[r].nodes.n; i++) {
            const node *x = &w->of[r].nodes.at[i];
            if (x->type != SEND && x->type != RECV)
                continue;
            moves++;
            if ((x->type == SEND ? x->src : x->dst) != r)
                wrong(w, "a move that another rank does");
            if (count_moves(w, SEND, x) != 1 || count_moves(w, RECV, x) != 1)
                wrong(w, "a move without its other end");
        }
    return moves;
}

/* The k-th collective of a group on a rank; NULL: there is none. */
static node *collective(world *w, int32_t rank, int64_t group, int32_t k)
{
    for (int32_t i = 0; i < w->of[rank].nodes.n; i++) {
        node *x = &w->of[rank].nodes.at[i];
        if (x->type == COLL && x->group == group && k-- == 0)
            return x;
    }
    return NULL;
}

static int32_t check_collectives(world *w)
{
    int32_t all = 0;
    const char *id;
    json_t *ranks;
    json_object_foreach(w->groups, id, ranks)
    {
        const int64_t group = atoll(id);
        const int32_t lead =
            (int32_t)json_integer_value(json_array_get(ranks, 0));
        int32_t k = 0;
        for (const node *x; (x = collective(w, lead, group, k)) != NULL; k++)
            for (size_t i = 0; i < json_array_size(ranks); i++) {
                const node *y = collective(
                    w, (int32_t)json_integer_value(json_array_get(ranks, i)),
                    group, k);
                if (!y || y->comm_type != x->comm_type ||
                    strcmp(y->name, x->name) != 0)
                    wrong(w, "a collective that a member does otherwise");
            }
        for (size_t i = 0; i < json_array_size(ranks); i++)
            if (collective(
                    w, (int32_t)json_integer_value(json_array_get(ranks, i)),
                    group, k))
                wrong(w, "a collective too many on a member");
        all += k;
    }
    return all;
}

/* ---- playing ---- */

static bool is_ready(world *w, int32_t rank, node *x, bool control)
{
    int64_t at_us = 0;
    const int32_t n = control ? x->n_deps : x->n_data;
    for (int32_t k = 0; k < n; k++) {
        const node *y = &w->of[rank].nodes.at[x->deps[k]];
        if (y->end_us < 0)
            return false;
        at_us = y->end_us > at_us ? y->end_us : at_us;
    }
    x->ready_us = at_us;
    return true;
}

static node *other_end(world *w, const node *x)
{
    const int64_t rank = x->type == SEND ? x->dst : x->src;
    for (int32_t i = 0; i < w->of[rank].nodes.n; i++) {
        node *y = &w->of[rank].nodes.at[i];
        if (y->type == (x->type == SEND ? RECV : SEND) && y->src == x->src &&
            y->dst == x->dst && y->tag == x->tag)
            return y;
    }
    return NULL;
}

/* Which of its group's it is on this rank. */
static int32_t number_of(const world *w, int32_t rank, const node *x)
{
    int32_t k = 0;
    for (const node *y = w->of[rank].nodes.at; y < x; y++)
        k += y->type == COLL && y->group == x->group;
    return k;
}

/* Those that must be ready with it, itself among them. */
static int32_t party_of(world *w, int32_t rank, node *x, int32_t ranks[],
                        node *out[])
{
    if (x->type == SEND || x->type == RECV) {
        ranks[0] = rank;
        out[0] = x;
        ranks[1] = (int32_t)(x->type == SEND ? x->dst : x->src);
        out[1] = other_end(w, x);
        return 2;
    }
    if (x->type != COLL) {
        ranks[0] = rank;
        out[0] = x;
        return 1;
    }
    char id[24];
    snprintf(id, sizeof id, "%lld", (long long)x->group);
    const json_t *list = json_object_get(w->groups, id);
    const int32_t n = (int32_t)json_array_size(list);
    const int32_t k = number_of(w, rank, x);
    for (int32_t i = 0; i < n; i++) {
        ranks[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
        out[i] = collective(w, ranks[i], x->group, k);
    }
    return n;
}

static bool play_one(world *w, int32_t rank, node *x, bool control)
{
    int32_t ranks[MOST_RANKS];
    node *party[MOST_RANKS];
    int64_t at_us = 0, most_us = 0;
    const int32_t n = party_of(w, rank, x, ranks, party);
    for (int32_t i = 0; i < n; i++) {
        if (!party[i] || !is_ready(w, ranks[i], party[i], control))
            return false;
        at_us = fmax(at_us, party[i]->ready_us);
        most_us = fmax(most_us, party[i]->duration_us);
    }
    for (int32_t i = 0; i < n; i++)
        party[i]->end_us = at_us + most_us;
    return true;
}

/* When all is done; -1: it stalls. */
static int64_t play(world *w, bool control)
{
    int64_t end_us = 0, left = 0;
    for (int32_t r = 0; r < w->n_ranks; r++)
        for (int32_t i = 0; i < w->of[r].nodes.n; i++, left++)
            w->of[r].nodes.at[i].end_us = -1;
    for (bool more = true; more && left > 0;) {
        more = false;
        for (int32_t r = 0; r < w->n_ranks; r++)
            for (int32_t i = 0; i < w->of[r].nodes.n; i++) {
                node *x = &w->of[r].nodes.at[i];
                if (x->end_us < 0 && play_one(w, r, x, control))
                    more = true;
                end_us = fmax(end_us, x->end_us);
            }
        left = 0;
        for (int32_t r = 0; r < w->n_ranks; r++)
            for (int32_t i = 0; i < w->of[r].nodes.n; i++)
                left += w->of[r].nodes.at[i].end_us < 0;
    }
    return left ? -1 : end_us;
}

/* ---- plans ---- */

typedef struct totals {
    int32_t plans, wrong, stalled, stalled_data, moves, collectives;
    int32_t later, sooner; /* than simulated */
} totals;

static void read_world(world *w, const plan *p)
{
    json_error_t error;
    w->n_ranks = 0;
    for (int32_t r = 0; r < p->n_roles; r++)
        w->n_ranks += p->roles[r].n_ranks;
    w->groups = json_load_file(
        fs_printf(w->arena, "%s/comm_group.json", w->dir), 0, &error);
    for (int32_t r = 0; r < w->n_ranks; r++)
        read_rank(w, r);
}

static void remove_dir(const char *dir)
{
    char path[300];
    for (int32_t r = 0; r < MOST_RANKS; r++) {
        snprintf(path, sizeof path, "%s/plan.%d.et", dir, (int)r);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/comm_group.json", dir);
    unlink(path);
    rmdir(dir);
}

/* Of one step, from its begin to its end. */
static int64_t simulated_us(const ir_graph *g, const plan *p,
                            const hw_cluster *c, const plan_timing *timing,
                            fs_arena *arena)
{
    fs_err err = {0};
    sim_result sim;
    const sim_options options = {.steps = 1, .straggler = 1};
    if (sim_run(g, p, c, timing, &options, arena, &err, &sim) != FS_OK)
        return -1;
    return (int64_t)(sim.iteration_s * 1e6 + 0.5);
}

static void check_plan(const ir_graph *g, const plan *p, const hw_cluster *c,
                       const plan_timing *timing, totals *sum)
{
    char dir[64];
    fs_err err = {0};
    report_chakra told;
    world w = {.arena = fs_arena_create(), .dir = dir};
    snprintf(dir, sizeof dir, "report_chakra.%d", (int)getpid());
    mkdir(dir, 0777);
    if (report_chakra_write(g, p, timing, dir, &err, &told) != FS_OK) {
        wrong(&w, err.text);
    } else {
        read_world(&w, p);
        check_deps(&w);
        sum->moves += check_moves(&w);
        sum->collectives += check_collectives(&w);
        if (w.wrong == 0) {
            sum->stalled_data += play(&w, false) < 0;
            const int64_t is_us = play(&w, true);
            sum->stalled += is_us < 0;
            const int64_t due_us = simulated_us(g, p, c, timing, w.arena);
            sum->later += is_us > due_us;
            sum->sooner += is_us < due_us;
        }
    }
    sum->plans++;
    sum->wrong += w.wrong > 0;
    json_decref(w.groups);
    remove_dir(dir);
    fs_arena_destroy(w.arena);
}

static void draw(uint64_t *seed, int32_t k, totals *sum)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1"};
    fs_arena *arena = fs_arena_create();
    const int32_t stages = 1 + (int32_t)fs_rand_below(seed, 4);
    const int32_t ranks = 1 + (int32_t)fs_rand_below(seed, 2);
    const int32_t m = 1 + (int32_t)fs_rand_below(seed, 5);
    ir_graph *g = hand_mlp(8, 8, 8, m);
    const hw_cluster *c = hand_cluster(arena, 1, stages * ranks, 0);
    plan_strategy *s =
        hand_stages(g, stages, (ir_mesh){ranks > 1, {ranks}}, arena);
    s->schedule = schedules[k % 3];
    hand_signatures(g, s, fs_rand_below(seed, 1000), arena);
    const plan *p = hand_lower(g, c, s, k % 2, arena);
    plan_timing *timing = plan_timing_new(p, "test", arena);
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t t = 0; t < p->roles[r].n_tasks; t++) {
            const plan_task *task = &p->roles[r].tasks[t];
            /* what may meet others on a link takes nothing */
            if (task->channel < 0 &&
                p->roles[r].streams[task->stream].kind != PLAN_STREAM_STEP)
                timing->demand[r][t].total_s =
                    1e-6 * (double)fs_rand_below(seed, 50);
        }
    check_plan(g, p, c, timing, sum);
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

static void test_many_ranks(void)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    report_chakra told;
    ir_graph *g = hand_mlp(2, 8192, 8, 1);
    const int32_t n = REPORT_CHAKRA_MOST_RANKS + 1;
    const hw_cluster *c = hand_cluster(arena, 1, n, 0);
    plan_strategy *s = hand_stages(g, 1, (ir_mesh){1, {n}}, arena);
    hand_signatures(g, s, 0, arena);
    const plan *p = hand_lower(g, c, s, false, arena);
    const plan_timing *timing = plan_timing_new(p, "test", arena);
    tap_ok(report_chakra_write(g, p, timing, "none", &err, &told) ==
                   FS_INVALID &&
               strstr(err.text, "4097 ranks"),
           "more ranks than files are written for: %s", err.text);
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

int main(void)
{
    uint64_t seed = tap_seed(44);
    totals sum = {0};
    for (int32_t k = 0; k < 90; k++)
        draw(&seed, k, &sum);
    printf("# %d ends of moves, %d collectives\n", sum.moves, sum.collectives);
    tap_equal_int(sum.wrong, 0,
                  "%d plans: every dependency is there, moves "
                  "have both ends, members of a group the same "
                  "collectives",
                  sum.plans);
    tap_ok(sum.moves > 100 && sum.collectives > 100, "there are some of each");
    tap_equal_int(sum.stalled, 0, "played they come to their end");
    tap_equal_int(sum.stalled_data, 0, "by data dependencies alone too");
    tap_equal_int(sum.later, 0, "they take no longer than simulated");
    tap_equal_int(sum.sooner, 0, "and no less");
    test_many_ranks();
    return tap_done();
}
