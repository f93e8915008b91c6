#include "config.h"
#include "exec/transfer.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL_BYTES = 64 };

/* What goes to, or comes from, one rank. */
typedef struct message {
    exec_layout layout;
    int32_t rank;
} message;

/* A contribution's place among those to its box. */
typedef struct turn {
    bool first, last;
    int64_t low_at; /* of its box in the lower halves */
} turn;

/* Messages of a round, and what stays on this rank. A round either moves bytes
 * to where they belong, or folds what comes in. */
typedef struct round {
    ir_sbp_kind folds; /* IR_B: nothing */
    int32_t n_out, n_in;
    message *out; /* parts of what this rank gives */
    message *in;  /* parts of what it is to have; when it folds, in order,
                     itself among them */
    int32_t own;  /* in[own] is this rank's, out[own_out] the bytes; or -1 */
    int32_t own_out;
    turn *turn; /* [n_in] */
    int64_t largest;
    int64_t low_bytes; /* lower halves of sums of 16-bit floats; 0: none */
} round;

typedef enum phase { IDLE, REDUCING, MOVING } phase;

struct exec_transfer {
    exec_world *world;
    ir_dtype dtype;
    int tag;
    ir_sbp_kind fills; /* whose neutral element nobody gives; IR_B: none */
    int64_t out_bytes;
    int32_t n_rounds;
    round rounds[2]; /* the second gives what the first has left in `out` */
    bool small;      /* contributions have receive buffers of their own */
    char *small_room;

    phase phase;
    int32_t at; /* round */
    const char *in;
    char *out;
    char *slots, *low;
    int32_t n_slots;
    bool *slot_full;
    int32_t folded, asked; /* contributions folded; asked for */
    exec_request *request; /* slots first, then what is sent */
    int *index;
    int32_t n_request, n_open;
};

/* ---- preparing ---- */

static message make_message(exec_world *world, const ir_piece *box,
                            const ir_piece *holder, int64_t element,
                            int32_t rank)
{
    message m = {.rank = rank};
    m.layout.part = exec_part_of(box, holder, element);
    if (rank != world->rank && world->link)
        world->link->prepare(world, &m.layout);
    return m;
}

static void list_out(exec_transfer *t, round *r, const plan_shares *shares,
                     const ir_piece *holder, int32_t first_rank,
                     fs_arena *arena)
{
    r->out = fs_new(arena, message, shares->n);
    r->n_out = shares->n;
    for (int32_t i = 0; i < shares->n; i++) {
        const int32_t rank = first_rank + shares->at[i].position;
        r->out[i] = make_message(t->world, &shares->at[i].box, holder,
                                 ir_dtype_bytes(t->dtype), rank);
        if (rank == t->world->rank)
            r->own_out = i;
    }
}

static bool same_box(const ir_piece *a, const ir_piece *b)
{
    return ir_shape_equal(&a->shape, &b->shape) &&
           memcmp(a->offset, b->offset,
                  (size_t)a->shape.rank * sizeof *a->offset) == 0;
}

/* Which contributions go to the same box as which. */
static void list_boxes(const exec_transfer *t, round *r,
                       const plan_shares *shares)
{
    const bool wide = r->folds == IR_PSUM && ir_dtype_bytes(t->dtype) == 2;
    for (int32_t i = 0; i < r->n_in; i++) {
        r->turn[i] = (turn){true, true, r->low_bytes};
        for (int32_t k = 0; k < i && r->folds != IR_B; k++) {
            if (!same_box(&shares->at[k].box, &shares->at[i].box))
                continue;
            r->turn[k].last = r->turn[i].first = false;
            r->turn[i].low_at = r->turn[k].low_at;
        }
        if (wide && r->turn[i].first)
            r->low_bytes += exec_part_bytes(&r->in[i].layout.part);
    }
}

static void list_in(exec_transfer *t, round *r, const plan_shares *shares,
                    const ir_piece *holder, int32_t first_rank, fs_arena *arena)
{
    r->in = fs_new(arena, message, shares->n);
    r->turn = fs_new(arena, turn, shares->n);
    r->n_in = shares->n;
    for (int32_t i = 0; i < shares->n; i++) {
        const int32_t rank = first_rank + shares->at[i].position;
        r->in[i] = make_message(t->world, &shares->at[i].box, holder,
                                ir_dtype_bytes(t->dtype), rank);
        const int64_t bytes = exec_part_bytes(&r->in[i].layout.part);
        r->largest = bytes > r->largest ? bytes : r->largest;
        if (rank == t->world->rank)
            r->own = i;
    }
    list_boxes(t, r, shares);
}

static round *add_round(exec_transfer *t, ir_sbp_kind folds)
{
    round *r = &t->rounds[t->n_rounds++];
    *r = (round){.folds = folds, .own = -1, .own_out = -1};
    return r;
}

static ir_piece own_piece(const ir_shape *shape, const ir_nd_sbp *sbp,
                          const ir_mesh *mesh, int32_t position)
{
    int32_t at[IR_MAX_MESH];
    ir_mesh_coords(mesh, position, at);
    return ir_piece_of(shape, sbp, mesh, at);
}

/* Everyone gives and takes directly. */
static void make_direct(exec_transfer *t, const exec_transfer_spec *s,
                        fs_arena *arena)
{
    const plan_exchange *x = s->exchange;
    round *r = add_round(t, plan_exchange_folds(x));
    if (s->gives_at >= 0) {
        const ir_piece mine =
            own_piece(&x->shape, &x->from, &x->from_mesh, s->gives_at);
        plan_shares shares = {0};
        plan_exchange_gives(x, s->gives_at, arena, &shares);
        list_out(t, r, &shares, &mine, s->first_taker, arena);
    }
    if (s->takes_at >= 0) {
        const ir_piece mine =
            own_piece(&x->shape, &x->to, &x->to_mesh, s->takes_at);
        plan_shares shares = {0};
        plan_exchange_takes(x, s->takes_at, arena, &shares);
        list_in(t, r, &shares, &mine, s->first_giver, arena);
        t->out_bytes = ir_shape_count(&mine.shape) * ir_dtype_bytes(t->dtype);
    }
}

/* Do all that give to this rank leave it with the same, and hold the same box?
 * Then it is an all-reduce among them: `shares` are its members. */
static bool is_all_reduce(const exec_transfer_spec *s, fs_arena *arena,
                          plan_shares *shares)
{
    const plan_exchange *x = s->exchange;
    if (x->moves || plan_exchange_folds(x) == IR_B)
        return false;
    for (int32_t a = 0; a < x->from_mesh.n; a++)
        if (!ir_sbp_equal(x->from.at[a], x->to.at[a]) &&
            (!ir_sbp_is_partial(x->from.at[a]) || x->to.at[a].kind != IR_B))
            return false;
    plan_exchange_takes(x, s->takes_at, arena, shares);
    return true;
}

static int32_t member_of(const plan_shares *members, int32_t position)
{
    int32_t i = 0;
    while (members->at[i].position != position)
        i++;
    return i;
}

/* Member i's part of `count` elements in a row. */
static plan_share flat_share(int64_t count, const plan_shares *members,
                             int32_t i)
{
    plan_share share = {.position = members->at[i].position,
                        .box = {.shape = {.rank = 1}}};
    ir_split(count, members->n, i, &share.box.offset[0],
             &share.box.shape.dim[0]);
    return share;
}

/* Each member folds its part of the flat tensor, then gives it to all. */
static void make_all_reduce(exec_transfer *t, const exec_transfer_spec *s,
                            const plan_shares *members, fs_arena *arena)
{
    const ir_piece whole = {
        .shape = ir_shape_make(
            1, (int64_t[]){ir_shape_count(&members->at[0].box.shape)})};
    const int64_t count = whole.shape.dim[0];
    const int32_t me = member_of(members, s->takes_at);
    plan_shares parts = {0}, mine = {0};
    for (int32_t i = 0; i < members->n; i++) {
        plan_share share = flat_share(count, members, me);
        fs_push(arena, &parts, flat_share(count, members, i));
        share.position = members->at[i].position;
        fs_push(arena, &mine, share);
    }
    round *r = add_round(t, plan_exchange_folds(s->exchange));
    list_out(t, r, &parts, &whole, s->first_taker, arena);
    list_in(t, r, &mine, &whole, s->first_giver, arena);
    r = add_round(t, IR_B);
    list_out(t, r, &mine, &whole, s->first_taker, arena);
    list_in(t, r, &parts, &whole, s->first_giver, arena);
    r->own = -1; /* it lies there */
    t->out_bytes = count * ir_dtype_bytes(t->dtype);
}

static int32_t most_messages(const exec_transfer *t)
{
    int32_t most = 0;
    for (int32_t i = 0; i < t->n_rounds; i++)
        if (t->rounds[i].n_in + t->rounds[i].n_out > most)
            most = t->rounds[i].n_in + t->rounds[i].n_out;
    return most;
}

/* Room for what is in flight, and of a few bytes for all contributions. */
static void make_room(exec_transfer *t, fs_arena *arena)
{
    const round *r = &t->rounds[0];
    const int32_t n = most_messages(t);
    t->slot_full = fs_new(arena, bool, r->n_in + 1);
    t->request = fs_new(arena, exec_request, n + 1);
    t->index = fs_new(arena, int, n + 1);
    t->small = r->folds != IR_B && r->largest <= SMALL_BYTES;
    if (t->small)
        t->small_room = fs_alloc(
            arena, 1,
            (size_t)(r->low_bytes + ((int64_t)r->n_in + 1) * r->largest));
}

fs_status exec_transfer_make(exec_world *world, const exec_transfer_spec *s,
                             fs_arena *arena, fs_err *err, exec_transfer **out)
{
    exec_transfer *t = fs_new(arena, exec_transfer, 1);
    plan_shares members = {0};
    t->world = world;
    t->dtype = s->dtype;
    t->tag = s->tag;
    if (plan_exchange_folds(s->exchange) != IR_B && !exec_can_fold(s->dtype))
        return fs_fail(err, FS_FAULT, "reducing %s is not supported",
                       ir_dtype_name(s->dtype));
    bool reduces = is_all_reduce(s, arena, &members);
    if (reduces) {
        const int64_t count = ir_shape_count(&members.at[0].box.shape);
        reduces = count >= members.n &&
                  count * ir_dtype_bytes(s->dtype) > SMALL_BYTES;
    }
    if (reduces)
        make_all_reduce(t, s, &members, arena);
    else
        make_direct(t, s, arena);
    t->fills = plan_exchange_fills(s->exchange);
    make_room(t, arena);
    *out = t;
    return FS_OK;
}

static void release_all(exec_transfer *t, message *at, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (at[i].rank != t->world->rank && t->world->link)
            t->world->link->release(&at[i].layout);
}

void exec_transfer_release(exec_transfer *t)
{
    for (int32_t i = 0; i < t->n_rounds; i++) {
        release_all(t, t->rounds[i].out, t->rounds[i].n_out);
        release_all(t, t->rounds[i].in, t->rounds[i].n_in);
    }
}

int64_t exec_transfer_scratch(const exec_transfer *t)
{
    const round *r = &t->rounds[0];
    const int32_t others = r->n_in - (r->own >= 0);
    return r->folds != IR_B && !t->small && others > 0
               ? r->low_bytes + r->largest
               : 0;
}

/* ---- running ---- */

static exec_request *next_request(exec_transfer *t)
{
    t->n_open++;
    return &t->request[t->n_request++];
}

static void post_sends(exec_transfer *t, const round *r, const char *from)
{
    const int32_t start = r->own_out < 0 ? 0 : r->own_out + 1;
    for (int32_t k = 0; k < r->n_out; k++) {
        const int32_t i = (start + k) % r->n_out; /* not all to the first */
        if (i != r->own_out)
            t->world->link->send(t->world, from, &r->out[i].layout,
                                 r->out[i].rank, t->tag, next_request(t));
    }
}

static void start_moving(exec_transfer *t, const round *r, const char *from)
{
    t->phase = MOVING;
    for (int32_t i = 0; i < r->n_in; i++)
        if (r->in[i].rank != t->world->rank)
            t->world->link->recv(t->world, t->out, &r->in[i].layout,
                                 r->in[i].rank, t->tag, next_request(t));
    post_sends(t, r, from);
    if (r->own >= 0)
        exec_part_copy(&r->out[r->own_out].layout.part, from,
                       &r->in[r->own].layout.part, t->out);
}

/* Contribution -> its number among those of others. */
static int32_t other_of(const round *r, int32_t i)
{
    return i - (r->own >= 0 && i > r->own);
}

/* Asks for contributions while slots are free. Slot s is request s. */
static void ask_ahead(exec_transfer *t, const round *r)
{
    const int32_t others = r->n_in - (r->own >= 0);
    const int32_t done = other_of(r, t->folded);
    while (t->asked < others && t->asked < done + t->n_slots) {
        const int32_t i = t->asked + (r->own >= 0 && t->asked >= r->own);
        const int32_t slot = t->asked++ % t->n_slots;
        exec_recv_bytes(t->world, t->slots + slot * r->largest,
                        exec_part_bytes(&r->in[i].layout.part), r->in[i].rank,
                        t->tag, &t->request[slot]);
        t->n_open++;
    }
}

static void start_reducing(exec_transfer *t, const round *r, void *scratch,
                           int64_t room)
{
    const int32_t others = r->n_in - (r->own >= 0);
    const int64_t fit = t->small || r->largest == 0
                            ? others
                            : (room - r->low_bytes) / r->largest;
    t->phase = REDUCING;
    t->folded = t->asked = 0;
    t->low = t->small ? t->small_room : scratch;
    t->slots = t->low + r->low_bytes;
    t->n_slots = (int32_t)(fit < others ? fit : others);
    FS_ASSERT(t->n_slots > 0 || others == 0);
    for (int32_t i = 0; i < t->n_slots; i++) {
        t->slot_full[i] = false;
        t->request[i] = t->world->link->none;
    }
    t->n_request = t->n_slots;
    ask_ahead(t, r);
    post_sends(t, r, t->in);
}

static void start_round(exec_transfer *t, void *scratch, int64_t scratch_bytes)
{
    const round *r = &t->rounds[t->at];
    t->n_request = t->n_open = 0;
    if (r->folds != IR_B)
        start_reducing(t, r, scratch, scratch_bytes);
    else
        start_moving(t, r, t->at ? t->out : t->in);
}

void exec_transfer_start(exec_transfer *t, const void *in, void *out,
                         void *scratch, int64_t scratch_bytes)
{
    FS_ASSERT(t->phase == IDLE);
    t->in = in;
    t->out = out;
    t->at = 0;
    if (t->fills != IR_B)
        exec_fill_neutral(t->fills, t->dtype, out,
                          t->out_bytes / ir_dtype_bytes(t->dtype));
    start_round(t, scratch, scratch_bytes);
}

static void test_requests(exec_transfer *t, bool *moved)
{
    if (t->n_open == 0)
        return;
    const int n =
        t->world->link->poll(t->world, t->n_request, t->request, t->index);
    if (n == 0)
        return;
    *moved = true;
    t->n_open -= n;
    if (t->phase == REDUCING)
        for (int i = 0; i < n; i++)
            if (t->index[i] < t->n_slots)
                t->slot_full[t->index[i]] = true;
}

static void fold_one(exec_transfer *t, const round *r, int32_t i,
                     const exec_part *part, const void *from)
{
    const exec_part *to = &r->in[i].layout.part;
    const turn *own = &r->turn[i];
    const exec_sum sum = {t->dtype, own->first, own->last,
                          (void *)(t->low + own->low_at)};
    if (own->first && own->last)
        exec_part_copy(part, from, to, t->out);
    else if (r->low_bytes > 0)
        exec_part_sum(&sum, part, from, to, t->out);
    else if (own->first)
        exec_part_copy(part, from, to, t->out);
    else
        exec_part_fold(r->folds, t->dtype, part, from, to, t->out);
}

/* Folds in the order of the contributions as far as they are there. */
static void fold_ready(exec_transfer *t, const round *r)
{
    while (t->folded < r->n_in) {
        const int32_t i = t->folded;
        if (i == r->own) {
            fold_one(t, r, i, &r->out[r->own_out].layout.part, t->in);
        } else {
            const int32_t slot = other_of(r, i) % t->n_slots;
            const exec_part flat = {.run =
                                        exec_part_bytes(&r->in[i].layout.part)};
            if (!t->slot_full[slot])
                return;
            t->slot_full[slot] = false;
            fold_one(t, r, i, &flat, t->slots + slot * r->largest);
        }
        t->folded++;
        ask_ahead(t, r);
    }
}

bool exec_transfer_poll(exec_transfer *t, bool *moved)
{
    const round *r = &t->rounds[t->at];
    test_requests(t, moved);
    if (t->phase == REDUCING)
        fold_ready(t, r);
    if (t->n_open > 0 || (t->phase == REDUCING && t->folded < r->n_in))
        return false;
    *moved = true;
    if (++t->at < t->n_rounds) {
        start_round(t, NULL, 0);
        return false;
    }
    t->phase = IDLE;
    return true;
}
