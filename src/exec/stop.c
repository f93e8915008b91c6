/* A training that has diverged, or a run whose data is over, ends early, all
 * ranks after the same step: a rank that stopped alone would leave the others
 * waiting. Who knows it (who has the losses, else rank 0) tells the others;
 * each begins no further step and says which is the last that it has begun; the
 * latest of these, which all are told, is the last one of all. */
#include "config.h"
#include "exec/rank.h"

#include <math.h>

static bool knows(const exec_rank *rank)
{
    return rank->world->rank == rank->judge_rank;
}

static void send_to_all(exec_rank *rank, const void *word, int64_t bytes)
{
    for (int32_t r = 0; r < rank->world->size; r++)
        if (r != rank->world->rank)
            exec_send_bytes(rank->world, word, bytes, r, EXEC_TAG_STOP,
                            &rank->verdict[r]);
}

/* From who knows. */
static void await_word(exec_rank *rank, void *word, int64_t bytes)
{
    exec_recv_bytes(rank->world, word, bytes, rank->judge_rank, EXEC_TAG_STOP,
                    &rank->verdict[rank->judge_rank]);
}

void exec_rank_plan_stop(exec_rank *rank)
{
    const exec_world *world = rank->world;
    const bool by_loss = rank->options->stop_early && rank->loss_rank >= 0;
    rank->judge_rank = by_loss ? rank->loss_rank : rank->data->over ? 0 : -1;
    const bool wanted = rank->judge_rank >= 0;
    rank->steps = rank->options->steps;
    rank->stopping = wanted ? EXEC_WATCHING : EXEC_SETTLED;
    if (!wanted || world->size == 1)
        return;
    rank->verdict = fs_new(rank->arena, exec_request, world->size);
    rank->verdict_index = fs_new(rank->arena, int, world->size);
    rank->begun = fs_new(rank->arena, int64_t, world->size);
    for (int32_t r = 0; r < world->size; r++)
        rank->verdict[r] = world->link->none;
    if (!knows(rank))
        await_word(rank, &rank->early, sizeof rank->early);
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
    const exec_data *data = rank->data;
    for (; rank->judged < rank->steps_done && !rank->early; rank->judged++)
        if (!isfinite(rank->losses[rank->judged & rank->ring]))
            rank->early = EXEC_DIVERGES;
    if (!rank->early && data->over && data->over(data->ctx))
        rank->early = EXEC_IS_OVER;
    return rank->early || exec_rank_at_end(rank);
}

static bool all_arrived(exec_rank *rank)
{
    exec_world *world = rank->world;
    int *index = rank->verdict_index;
    if (world->size == 1)
        return true;
    world->link->poll(world, world->size, rank->verdict, index);
    for (int32_t r = 0; r < world->size; r++)
        if (!exec_is_none(world, &rank->verdict[r]))
            return false;
    return true;
}

/* Begins no further step; what the ranks have begun is brought together. */
static void hold(exec_rank *rank)
{
    exec_world *world = rank->world;
    rank->steps = rank->last = count_begun(rank);
    exec_rank_wake(rank);
    rank->stopping = EXEC_COUNTING;
    for (int32_t r = 0; knows(rank) && r < world->size; r++)
        if (r != world->rank)
            exec_recv_bytes(world, &rank->begun[r], sizeof *rank->begun, r,
                            EXEC_TAG_STOP, &rank->verdict[r]);
    if (!knows(rank))
        exec_send_bytes(world, &rank->last, sizeof rank->last, rank->judge_rank,
                        EXEC_TAG_STOP, &rank->verdict[rank->judge_rank]);
}

static void agree(exec_rank *rank)
{
    rank->stopping = EXEC_AGREEING;
    for (int32_t r = 0; knows(rank) && r < rank->world->size; r++)
        if (r != rank->world->rank && rank->begun[r] > rank->last)
            rank->last = rank->begun[r];
    if (knows(rank))
        send_to_all(rank, &rank->last, sizeof rank->last);
    else
        await_word(rank, &rank->last, sizeof rank->last);
}

void exec_rank_poll_stop(exec_rank *rank)
{
    if (rank->stopping == EXEC_WATCHING && knows(rank)) {
        if (!judge(rank))
            return;
        rank->stopping = EXEC_TELLING;
        send_to_all(rank, &rank->early, sizeof rank->early);
    }
    if (rank->stopping == EXEC_SETTLED || !all_arrived(rank))
        return;
    if (rank->stopping == EXEC_AGREEING) {
        rank->steps = rank->last;
        exec_rank_wake(rank);
        rank->stopping = EXEC_SETTLED;
    } else if (rank->stopping == EXEC_COUNTING) {
        agree(rank);
    } else if (rank->early) {
        hold(rank);
    } else {
        rank->stopping = EXEC_SETTLED;
    }
}
