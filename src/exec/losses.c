#include "config.h"
#include "exec/rank.h"
#include "exec/results.h"

#include <math.h>

/* The first rank of the stage that has the loss as an output. */
static int32_t find_loss_rank(const exec_rank *rank)
{
    const ir_graph *graph = rank->graph;
    for (int32_t r = 0; r < rank->plan->n_roles; r++) {
        const plan_role *role = &rank->plan->roles[r];
        for (int32_t i = 0; i < role->n_tasks; i++) {
            if (role->tasks[i].kind != PLAN_COMPUTE)
                continue;
            const ir_node *node = &graph->nodes.at[role->tasks[i].node];
            if (node->op == IR_OP_output && node->in[0] == graph->loss)
                return role->first_rank;
        }
    }
    return -1;
}

void exec_rank_plan_losses(exec_rank *rank)
{
    int32_t tells = rank->options->progress != NULL;
    rank->loss_rank = find_loss_rank(rank);
    exec_world_bcast(rank->world, &tells, sizeof tells, 0);
    rank->tells = tells && (rank->world->rank == 0 ||
                            rank->world->rank == rank->loss_rank);
    if (rank->world->size == 1)
        return;
    rank->arriving = rank->world->link->none;
    rank->sent = fs_new(rank->arena, exec_request, rank->kept + 1);
}

static void send_losses(exec_rank *rank)
{
    for (; rank->told < rank->steps_done; rank->told++)
        exec_send_bytes(rank->world, &rank->losses[rank->told], sizeof(double),
                        0, EXEC_TAG_LOSS, &rank->sent[rank->told]);
}

/* Has the loss of step `told` arrived? */
static bool receive_loss(exec_rank *rank, bool wait)
{
    if (rank->loss_rank <= 0)
        return true;
    exec_world *world = rank->world;
    int index;
    if (exec_is_none(world, &rank->arriving))
        exec_recv_bytes(world, &rank->losses[rank->told], sizeof(double),
                        rank->loss_rank, EXEC_TAG_LOSS, &rank->arriving);
    if (wait)
        exec_wait(world, 1, &rank->arriving);
    else
        world->link->poll(world, 1, &rank->arriving, &index);
    return exec_is_none(world, &rank->arriving);
}

static void report_steps(exec_rank *rank, bool wait)
{
    const exec_options *options = rank->options;
    while (rank->told < rank->steps_done && receive_loss(rank, wait)) {
        int64_t k = rank->told++;
        int64_t begin = k ? rank->step_end_ns[k - 1] : rank->begin_ns;
        double loss = rank->loss_rank < 0 ? NAN : rank->losses[k];
        fs_err err = {0};
        if (options->progress(options->progress_ctx, rank->first_step + k, loss,
                              (double)(rank->step_end_ns[k] - begin) * 1e-9,
                              &err) != FS_OK)
            exec_rank_fail(rank, EXEC_DISK, err.text);
    }
}

void exec_rank_tell_losses(exec_rank *rank)
{
    if (rank->told == rank->steps_done)
        return;
    if (rank->world->rank == 0)
        report_steps(rank, false);
    else
        send_losses(rank);
}

void exec_rank_tell_part(const exec_rank *rank, int64_t now_ns)
{
    enum { LONG_NS = 1000000000 }; /* shorter ones tell of themselves */
    const int64_t step = rank->steps_done;
    const int64_t begin_ns =
        step ? rank->step_end_ns[step - 1] : rank->begin_ns;
    if (step < rank->steps && now_ns - begin_ns > LONG_NS)
        rank->options->within(
            rank->options->progress_ctx, rank->first_step + step,
            (double)rank->firings[step] / (double)rank->firings_per_step);
}

void exec_rank_share_losses(exec_rank *rank)
{
    int64_t steps = exec_rank_kept(rank);
    if (rank->tells && rank->world->rank == 0) {
        report_steps(rank, true);
    } else if (rank->tells) {
        send_losses(rank);
        exec_wait(rank->world, (int)rank->told, rank->sent);
    }
    for (int64_t k = 0; rank->loss_rank < 0 && k < steps; k++)
        rank->losses[k] = NAN;
    if (rank->loss_rank >= 0)
        exec_world_bcast(rank->world, rank->losses,
                         steps * (int64_t)sizeof *rank->losses,
                         rank->loss_rank);
}
