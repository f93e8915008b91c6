/* How ranks reach each other, for the other files of this folder: messages of
 * parts, polled for, and what all ranks do together. Two kinds: processes under
 * MPI, and threads of one process (tests of many plans), where a message is one
 * copy. A rank alone has no link. */
#ifndef FS_EXEC_LINK_H
#define FS_EXEC_LINK_H

#include "exec/piece.h"

#include <mpi.h>

struct exec_world;
struct exec_group;
struct exec_post;

/* A message in flight. */
typedef union exec_request {
    MPI_Request mpi;
    struct exec_post *post;
} exec_request;

/* The bytes of a message, prepared once. */
typedef struct exec_layout {
    exec_part part;
    MPI_Datatype type; /* MPI: `count` of these at part.offset */
    int count;
    bool own_type;
} exec_layout;

typedef struct exec_reduction {
    ir_sbp_kind kind; /* one of the P kinds */
    ir_dtype dtype;
    const void *in;
    void *out;
    int64_t count; /* below 2^31 */
} exec_reduction;

typedef struct exec_link {
    void (*prepare)(struct exec_world *world, exec_layout *layout);
    void (*release)(exec_layout *layout);
    /* `base` is where the part's offset counts from. Messages of one sender
     * and tag arrive in the order of their sending. */
    void (*send)(struct exec_world *world, const void *base,
                 const exec_layout *layout, int32_t peer, int tag,
                 exec_request *request);
    void (*recv)(struct exec_world *world, void *base,
                 const exec_layout *layout, int32_t peer, int tag,
                 exec_request *request);
    exec_request none;
    /* Completed ones become `none`; their indices go to `index`. Returns how
     * many. */
    int (*poll)(struct exec_world *world, int n, exec_request *request,
                int *index);
    /* MPI's own all-reduce, a request like a message; NULL: there is none. May
     * values of the dtype be reduced so? `join`: of the group of these ranks,
     * once for all transfers among them of one tag, whose order is the same on
     * all (that of two tags is not); they come to it together. `in` and
     * `out` do not overlap. */
    bool (*reduces)(ir_dtype dtype);
    struct exec_group *(*join)(struct exec_world *world, int tag, int32_t n,
                               const int32_t *rank);
    void (*all_reduce)(struct exec_world *world, const struct exec_group *group,
                       const exec_reduction *reduction, exec_request *request);
    /* All ranks together. `kind` is one of the P kinds. */
    void (*reduce)(struct exec_world *world, ir_sbp_kind kind, ir_dtype dtype,
                   void *data, int64_t count);
    void (*bcast)(struct exec_world *world, void *data, int64_t bytes,
                  int32_t root);
    void (*barrier)(struct exec_world *world);
    /* Ends the other ranks, if it can. */
    void (*abort)(struct exec_world *world);
} exec_link;

extern const exec_link exec_link_mpi, exec_link_local;
/* Frees the groups; before MPI ends. */
void exec_link_leave(struct exec_world *world);

/* A message's sending and asking for it, and a call of who may wait for that.
 */
void exec_link_send(struct exec_world *world, const void *base,
                    const exec_layout *layout, int32_t peer, int tag,
                    exec_request *request);
void exec_link_recv(struct exec_world *world, void *base,
                    const exec_layout *layout, int32_t peer, int tag,
                    exec_request *request);
/* Flat bytes from their base on. */
exec_layout exec_layout_flat(struct exec_world *world, int64_t bytes);
void exec_send_bytes(struct exec_world *world, const void *from, int64_t bytes,
                     int32_t peer, int tag, exec_request *request);
void exec_recv_bytes(struct exec_world *world, void *to, int64_t bytes,
                     int32_t peer, int tag, exec_request *request);
/* Polls until all are done, giving the core away meanwhile. */
void exec_wait(struct exec_world *world, int n, exec_request *request);
bool exec_is_none(const struct exec_world *world, const exec_request *request);

#endif
