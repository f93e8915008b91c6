#include "config.h"
#include "exec/transfer.h"

#include "exec/piece.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL_BYTES = 64 };

/* What goes to, or comes from, one member. */
typedef struct message {
    exec_part part;
    MPI_Datatype type;
    int count;
    bool own_type;
} message;

typedef enum phase {
    IDLE,
    REDUCING, /* contributions to this member's chunk are coming in */
    MOVING    /* pieces are coming in where they belong */
} phase;

struct exec_transfer {
    exec_world *world;
    exec_box_spec spec;
    bool point_to_point;
    int32_t n_out, n_in;     /* messages of the moving phase */
    message *out_at, *in_at; /* [n]: by member */
    message *give;           /* reductions [n]: what member j reduces */
    message chunk;           /* contiguous: this member's result */
    bool small;              /* all-reduce of a few bytes: all to all */
    char *small_room;        /* its receive buffers */
    int64_t chunk_bytes, chunk_count, result_at; /* result's offset in out */

    phase phase;
    const char *in;
    char *out;
    char *slots;
    int32_t n_slots;
    bool *slot_full;
    int32_t folded, asked; /* members folded; contributions asked for */
    MPI_Request *request;  /* [2 n] */
    int *index;            /* [2 n] */
    int32_t n_request, n_open;
};

static fs_status make_message(exec_world *world, exec_part part, fs_err *err,
                              message *out)
{
    out->part = part;
    if (part.run > INT_MAX || part.outer > INT_MAX)
        return fs_fail(err, FS_FAULT,
                       "a message of more than 2 GiB is not supported");
    out->type = MPI_BYTE;
    out->count = (int)part.run;
    if (part.outer > 1) {
        EXEC_MPI(world, MPI_Type_create_hvector((int)part.outer, (int)part.run,
                                                (MPI_Aint)part.stride, MPI_BYTE,
                                                &out->type));
        EXEC_MPI(world, MPI_Type_commit(&out->type));
        out->count = 1;
        out->own_type = true;
    }
    return FS_OK;
}

static exec_part flat_part(int64_t offset, int64_t bytes)
{
    exec_part part = {offset, 1, bytes, bytes};
    return part;
}

static exec_transfer *new_transfer(exec_world *world, int32_t n,
                                   fs_arena *arena)
{
    exec_transfer *t = fs_new(arena, exec_transfer, 1);
    t->world = world;
    t->spec.n = n;
    t->out_at = fs_new(arena, message, n);
    t->in_at = fs_new(arena, message, n);
    t->give = fs_new(arena, message, n);
    t->slot_full = fs_new(arena, bool, n);
    t->request = fs_new(arena, MPI_Request, 2 * n);
    t->index = fs_new(arena, int, 2 * n);
    for (int32_t i = 0; i < 2 * n; i++)
        t->request[i] = MPI_REQUEST_NULL;
    return t;
}

/* The part of member j when `shape` is cut by `cut`. */
static exec_part member_part(const exec_box_spec *s, const ir_shape *shape,
                             ir_sbp cut, int32_t j)
{
    int64_t start, length;
    ir_split_halo(s->whole.dim[cut.axis], s->n, j, cut, &start, &length);
    return exec_part_along(shape, cut.axis, start, length,
                           ir_dtype_bytes(s->dtype));
}

static ir_shape cut_shape(const exec_box_spec *s, ir_sbp cut, int32_t j)
{
    ir_shape shape = s->whole;
    int64_t start;
    ir_split_halo(s->whole.dim[cut.axis], s->n, j, cut, &start,
                  &shape.dim[cut.axis]);
    return shape;
}

/* Reducing: member j folds elements [split j] of the flat tensor, then sends
 * them to all. */
static fs_status make_all_reduce(exec_transfer *t, fs_arena *arena, fs_err *err)
{
    const exec_box_spec *s = &t->spec;
    int64_t element = ir_dtype_bytes(s->dtype);
    int64_t count = ir_shape_count(&s->whole);
    t->small = count < s->n || count * element <= SMALL_BYTES;
    if (t->small)
        t->small_room =
            fs_alloc(arena, (size_t)s->n, (size_t)(count * element));
    for (int32_t j = 0; j < s->n; j++) {
        int64_t start = 0, length = count;
        if (!t->small)
            ir_split(count, s->n, j, &start, &length);
        exec_part part = flat_part(start * element, length * element);
        FS_TRY(make_message(t->world, part, err, &t->give[j]));
        t->in_at[j] = t->give[j];
    }
    t->chunk = t->give[s->me];
    t->chunk_bytes = t->chunk.part.run;
    t->chunk_count = t->chunk_bytes / element;
    t->result_at = t->chunk.part.offset;
    for (int32_t j = 0; j < s->n; j++)
        t->out_at[j] = t->chunk;
    return FS_OK;
}

static fs_status make_reduce_scatter(exec_transfer *t, fs_err *err)
{
    const exec_box_spec *s = &t->spec;
    for (int32_t j = 0; j < s->n; j++)
        FS_TRY(make_message(t->world, member_part(s, &s->whole, s->to, j), err,
                            &t->give[j]));
    t->chunk_bytes = exec_part_bytes(&t->give[s->me].part);
    t->chunk_count = t->chunk_bytes / ir_dtype_bytes(s->dtype);
    return make_message(t->world, flat_part(0, t->chunk_bytes), err, &t->chunk);
}

static fs_status make_all_gather(exec_transfer *t, fs_err *err)
{
    const exec_box_spec *s = &t->spec;
    for (int32_t j = 0; j < s->n; j++)
        FS_TRY(make_message(t->world, member_part(s, &s->whole, s->from, j),
                            err, &t->in_at[j]));
    int64_t mine = exec_part_bytes(&t->in_at[s->me].part);
    for (int32_t j = 0; j < s->n; j++)
        FS_TRY(make_message(t->world, flat_part(0, mine), err, &t->out_at[j]));
    return FS_OK;
}

static fs_status make_all_to_all(exec_transfer *t, fs_err *err)
{
    const exec_box_spec *s = &t->spec;
    ir_shape before = cut_shape(s, s->from, s->me);
    ir_shape after = cut_shape(s, s->to, s->me);
    for (int32_t j = 0; j < s->n; j++) {
        FS_TRY(make_message(t->world, member_part(s, &before, s->to, j), err,
                            &t->out_at[j]));
        FS_TRY(make_message(t->world, member_part(s, &after, s->from, j), err,
                            &t->in_at[j]));
    }
    return FS_OK;
}

/* What member `owner` holds of what member `reader` is to have, as a part of
 * `piece`, which belongs to one of them and starts at `first`. */
static exec_part borrowed_part(const exec_box_spec *s, int32_t owner,
                               int32_t reader, const ir_shape *piece,
                               int64_t first)
{
    const int32_t axis = s->to.axis;
    int64_t at, length, from, wanted;
    ir_split(s->whole.dim[axis], s->n, owner, &at, &length);
    ir_split_halo(s->whole.dim[axis], s->n, reader, s->to, &from, &wanted);
    int64_t low = at > from ? at : from;
    int64_t high = at + length < from + wanted ? at + length : from + wanted;
    return exec_part_along(piece, axis, low - first,
                           high > low ? high - low : 0,
                           ir_dtype_bytes(s->dtype));
}

/* Only neighbours have something of each other: the other parts are empty. */
static fs_status make_halo(exec_transfer *t, fs_err *err)
{
    const exec_box_spec *s = &t->spec;
    const ir_shape mine = cut_shape(s, s->from, s->me);
    const ir_shape longer = cut_shape(s, s->to, s->me);
    int64_t first, begin, length;
    ir_split(s->whole.dim[s->to.axis], s->n, s->me, &first, &length);
    ir_split_halo(s->whole.dim[s->to.axis], s->n, s->me, s->to, &begin,
                  &length);
    for (int32_t j = 0; j < s->n; j++) {
        exec_part give = borrowed_part(s, s->me, j, &mine, first);
        exec_part take = borrowed_part(s, j, s->me, &longer, begin);
        if (j == s->me) /* all of it, whatever the reader wants */
            give = flat_part(0, exec_part_bytes(&give));
        FS_TRY(make_message(t->world, give, err, &t->out_at[j]));
        FS_TRY(make_message(t->world, take, err, &t->in_at[j]));
    }
    return FS_OK;
}

/* Local steps: `give[me]` is the part of the whole that matters here. */
static void make_local(exec_transfer *t)
{
    const exec_box_spec *s = &t->spec;
    int64_t bytes = ir_shape_count(&s->whole) * ir_dtype_bytes(s->dtype);
    exec_part part = flat_part(0, bytes);
    if (s->kind == PLAN_SLICE)
        part = member_part(s, &s->whole, s->to, s->me);
    if (s->kind == PLAN_ZERO_PAD)
        part = member_part(s, &s->whole, s->from, s->me);
    t->chunk_bytes = bytes;
    t->give[s->me].part = part;
}

fs_status exec_transfer_box(exec_world *world, const exec_box_spec *spec,
                            fs_arena *arena, fs_err *err, exec_transfer **out)
{
    exec_transfer *t = new_transfer(world, spec->n, arena);
    t->spec = *spec;
    t->spec.ranks =
        fs_memdup(arena, spec->ranks, (size_t)spec->n * sizeof *spec->ranks);
    bool reduces =
        spec->kind == PLAN_ALL_REDUCE || spec->kind == PLAN_REDUCE_SCATTER;
    if (reduces && !exec_can_fold(spec->dtype))
        return fs_fail(err, FS_FAULT, "%s of %s is not supported",
                       plan_box_name(spec->kind), ir_dtype_name(spec->dtype));
    switch (spec->kind) {
    case PLAN_ALL_REDUCE:
        FS_TRY(make_all_reduce(t, arena, err));
        break;
    case PLAN_REDUCE_SCATTER:
        FS_TRY(make_reduce_scatter(t, err));
        break;
    case PLAN_ALL_GATHER:
        FS_TRY(make_all_gather(t, err));
        break;
    case PLAN_ALL_TO_ALL:
        FS_TRY(make_all_to_all(t, err));
        break;
    case PLAN_HALO:
        FS_TRY(make_halo(t, err));
        break;
    default:
        make_local(t);
    }
    *out = t;
    return FS_OK;
}

static fs_status make_move(exec_world *world, int32_t peer, int tag,
                           int64_t bytes, fs_arena *arena, fs_err *err,
                           exec_transfer **out)
{
    exec_transfer *t = new_transfer(world, 1, arena);
    t->point_to_point = true;
    t->spec.tag = tag;
    t->spec.ranks = fs_memdup(arena, &peer, sizeof peer);
    *out = t;
    return make_message(world, flat_part(0, bytes), err, &t->chunk);
}

fs_status exec_transfer_send(exec_world *world, int32_t peer, int tag,
                             int64_t bytes, fs_arena *arena, fs_err *err,
                             exec_transfer **out)
{
    return make_move(world, peer, tag, bytes, arena, err, out);
}

fs_status exec_transfer_recv(exec_world *world, int32_t peer, int tag,
                             int64_t bytes, fs_arena *arena, fs_err *err,
                             exec_transfer **out)
{
    return make_move(world, peer, tag, bytes, arena, err, out);
}

static void free_types(message *at, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (at[i].own_type)
            MPI_Type_free(&at[i].type);
}

void exec_transfer_release(exec_transfer *t)
{
    free_types(t->out_at, t->spec.n);
    free_types(t->in_at, t->spec.n);
    free_types(t->give, t->spec.n);
}

int64_t exec_transfer_scratch(const exec_transfer *t)
{
    bool alone = t->spec.n == 1 || t->point_to_point || t->small;
    bool reduces =
        t->spec.kind == PLAN_ALL_REDUCE || t->spec.kind == PLAN_REDUCE_SCATTER;
    return reduces && !alone ? t->chunk_bytes : 0;
}

/* ---- running ---- */

static MPI_Request *next_request(exec_transfer *t)
{
    t->n_open++;
    return &t->request[t->n_request++];
}

static void post_send(exec_transfer *t, const char *base, const message *m,
                      int32_t rank)
{
    EXEC_MPI(t->world, MPI_Isend(base + m->part.offset, m->count, m->type, rank,
                                 t->spec.tag, t->world->comm, next_request(t)));
}

static void post_recv(exec_transfer *t, char *base, const message *m,
                      int32_t rank, MPI_Request *request)
{
    EXEC_MPI(t->world, MPI_Irecv(base + m->part.offset, m->count, m->type, rank,
                                 t->spec.tag, t->world->comm, request));
}

static void start_moving(exec_transfer *t, const char *from)
{
    const exec_box_spec *s = &t->spec;
    t->phase = MOVING;
    for (int32_t k = 1; k < s->n; k++) {
        int32_t j = (s->me + k) % s->n; /* not all to member 0 first */
        if (exec_part_bytes(&t->in_at[j].part) > 0)
            post_recv(t, t->out, &t->in_at[j], s->ranks[j], next_request(t));
    }
    for (int32_t k = 1; k < s->n; k++) {
        int32_t j = (s->me + k) % s->n;
        if (exec_part_bytes(&t->out_at[j].part) > 0)
            post_send(t, from, &t->out_at[j], s->ranks[j]);
    }
}

/* Member -> its number among the others. */
static int32_t other_of(const exec_transfer *t, int32_t member)
{
    return member - (member > t->spec.me);
}

/* Asks for contributions while slots are free. Slot s is request s. */
static void ask_ahead(exec_transfer *t)
{
    const exec_box_spec *s = &t->spec;
    int32_t others = s->n - 1;
    int32_t done = t->folded - (t->folded > s->me);
    while (t->asked < others && t->asked < done + t->n_slots) {
        int32_t member = t->asked + (t->asked >= s->me);
        int32_t slot = t->asked++ % t->n_slots;
        message m = t->chunk;
        m.part.offset = slot * t->chunk_bytes;
        post_recv(t, t->slots, &m, s->ranks[member], &t->request[slot]);
        t->n_open++;
    }
}

static void start_reducing(exec_transfer *t, void *scratch, int64_t room)
{
    const exec_box_spec *s = &t->spec;
    t->phase = REDUCING;
    t->folded = t->asked = 0;
    t->slots = t->small ? t->small_room : scratch;
    int64_t fit =
        t->small || t->chunk_bytes == 0 ? s->n : room / t->chunk_bytes;
    t->n_slots = (int32_t)(fit < s->n - 1 ? fit : s->n - 1);
    FS_ASSERT(t->n_slots > 0 || s->n == 1);
    for (int32_t i = 0; i < t->n_slots; i++)
        t->slot_full[i] = false;
    t->n_request = t->n_slots;
    ask_ahead(t);
    for (int32_t k = 1; k < s->n; k++) {
        int32_t j = (s->me + k) % s->n;
        post_send(t, t->in, &t->give[j], s->ranks[j]);
    }
}

static void run_local(exec_transfer *t)
{
    const exec_box_spec *s = &t->spec;
    const exec_part *part = &t->give[s->me].part;
    if (s->kind == PLAN_SLICE) {
        exec_part_pack(part, t->in, t->out);
    } else if (s->kind == PLAN_ZERO_FILL) {
        if (s->me == 0)
            memcpy(t->out, t->in, (size_t)t->chunk_bytes);
        else
            memset(t->out, 0, (size_t)t->chunk_bytes);
    } else {
        memset(t->out, 0, (size_t)t->chunk_bytes);
        exec_part_unpack(part, t->in, t->out);
    }
}

/* This member's own share of an exchange, without messages. */
static void move_own(exec_transfer *t)
{
    const exec_part *from = &t->out_at[t->spec.me].part;
    const exec_part *to = &t->in_at[t->spec.me].part;
    if (from->outer == 1) {
        exec_part_unpack(to, t->in + from->offset, t->out);
    } else if (to->outer == 1) {
        exec_part_pack(from, t->in, t->out + to->offset);
    } else {
        /* Both cut by columns: runs of the one are split by the other. */
        int64_t run = from->run < to->run ? from->run : to->run;
        int64_t bytes = exec_part_bytes(from);
        for (int64_t at = 0; at < bytes; at += run) {
            const char *source = t->in + from->offset +
                                 at / from->run * from->stride + at % from->run;
            char *target =
                t->out + to->offset + at / to->run * to->stride + at % to->run;
            memcpy(target, source, (size_t)run);
        }
    }
}

void exec_transfer_start(exec_transfer *t, const void *in, void *out,
                         void *scratch, int64_t scratch_bytes)
{
    FS_ASSERT(t->phase == IDLE);
    t->in = in;
    t->out = out;
    t->n_request = t->n_open = 0;
    if (t->point_to_point) {
        t->phase = MOVING;
        if (in)
            post_send(t, t->in, &t->chunk, t->spec.ranks[0]);
        else
            post_recv(t, t->out, &t->chunk, t->spec.ranks[0], next_request(t));
        return;
    }
    switch (t->spec.kind) {
    case PLAN_ALL_REDUCE:
    case PLAN_REDUCE_SCATTER:
        start_reducing(t, scratch, scratch_bytes);
        break;
    case PLAN_ALL_GATHER:
    case PLAN_ALL_TO_ALL:
    case PLAN_HALO:
        start_moving(t, t->in);
        move_own(t);
        break;
    default:
        run_local(t);
        t->phase = MOVING;
    }
}

static void test_requests(exec_transfer *t, bool *moved)
{
    int n = 0;
    if (t->n_open == 0)
        return;
    EXEC_MPI(t->world, MPI_Testsome(t->n_request, t->request, &n, t->index,
                                    MPI_STATUSES_IGNORE));
    if (n == MPI_UNDEFINED || n == 0)
        return;
    *moved = true;
    t->n_open -= n;
    if (t->phase == REDUCING)
        for (int i = 0; i < n; i++)
            if (t->index[i] < t->n_slots)
                t->slot_full[t->index[i]] = true;
}

static void fold_one(exec_transfer *t, const void *from)
{
    char *to = t->out + t->result_at;
    if (t->folded == 0)
        memcpy(to, from, (size_t)t->chunk_bytes);
    else
        exec_fold((ir_sbp_kind)t->spec.from.kind, t->spec.dtype, to, from,
                  t->chunk_count);
}

static void fold_own(exec_transfer *t)
{
    const exec_part *part = &t->give[t->spec.me].part;
    const char *from = t->in + part->offset;
    if (part->outer == 1) {
        fold_one(t, from);
        return;
    }
    char *to = t->out + t->result_at;
    int64_t n = part->run / ir_dtype_bytes(t->spec.dtype);
    for (int64_t i = 0; i < part->outer; i++) {
        if (t->folded == 0)
            memcpy(to + i * part->run, from + i * part->stride,
                   (size_t)part->run);
        else
            exec_fold((ir_sbp_kind)t->spec.from.kind, t->spec.dtype,
                      to + i * part->run, from + i * part->stride, n);
    }
}

/* Folds in the order of the members as far as contributions are there. */
static void fold_ready(exec_transfer *t)
{
    while (t->folded < t->spec.n) {
        if (t->folded == t->spec.me) {
            fold_own(t);
        } else {
            int32_t slot = other_of(t, t->folded) % t->n_slots;
            if (!t->slot_full[slot])
                return;
            t->slot_full[slot] = false;
            fold_one(t, t->slots + slot * t->chunk_bytes);
        }
        t->folded++;
        ask_ahead(t);
    }
}

bool exec_transfer_poll(exec_transfer *t, bool *moved)
{
    test_requests(t, moved);
    if (t->phase == REDUCING) {
        fold_ready(t);
        if (t->folded < t->spec.n || t->n_open > 0)
            return false;
        *moved = true;
        bool spread = t->spec.kind == PLAN_ALL_REDUCE && !t->small;
        if (spread && t->spec.n > 1) {
            t->n_request = 0;
            start_moving(t, t->out);
            return false;
        }
        t->phase = IDLE;
        return true;
    }
    if (t->n_open > 0)
        return false;
    t->phase = IDLE;
    *moved = true;
    return true;
}
