/* Who waits for whom, on records that are made up: two stages of two ranks. */
#include "config.h"
#include "tests/tap.h"

#include "cli/waits.h"

enum { RANKS = 4, KERNELS = 0, COLLECTIVES, MOVES };

/* Of both roles: kernel, all-reduce, move (stage 0 sends, stage 1 receives). */
static plan_task tasks[2][3];
static plan_stream streams[2][3];
static plan_stage stages[2];
static plan_strategy strategy = {.n_stages = 2, .stages = stages};
static plan_comm comms[2];
static plan_channel channel = {0, 1};
static int32_t own_stage[2] = {0, 1};
static plan_role roles[2];
static plan the_plan = {.strategy = &strategy,
                        .micro_batches = 1,
                        .n_roles = 2,
                        .n_comms = 2,
                        .n_channels = 1,
                        .roles = roles,
                        .comms = comms,
                        .channels = &channel};
static exec_record *of[RANKS];
static const exec_record *records[RANKS];
static bool lifeless[RANKS];

static void make_role(int32_t i)
{
    stages[i] = (plan_stage){{1, {2}}, 2 * i};
    comms[i] = (plan_comm){i, 1};
    for (int32_t k = 0; k < 3; k++) {
        tasks[i][k] = (plan_task){.stream = k, .comm = -1, .channel = -1};
        streams[i][k] = (plan_stream){PLAN_STREAM_COMPUTE, -1};
    }
    tasks[i][KERNELS].kind = PLAN_COMPUTE;
    tasks[i][COLLECTIVES].kind = PLAN_BOX;
    tasks[i][COLLECTIVES].comm = i;
    tasks[i][MOVES].kind = i ? PLAN_RECV : PLAN_SEND;
    tasks[i][MOVES].channel = 0;
    streams[i][MOVES] =
        (plan_stream){i ? PLAN_STREAM_RECV : PLAN_STREAM_SEND, 0};
    roles[i] = (plan_role){.n_chunks = 1,
                           .stages = &own_stage[i],
                           .first_rank = 2 * i,
                           .n_ranks = 2,
                           .n_tasks = 3,
                           .n_streams = 3,
                           .tasks = tasks[i],
                           .streams = streams[i]};
}

/* All ranks idle, before their first task. */
static void begin(void)
{
    for (int32_t r = 0; r < RANKS; r++) {
        if (!of[r])
            of[r] = calloc(1, sizeof *of[r]);
        records[r] = of[r];
        memset(of[r], 0, sizeof *of[r]);
        of[r]->n_streams = 3;
        of[r]->state = EXEC_RUNNING;
        lifeless[r] = false;
        for (int32_t s = 0; s < 3; s++)
            of[r]->now[s].task = s;
    }
}

static void fire(int32_t rank, int32_t stream, int64_t at_ns)
{
    exec_now *now = &of[rank]->now[stream];
    now->fired++;
    now->busy = 1;
    now->since_ns = at_ns;
}

static cli_waits look(fs_arena *arena)
{
    cli_waits w;
    cli_waits_of(&the_plan, records, lifeless, arena, &w);
    return w;
}

static void test_collective(fs_arena *arena)
{
    begin();
    fire(0, COLLECTIVES, 5);
    fire(1, KERNELS, 3);
    const cli_waits w = look(arena);
    tap_ok(w.at[0].task == COLLECTIVES && w.at[0].n_peers == 1 &&
               w.at[0].peers[0] == 1,
           "who has come to a collective waits for who has not");
    tap_ok(w.at[1].task == KERNELS && w.at[1].n_peers == 0,
           "a rank in a kernel waits for nobody");
    tap_equal_int(w.root, 1, "who is waited for and waits for nobody is told");
    tap_equal_int(w.n_cycle, 0, "and there is no ring");
    fire(1, COLLECTIVES, 6);
    tap_equal_int(look(arena).at[0].n_peers, 0,
                  "of those that have come nobody is waited for");
}

static void test_move(fs_arena *arena)
{
    begin();
    fire(3, MOVES, 5);
    const cli_waits w = look(arena);
    tap_ok(w.at[3].n_peers == 1 && w.at[3].peers[0] == 1,
           "a receiver waits for the sender at its place");
    tap_equal_int(w.at[2].n_peers, 0, "another receiver has not begun to");
    fire(1, MOVES, 6);
    tap_equal_int(look(arena).at[3].n_peers, 0,
                  "a sender that has begun is not waited for");
}

static void test_ring(fs_arena *arena)
{
    begin();
    fire(0, COLLECTIVES, 5); /* for 1 */
    fire(1, MOVES, 5);       /* for 3 */
    fire(3, COLLECTIVES, 5); /* for 2 */
    cli_waits w = look(arena);
    tap_equal_int(w.n_cycle, 0, "a chain is no ring");
    tap_equal_int(w.root, 2, "its end is its root");
    begin();
    fire(0, COLLECTIVES, 5); /* for 1 */
    fire(1, MOVES, 5);       /* for 3 */
    fire(3, COLLECTIVES, 5); /* for 2 */
    fire(2, MOVES, 5);       /* for 0 */
    w = look(arena);
    tap_equal_int(w.root, -1, "in a ring everybody waits");
    tap_equal_int(w.n_cycle, 4, "and all of it are told");
    tap_ok(w.n_cycle == 4 && w.cycle[0] == 0 && w.cycle[1] == 1 &&
               w.cycle[2] == 3 && w.cycle[3] == 2,
           "in the order of their waiting");
}

/* Before their first step all ranks meet again and again. */
static void test_late(fs_arena *arena)
{
    begin();
    for (int32_t r = 0; r < RANKS; r++) {
        of[r]->n_streams = 0;
        of[r]->met = 4;
    }
    tap_equal_int(look(arena).late, -1, "of those that met nobody is late");
    of[2]->met = 3;
    of[3]->met = 5;
    tap_equal_int(look(arena).late, 2, "who met the others less often is");
}

static void test_lifeless(fs_arena *arena)
{
    begin();
    fire(0, COLLECTIVES, 5);
    fire(0, COLLECTIVES, 7);
    fire(1, MOVES, 4); /* posted before it died in the next */
    fire(1, COLLECTIVES, 6);
    lifeless[1] = true;
    const cli_waits w = look(arena);
    tap_ok(w.at[1].task == COLLECTIVES && w.at[1].n_peers == 0,
           "a lifeless rank is at what it began last");
    tap_equal_int(w.root, 1, "and is the root of what waits");
    begin();
    of[1]->now[KERNELS].step = 3;
    of[1]->now[COLLECTIVES].step = 3;
    of[1]->now[COLLECTIVES].since_ns = 4;
    of[1]->now[MOVES].step = 6; /* ahead, as loads are */
    of[1]->now[MOVES].since_ns = 5;
    tap_equal_int(look(arena).at[1].step, 3,
                  "one that has begun nothing is at the least step");
    lifeless[1] = true;
    const cli_at at = look(arena).at[1];
    tap_ok(at.step == 3 && at.task == COLLECTIVES,
           "a lifeless one too, at what is next there");
}

static void test_differs(fs_arena *arena)
{
    begin();
    cli_waits w = look(arena);
    tap_equal_int(w.differs, -1, "ranks that have done the same do not differ");
    fire(0, KERNELS, 1);
    fire(3, KERNELS, 1);
    w = look(arena);
    tap_ok(w.differs == 1 && w.ahead == 0, "the first that is behind is told");
    lifeless[2] = true;
    w = look(arena);
    tap_ok(w.differs == 2 && w.ahead == 3,
           "but a lifeless rank's role is looked at before");
    of[0]->now[KERNELS].task = 77;
    tap_equal_int(look(arena).at[0].task >= 3, 0,
                  "a task that the plan has not is none");
}

static void test_absent(fs_arena *arena)
{
    begin();
    fire(0, COLLECTIVES, 5);
    of[1]->n_streams = 0;
    const cli_waits w = look(arena);
    tap_ok(w.at[1].task == -1 && w.at[0].peers[0] == 1,
           "who has not begun is nowhere, and waited for");
}

int main(void)
{
    fs_arena *arena = fs_arena_create();
    make_role(0);
    make_role(1);
    test_collective(arena);
    test_move(arena);
    test_ring(arena);
    test_late(arena);
    test_lifeless(arena);
    test_differs(arena);
    test_absent(arena);
    for (int32_t r = 0; r < RANKS; r++)
        free(of[r]);
    fs_arena_destroy(arena);
    return tap_done();
}
