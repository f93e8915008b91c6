/* A training that has diverged ends early, all ranks after the same step: a
 * rank that stopped alone would leave the others waiting. Who knows the losses
 * tells the others (a broadcast that they have posted); each begins no further
 * step; the latest step that anybody has begun is the last one of all. */
#include "config.h"
#include "exec/rank.h"

#include <math.h>

void exec_rank_plan_stop(exec_rank *rank)
{
    const exec_world *world = rank->world;
    bool wanted = rank->options->stop_early && rank->loss_rank >= 0;
    rank->steps = rank->options->steps;
    rank->stopping = wanted ? EXEC_WATCHING : EXEC_SETTLED;
    if (wanted && world->size > 1 && world->rank != rank->loss_rank)
        EXEC_MPI(rank->world,
                 MPI_Ibcast(&rank->diverged, 1, MPI_INT32_T, rank->loss_rank,
                            world->comm, &rank->verdict));
}

bool exec_rank_at_end(const exec_rank *rank)
{
    for (int32_t s = 0; s < rank->role->n_streams; s++)
        if (exec_rank_may_begin(rank, s))
            return false;
    return true;
}

/* The number of steps that some stream has begun, or may have. */
static int64_t count_begun(const exec_rank *rank)
{
    int64_t most = 0;
    for (int32_t s = 0; s < rank->role->n_streams; s++) {
        int64_t step = rank->actors->cursor[s].step;
        step += plan_actor_head(rank->actors, s) >= 0;
        most = step > most ? step : most;
    }
    return most < rank->options->steps ? most : rank->options->steps;
}

/* Of the rank that knows: is there a verdict? */
static bool judge(exec_rank *rank)
{
    for (; rank->judged < rank->steps_done && !rank->diverged; rank->judged++)
        rank->diverged = !isfinite(rank->losses[rank->judged]);
    return rank->diverged || exec_rank_at_end(rank);
}

static void hold(exec_rank *rank)
{
    rank->steps = count_begun(rank);
    rank->last = rank->steps;
    rank->stopping = EXEC_AGREEING;
    if (rank->world->size > 1)
        EXEC_MPI(rank->world,
                 MPI_Iallreduce(MPI_IN_PLACE, &rank->last, 1, MPI_INT64_T,
                                MPI_MAX, rank->world->comm, &rank->verdict));
}

static bool arrived(exec_rank *rank)
{
    int done = 1;
    if (rank->world->size > 1)
        EXEC_MPI(rank->world,
                 MPI_Test(&rank->verdict, &done, MPI_STATUS_IGNORE));
    return done;
}

void exec_rank_poll_stop(exec_rank *rank)
{
    bool knows = rank->world->rank == rank->loss_rank;
    if (rank->stopping == EXEC_WATCHING && knows) {
        if (!judge(rank))
            return;
        rank->stopping = EXEC_TELLING;
        if (rank->world->size > 1)
            EXEC_MPI(rank->world, MPI_Ibcast(&rank->diverged, 1, MPI_INT32_T,
                                             rank->loss_rank, rank->world->comm,
                                             &rank->verdict));
    }
    if (rank->stopping == EXEC_SETTLED || !arrived(rank))
        return;
    if (rank->stopping == EXEC_AGREEING) {
        rank->steps = rank->last;
        rank->stopping = EXEC_SETTLED;
    } else if (rank->diverged) {
        hold(rank);
    } else {
        rank->stopping = EXEC_SETTLED;
    }
}
