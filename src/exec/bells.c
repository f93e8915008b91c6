/* The bells of the ranks of a host. */
#include "config.h"
#include "exec/world.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool all_of(exec_world *world, MPI_Comm host, bool mine)
{
    int32_t all = mine;
    exec_mpi(world,
             MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT32_T, MPI_MIN, host),
             "MPI_Allreduce");
    return all;
}

/* A file of records that nobody reads, for want of a supervisor's. */
static bool share_records(exec_world *world, MPI_Comm host)
{
    exec_records *records = &world->shared;
    char path[sizeof records->path] = "";
    fs_err unused = {0};
    int number = 0;
    MPI_Comm_rank(host, &number);
    if (number == 0 &&
        exec_records_create(world->size, &unused, records) == FS_OK)
        memcpy(path, records->path, sizeof path);
    exec_mpi(world, MPI_Bcast(path, sizeof path, MPI_BYTE, 0, host),
             "MPI_Bcast");
    if (number > 0)
        exec_records_open(path, world->size, records);
    const bool all = all_of(world, host, records->at != NULL);
    if (!all)
        exec_records_close(records);
    return all;
}

static void list_bells(exec_world *world, const exec_records *records)
{
    world->bells = exec_world_alloc(world, (size_t)world->size,
                                    sizeof(exec_bell *), "bells");
    for (int32_t r = 0; r < world->size; r++)
        if (!world->host || world->host[r] == world->host[world->rank])
            world->bells[r] = &exec_records_at(records, r)->bell;
    world->bells[world->rank]->parker.shared = true;
}

void exec_bells_open(exec_world *world, MPI_Comm host)
{
    const exec_recorder *recorder = &world->recorder;
    bool supervised = recorder->supervised;
    if (world->size > 1)
        supervised = all_of(world, host, supervised);
    if (supervised)
        list_bells(world, &(exec_records){.at = (char *)recorder->job});
    else if (world->size > 1 && share_records(world, host))
        list_bells(world, &world->shared);
}

void exec_bells_close(exec_world *world)
{
    free(world->bells);
    world->bells = NULL;
    exec_records_close(&world->shared);
}

void exec_ring_all(exec_world *world)
{
    for (int32_t r = 0; r < world->size; r++) {
        exec_ring(world, r, EXEC_SENT);
        exec_ring(world, r, EXEC_TOOK);
    }
}
