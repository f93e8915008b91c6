/* Ranks that are processes of one MPI job. */
#include "config.h"
#include "exec/world.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(exec_request) == sizeof(MPI_Request),
               "an array of requests is one of MPI's");

/* Wraps every call of MPI: a fault ends the job. */
#define CALL(world, call) exec_mpi((world), (call), #call)

/* A run of any length: MPI counts in ints. */
static void run_type(exec_world *world, int64_t bytes, MPI_Datatype *out)
{
    enum { BLOCK = 1 << 30 };
    const int blocks = (int)(bytes / BLOCK), rest = (int)(bytes % BLOCK);
    MPI_Datatype block, parts[2];
    if (bytes <= INT_MAX) {
        CALL(world, MPI_Type_contiguous((int)bytes, MPI_BYTE, out));
        return;
    }
    CALL(world, MPI_Type_contiguous(BLOCK, MPI_BYTE, &block));
    CALL(world, MPI_Type_contiguous(blocks, block, &parts[0]));
    CALL(world, MPI_Type_contiguous(rest, MPI_BYTE, &parts[1]));
    int length[2] = {1, 1};
    MPI_Aint at[2] = {0, (MPI_Aint)blocks * BLOCK};
    CALL(world, MPI_Type_create_struct(2, length, at, parts, out));
    MPI_Type_free(&block);
    MPI_Type_free(&parts[0]);
    MPI_Type_free(&parts[1]);
}

/* From where it begins. */
static void part_type(exec_world *world, const exec_part *part,
                      MPI_Datatype *out)
{
    run_type(world, part->run, out);
    for (int32_t i = part->n - 1; i >= 0; i--) {
        MPI_Datatype inner = *out;
        CALL(world,
             MPI_Type_create_hvector((int)part->count[i], 1,
                                     (MPI_Aint)part->stride[i], inner, out));
        MPI_Type_free(&inner);
    }
}

/* Of parts that follow each other, from the first one's begin. */
static void parts_type(exec_world *world, const exec_part *first,
                       MPI_Datatype *out)
{
    int n = 0;
    for (const exec_part *p = first; p; p = p->next)
        n++;
    MPI_Datatype *type =
        exec_world_alloc(world, (size_t)n, sizeof *type, "a message's type");
    MPI_Aint *at =
        exec_world_alloc(world, (size_t)n, sizeof *at, "a message's type");
    int *length =
        exec_world_alloc(world, (size_t)n, sizeof *length, "a message's type");
    n = 0;
    for (const exec_part *p = first; p; p = p->next) {
        part_type(world, p, &type[n]);
        at[n] = (MPI_Aint)(p->offset - first->offset);
        length[n++] = 1;
    }
    CALL(world, MPI_Type_create_struct(n, length, at, type, out));
    while (n > 0)
        MPI_Type_free(&type[--n]);
    free(type);
    free(at);
    free(length);
}

static void mpi_prepare(exec_world *world, exec_layout *layout)
{
    const exec_part *part = &layout->part;
    layout->type = MPI_BYTE;
    layout->count = (int)part->run;
    if (part->n == 0 && part->run <= INT_MAX && !part->next)
        return;
    (part->next ? parts_type : part_type)(world, part, &layout->type);
    CALL(world, MPI_Type_commit(&layout->type));
    layout->count = 1;
    layout->own_type = true;
}

static void mpi_release(exec_layout *layout)
{
    if (layout->own_type)
        MPI_Type_free(&layout->type);
    layout->own_type = false;
}

static void mpi_send(exec_world *world, const void *base,
                     const exec_layout *layout, int32_t peer, int tag,
                     exec_request *request)
{
    CALL(world,
         MPI_Isend((const char *)base + layout->part.offset, layout->count,
                   layout->type, peer, tag, world->comm, &request->mpi));
}

static void mpi_recv(exec_world *world, void *base, const exec_layout *layout,
                     int32_t peer, int tag, exec_request *request)
{
    CALL(world, MPI_Irecv((char *)base + layout->part.offset, layout->count,
                          layout->type, peer, tag, world->comm, &request->mpi));
}

static int mpi_poll(exec_world *world, int n, exec_request *request, int *index)
{
    int done = 0;
    CALL(world, MPI_Testsome(n, (MPI_Request *)request, &done, index,
                             MPI_STATUSES_IGNORE));
    return done == MPI_UNDEFINED ? 0 : done;
}

static MPI_Datatype type_of(ir_dtype dtype)
{
    switch (dtype) {
    case IR_F32:
        return MPI_FLOAT;
    case IR_F64:
        return MPI_DOUBLE;
    case IR_I32:
        return MPI_INT32_T;
    case IR_I64:
        return MPI_INT64_T;
    default:
        return MPI_UINT8_T;
    }
}

static MPI_Op op_of(ir_sbp_kind kind)
{
    return kind == IR_PMAX ? MPI_MAX : kind == IR_PMIN ? MPI_MIN : MPI_SUM;
}

/* ---- MPI's own all-reduce among some ranks ---- */

struct exec_group {
    MPI_Comm comm;
    int tag; /* of the plan's communicator: the order of its tasks is one */
    int32_t n, *rank;
    struct exec_group *next;
};

static bool mpi_reduces(ir_dtype dtype)
{
    return dtype == IR_F32 || dtype == IR_F64 || dtype == IR_I32 ||
           dtype == IR_I64;
}

static bool is_group(const struct exec_group *g, int tag, int32_t n,
                     const int32_t *rank)
{
    return g->tag == tag && g->n == n &&
           memcmp(g->rank, rank, (size_t)n * sizeof *rank) == 0;
}

static struct exec_group *mpi_join(exec_world *world, int tag, int32_t n,
                                   const int32_t *rank)
{
    struct exec_group *g = world->groups;
    MPI_Group all, some;
    while (g && !is_group(g, tag, n, rank))
        g = g->next;
    if (g)
        return g;
    g = exec_world_alloc(world, 1, sizeof *g, "a group");
    g->rank = exec_world_alloc(world, (size_t)n, sizeof *rank, "a group");
    memcpy(g->rank, rank, (size_t)n * sizeof *rank);
    g->n = n;
    g->tag = tag;
    CALL(world, MPI_Comm_group(world->comm, &all));
    CALL(world, MPI_Group_incl(all, n, g->rank, &some));
    CALL(world,
         MPI_Comm_create_group(world->comm, some, EXEC_TAG_GROUP, &g->comm));
    MPI_Comm_set_errhandler(g->comm, MPI_ERRORS_RETURN);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    g->next = world->groups;
    world->groups = g;
    return g;
}

void exec_link_leave(exec_world *world)
{
    struct exec_group *next;
    for (struct exec_group *g = world->groups; g; g = next) {
        next = g->next;
        MPI_Comm_free(&g->comm);
        free(g->rank);
        free(g);
    }
    world->groups = NULL;
}

static void mpi_all_reduce(exec_world *world, const struct exec_group *group,
                           const exec_reduction *r, exec_request *request)
{
    CALL(world, MPI_Iallreduce(r->in, r->out, (int)r->count, type_of(r->dtype),
                               op_of(r->kind), group->comm, &request->mpi));
}

/* ---- all ranks ---- */

static void mpi_reduce(exec_world *world, ir_sbp_kind kind, ir_dtype dtype,
                       void *data, int64_t count)
{
    const MPI_Op op = op_of(kind);
    const int64_t part = 1 << 24, bytes = ir_dtype_bytes(dtype);
    for (int64_t at = 0; at < count; at += part) {
        int n = (int)(count - at < part ? count - at : part);
        CALL(world, MPI_Allreduce(MPI_IN_PLACE, (char *)data + at * bytes, n,
                                  type_of(dtype), op, world->comm));
    }
}

static void mpi_bcast(exec_world *world, void *data, int64_t bytes,
                      int32_t root)
{
    const int64_t part = 1 << 30;
    for (int64_t at = 0; at < bytes; at += part) {
        int n = (int)(bytes - at < part ? bytes - at : part);
        CALL(world,
             MPI_Bcast((char *)data + at, n, MPI_BYTE, root, world->comm));
    }
}

static void mpi_barrier(exec_world *world)
{
    CALL(world, MPI_Barrier(world->comm));
}

static void mpi_abort(exec_world *world)
{
    MPI_Abort(world->comm, FS_FAULT);
}

const exec_link exec_link_mpi = {.prepare = mpi_prepare,
                                 .release = mpi_release,
                                 .send = mpi_send,
                                 .recv = mpi_recv,
                                 .none = {.mpi = MPI_REQUEST_NULL},
                                 .poll = mpi_poll,
                                 .reduces = mpi_reduces,
                                 .join = mpi_join,
                                 .all_reduce = mpi_all_reduce,
                                 .reduce = mpi_reduce,
                                 .bcast = mpi_bcast,
                                 .barrier = mpi_barrier,
                                 .abort = mpi_abort};
