#include "config.h"
#include "exec/transfer.h"

#include "base/clock.h"
#include "exec/messages.h"

#include <stdlib.h>
#include <string.h>

enum {
    SMALL_BYTES = PLAN_FEW_BYTES,
    /* A part of an all-reduce is on its way while the one before it is folded.
     * By TCP 16 MB take 16 ms of the ranks' time in chunks of 256 KiB, 11 ms in
     * chunks of 1 MiB, 10.5 ms in chunks of 2; more than so many of them make
     * polling slow. */
    CHUNK_BYTES = 1 << 20,
    MOST_CHUNKS = 64
};

struct exec_transfer {
    exec_world *world;
    ir_dtype dtype;
    int tag;
    ir_sbp_kind folds; /* IR_B: nothing */
    ir_sbp_kind fills; /* whose neutral element nobody gives; IR_B: none */
    int64_t out_bytes; /* of one that is alone */
    exec_messages m;
    bool small; /* contributions have receive buffers of their own */
    char *small_room;
    int32_t n_members; /* who reduce as MPI does; 0: by messages */
    int32_t *member;   /* [n_members] ranks */
    struct exec_group *group;
    int32_t n_flat; /* of them MPI reduces one after the other */
    const exec_flat *flat;

    bool busy;
    const char *in;
    char *out;
    char *slots, *low;
    int32_t n_slots, slots_asked, slots_done;
    int32_t asked, done;   /* takes */
    int32_t posted, given; /* sends; complete but for later ones */
    bool *arrived, *sent;
    int32_t n_open; /* requests in flight; of[] tells whose they are: take i,
                       or send -1 - i */
    exec_request *request;
    int32_t *of;
    int *index;
    /* Others wait for messages that are under way: since when, and when they
     * are rung again. */
    int64_t unsure_ns, again_ns;
};

/* ---- preparing ---- */

/* What goes to a position, or comes from it: boxes of some of the parts. */
typedef struct dealt {
    int32_t part;
    ir_piece box;
} dealt;

typedef struct deal {
    int32_t position;
    FS_VEC(dealt) of;
} deal;
typedef FS_VEC(deal) deals;

/* Parts mostly deal with the same positions: the i-th with the i-th. */
static deal *deal_with(deals *all, int32_t i, int32_t position, fs_arena *arena)
{
    if (i < all->n && all->at[i].position == position)
        return &all->at[i];
    for (int32_t k = 0; k < all->n; k++)
        if (all->at[k].position == position)
            return &all->at[k];
    fs_push(arena, all, (deal){.position = position});
    return &all->at[all->n - 1];
}

static int by_position(const void *a, const void *b)
{
    const deal *x = a, *y = b;
    return (x->position > y->position) - (x->position < y->position);
}

static deals list_deals(const exec_transfer_spec *s, bool gives,
                        fs_arena *arena)
{
    deals all = {0};
    for (int32_t k = 0; k < s->n_parts; k++) {
        plan_shares shares = {0};
        if (gives)
            plan_exchange_gives(&s->parts[k].exchange, s->gives_at, arena,
                                &shares);
        else
            plan_exchange_takes(&s->parts[k].exchange, s->takes_at, arena,
                                &shares);
        for (int32_t i = 0; i < shares.n; i++) {
            deal *d = deal_with(&all, i, shares.at[i].position, arena);
            fs_push(arena, &d->of, ((dealt){k, shares.at[i].box}));
        }
    }
    if (s->n_parts > 1 && all.n > 1)
        qsort(all.at, (size_t)all.n, sizeof *all.at, by_position);
    return all;
}

static ir_piece own_piece(const ir_shape *shape, const ir_nd_sbp *sbp,
                          const ir_mesh *mesh, int32_t position)
{
    int32_t at[IR_MAX_MESH];
    ir_mesh_coords(mesh, position, at);
    return ir_piece_of(shape, sbp, mesh, at);
}

/* What this rank holds of a part before, or after. */
static ir_piece held_piece(const exec_transfer_spec *s, int32_t part,
                           bool gives)
{
    const plan_exchange *x = &s->parts[part].exchange;
    return gives ? own_piece(&x->shape, &x->from, &x->from_mesh, s->gives_at)
                 : own_piece(&x->shape, &x->to, &x->to_mesh, s->takes_at);
}

/* Its boxes in `in`, when this rank gives them, or in `out`. */
static exec_part part_of_deal(const exec_transfer_spec *s, const deal *d,
                              bool gives, fs_arena *arena)
{
    exec_part part = {0};
    for (int32_t i = d->of.n - 1; i >= 0; i--) {
        const dealt *box = &d->of.at[i];
        const exec_transfer_part *of = &s->parts[box->part];
        const ir_piece holder = held_piece(s, box->part, gives);
        const exec_part *next =
            i + 1 < d->of.n ? fs_memdup(arena, &part, sizeof part) : NULL;
        part = exec_part_of(&box->box, &holder, ir_dtype_bytes(s->dtype));
        part.offset += gives ? of->in_at : of->out_at;
        part.next = next;
    }
    return part;
}

static exec_layout layout_of(exec_world *world, exec_part part, int32_t rank)
{
    exec_layout layout = {.part = part};
    if (rank != world->rank && world->link)
        world->link->prepare(world, &layout);
    return layout;
}

static bool same_box(const ir_piece *a, const ir_piece *b)
{
    return ir_shape_equal(&a->shape, &b->shape) &&
           memcmp(a->offset, b->offset,
                  (size_t)a->shape.rank * sizeof *a->offset) == 0;
}

static bool same_boxes(const deal *a, const deal *b)
{
    bool same = a->of.n == b->of.n;
    for (int32_t i = 0; same && i < a->of.n; i++)
        same = a->of.at[i].part == b->of.at[i].part &&
               same_box(&a->of.at[i].box, &b->of.at[i].box);
    return same;
}

/* Which contributions go to the same boxes as which. */
static void list_boxes(exec_transfer *t, const deals *all)
{
    const bool wide = t->folds == IR_PSUM && ir_dtype_bytes(t->dtype) == 2;
    for (int32_t i = 0; i < all->n; i++) {
        exec_take *take = &t->m.takes.at[i];
        take->first = take->last = true;
        take->low_at = t->m.low_bytes;
        for (int32_t k = 0; k < i && t->folds != IR_B; k++) {
            if (!same_boxes(&all->at[k], &all->at[i]))
                continue;
            t->m.takes.at[k].last = take->first = false;
            take->low_at = t->m.takes.at[k].low_at;
        }
        if (wide && take->first)
            t->m.low_bytes += exec_part_bytes(&take->layout.part);
    }
}

static void list_takes(exec_transfer *t, const exec_transfer_spec *s,
                       fs_arena *arena)
{
    const deals all = list_deals(s, false, arena);
    int32_t own =
        0; /* the first when nothing is folded: nobody is waited for */
    for (int32_t i = 0; i < all.n && t->folds == IR_B; i++)
        if (s->first_giver + all.at[i].position == t->world->rank)
            own = i;
    for (int32_t i = 0; i < all.n; i++) {
        const deal *d = &all.at[(own + i) % all.n];
        exec_take take = {.rank = s->first_giver + d->position,
                          .folds = t->folds != IR_B};
        take.layout =
            layout_of(t->world, part_of_deal(s, d, false, arena), take.rank);
        const int64_t bytes = exec_part_bytes(&take.layout.part);
        t->m.largest = bytes > t->m.largest ? bytes : t->m.largest;
        fs_push(arena, &t->m.takes, take);
    }
    list_boxes(t, &all);
}

/* What this rank gives to others; to itself where its own take says so. */
static void list_gives(exec_transfer *t, const exec_transfer_spec *s,
                       fs_arena *arena)
{
    const deals all = list_deals(s, true, arena);
    int32_t own = -1;
    for (int32_t i = 0; i < all.n; i++)
        if (s->first_taker + all.at[i].position == t->world->rank)
            own = i;
    for (int32_t k = 1; k <= all.n; k++) { /* not all to the first */
        const deal *d = &all.at[(own + k) % all.n];
        exec_send send = {.rank = s->first_taker + d->position};
        send.layout =
            layout_of(t->world, part_of_deal(s, d, true, arena), send.rank);
        if (send.rank != t->world->rank)
            fs_push(arena, &t->m.sends, send);
        else
            for (int32_t i = 0; i < t->m.takes.n; i++)
                if (t->m.takes.at[i].rank == send.rank)
                    t->m.takes.at[i].own = send.layout.part;
    }
}

/* Everyone gives and takes directly. */
static void make_direct(exec_transfer *t, const exec_transfer_spec *s,
                        fs_arena *arena)
{
    if (s->takes_at >= 0)
        list_takes(t, s, arena);
    if (s->gives_at >= 0)
        list_gives(t, s, arena);
}

/* Do all that give to this rank leave it with the same, and hold the same box?
 * Then it is an all-reduce among them. */
static bool leaves_same(const plan_exchange *x)
{
    if (x->moves || plan_exchange_folds(x) == IR_B)
        return false;
    for (int32_t a = 0; a < x->from_mesh.n; a++)
        if (!ir_sbp_equal(x->from.at[a], x->to.at[a]) &&
            (!ir_sbp_is_partial(x->from.at[a]) || x->to.at[a].kind != IR_B))
            return false;
    return true;
}

/* What an all-reduce is of, and among whom. */
typedef struct reduction {
    plan_shares members;
    exec_flat *flat; /* [parts] */
    int64_t count;
} reduction;

static bool is_all_reduce(const exec_transfer_spec *s, fs_arena *arena,
                          reduction *out)
{
    *out = (reduction){.flat = fs_new(arena, exec_flat, s->n_parts)};
    for (int32_t k = 0; k < s->n_parts; k++) {
        const exec_transfer_part *part = &s->parts[k];
        if (!leaves_same(&part->exchange))
            return false;
        const ir_piece mine = held_piece(s, k, false);
        const int64_t begin = out->count;
        out->count += ir_shape_count(&mine.shape);
        out->flat[k] =
            (exec_flat){{begin, out->count}, part->in_at, part->out_at};
        if (out->count > 0 && out->members.n == 0)
            plan_exchange_takes(&part->exchange, s->takes_at, arena,
                                &out->members);
    }
    return out->members.n > 1 && out->count >= out->members.n &&
           out->count * ir_dtype_bytes(s->dtype) > SMALL_BYTES;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* No message is larger than a member's part: what scratch is reserved for. */
static int64_t chunk_of(int64_t bytes, int64_t count, int32_t n,
                        int64_t element)
{
    int64_t chunk = (bytes > 0 ? bytes : CHUNK_BYTES) / element;
    if (chunk <= count / MOST_CHUNKS)
        chunk = count / MOST_CHUNKS + 1;
    return least(chunk, (count + n - 1) / n);
}

static void make_all_reduce(exec_transfer *t, const exec_transfer_spec *s,
                            const reduction *r, fs_arena *arena)
{
    static exec_list_fn *const list[] = {
#define PLAN_ALGORITHM(name, where, runs) EXEC_LIST_##runs(name)
#define EXEC_LIST_RUNS(name) exec_list_##name,
#define EXEC_LIST_SAID(name) exec_list_direct,
#include "plan/algorithms.def"
#undef EXEC_LIST_RUNS
#undef EXEC_LIST_SAID
#undef PLAN_ALGORITHM
    };
    const int32_t n = r->members.n;
    const int64_t element = ir_dtype_bytes(t->dtype);
    int32_t *number = fs_new(arena, int32_t, n);
    int32_t *rank = fs_new(arena, int32_t, n);
    exec_members all = {.n = n, .at = number};
    for (int32_t i = 0; i < n; i++) {
        number[i] = i;
        rank[i] = s->first_taker + r->members.at[i].position;
        all.me = r->members.at[i].position == s->takes_at ? i : all.me;
    }
    exec_listing l = {.world = t->world,
                      .arena = arena,
                      .rank = rank,
                      .n_flat = s->n_parts,
                      .flat = r->flat,
                      .element_bytes = element,
                      .chunk = chunk_of(s->chunk_bytes, r->count, n, element),
                      .wide = t->folds == IR_PSUM && element == 2,
                      .out = &t->m};
    const plan_algorithm algorithm =
        exec_algorithm_may(s->algorithm, t->world, t->dtype) ? s->algorithm
                                                             : PLAN_BY_direct;
    list[algorithm](&l, all, (exec_span){0, r->count});
    if (algorithm == PLAN_BY_mpi) {
        t->n_members = n;
        t->member = rank;
        t->n_flat = s->n_parts;
        t->flat = r->flat;
    }
}

static bool same_part(const exec_part *a, const exec_part *b)
{
    for (; a && b; a = a->next, b = b->next)
        if (a->n != 0 || b->n != 0 || a->offset != b->offset ||
            a->run != b->run)
            return false;
    return !a && !b;
}

/* What this rank gives first of all, and a contribution to the same bytes
 * behind it, are read once and written once. */
static void join_takes(exec_transfer *t)
{
    for (int32_t i = 0; i + 1 < t->m.takes.n && t->m.low_bytes == 0; i++) {
        exec_take *take = &t->m.takes.at[i], *next = take + 1;
        take->joins = take->rank == t->world->rank && take->folds &&
                      take->first && next->folds && !next->first &&
                      next->rank != t->world->rank &&
                      same_part(&next->layout.part, &take->layout.part);
    }
}

/* MPI counts in ints. */
enum { MOST_COUNT = 1 << 30 };

/* Calls of MPI that reduce all of it. */
static int32_t count_calls(const exec_transfer *t)
{
    int64_t n = 0;
    for (int32_t k = 0; k < t->n_flat; k++)
        n += 1 + (t->flat[k].span.end - t->flat[k].span.begin) / MOST_COUNT;
    return (int32_t)n;
}

/* Room for what is in flight, and of a few bytes for all contributions. */
static void make_room(exec_transfer *t, fs_arena *arena)
{
    const int32_t n = t->m.takes.n + t->m.sends.n + 1 + count_calls(t);
    t->arrived = fs_new(arena, bool, t->m.takes.n + 1);
    t->sent = fs_new(arena, bool, t->m.sends.n + 1);
    t->request = fs_new(arena, exec_request, n);
    t->of = fs_new(arena, int32_t, n);
    t->index = fs_new(arena, int, n);
    t->small = t->folds != IR_B && t->m.largest <= SMALL_BYTES;
    if (t->small)
        t->small_room =
            fs_alloc(arena, 1,
                     (size_t)(t->m.low_bytes +
                              ((int64_t)t->m.takes.n + 1) * t->m.largest));
}

static void make_messages(exec_transfer *t, const exec_transfer_spec *s,
                          fs_arena *arena)
{
    reduction r;
    if (s->takes_at >= 0 && is_all_reduce(s, arena, &r))
        make_all_reduce(t, s, &r, arena);
    else
        make_direct(t, s, arena);
}

fs_status exec_transfer_make(exec_world *world, const exec_transfer_spec *s,
                             fs_arena *arena, fs_err *err, exec_transfer **out)
{
    exec_transfer *t = fs_new(arena, exec_transfer, 1);
    const bool one = s->n_parts == 0;
    const exec_transfer_part alone = {.exchange = one ? *s->exchange
                                                      : s->parts[0].exchange};
    exec_transfer_spec all = *s;
    if (one) {
        all.n_parts = 1;
        all.parts = &alone;
    }
    t->world = world;
    t->dtype = s->dtype;
    t->tag = s->tag;
    t->folds = plan_exchange_folds(&all.parts[0].exchange);
    t->fills = plan_exchange_fills(&all.parts[0].exchange);
    FS_ASSERT(one || t->fills == IR_B);
    if (t->folds != IR_B && !exec_can_fold(s->dtype))
        return fs_fail(err, FS_FAULT, "reducing %s is not supported",
                       ir_dtype_name(s->dtype));
    make_messages(t, &all, arena);
    if (s->takes_at >= 0) {
        const ir_piece mine = held_piece(&all, 0, false);
        t->out_bytes = ir_shape_count(&mine.shape) * ir_dtype_bytes(s->dtype);
    }
    join_takes(t);
    make_room(t, arena);
    *out = t;
    return FS_OK;
}

void exec_transfer_join(exec_transfer *t)
{
    if (t->n_members)
        t->group =
            t->world->link->join(t->world, t->tag, t->n_members, t->member);
}

static void release_layout(exec_transfer *t, int32_t rank, exec_layout *layout)
{
    if (rank != t->world->rank && t->world->link)
        t->world->link->release(layout);
}

void exec_transfer_release(exec_transfer *t)
{
    for (int32_t i = 0; i < t->m.takes.n; i++)
        release_layout(t, t->m.takes.at[i].rank, &t->m.takes.at[i].layout);
    for (int32_t i = 0; i < t->m.sends.n; i++)
        release_layout(t, t->m.sends.at[i].rank, &t->m.sends.at[i].layout);
}

/* Is it received into scratch? The first contribution to a box lies there as it
 * comes, but for halves of sums. */
static bool waits_in_slot(const exec_transfer *t, const exec_take *take)
{
    return take->folds && take->rank != t->world->rank &&
           !(take->first && t->m.low_bytes == 0);
}

static int32_t count_folds(const exec_transfer *t)
{
    int32_t n = 0;
    for (int32_t i = 0; i < t->m.takes.n; i++)
        n += waits_in_slot(t, &t->m.takes.at[i]);
    return n;
}

int64_t exec_transfer_scratch(const exec_transfer *t)
{
    return !t->small && count_folds(t) > 0 ? t->m.low_bytes + t->m.largest : 0;
}

/* ---- running ---- */

static exec_request *next_request(exec_transfer *t, int32_t of)
{
    t->of[t->n_open] = of;
    return &t->request[t->n_open++];
}

/* Sends what is there to be sent. */
static bool post_sends(exec_transfer *t)
{
    const int32_t before = t->posted;
    while (t->posted < t->m.sends.n) {
        const exec_send *send = &t->m.sends.at[t->posted];
        if (send->after > t->done)
            break;
        exec_link_send(t->world, send->made ? t->out : t->in, &send->layout,
                       send->rank, t->tag, next_request(t, -1 - t->posted));
        t->posted++;
    }
    return t->posted > before;
}

static char *slot_of(const exec_transfer *t, int32_t i)
{
    return t->slots + (i % t->n_slots) * t->m.largest;
}

/* Asks for what there is room for; false when there is not. */
static bool ask(exec_transfer *t, int32_t i)
{
    const exec_take *take = &t->m.takes.at[i];
    if (take->rank == t->world->rank)
        return true;
    if (!waits_in_slot(t, take)) {
        if (take->after > t->given)
            return false;
        exec_link_recv(t->world, t->out, &take->layout, take->rank, t->tag,
                       next_request(t, i));
        return true;
    }
    if (t->slots_asked - t->slots_done == t->n_slots)
        return false;
    exec_recv_bytes(t->world, slot_of(t, t->slots_asked++),
                    exec_part_bytes(&take->layout.part), take->rank, t->tag,
                    next_request(t, i));
    return true;
}

static bool ask_ahead(exec_transfer *t)
{
    const int32_t before = t->asked;
    while (t->asked < t->m.takes.n && ask(t, t->asked))
        t->asked++;
    return t->asked > before;
}

static void fold(exec_transfer *t, const exec_take *take, const exec_part *part,
                 const void *from)
{
    const exec_part *to = &take->layout.part;
    const exec_sum sum = {t->dtype, take->first, take->last,
                          (void *)(t->low + take->low_at)};
    if (!take->folds || (take->first && take->last))
        exec_part_copy(part, from, to, t->out);
    else if (t->m.low_bytes > 0)
        exec_part_sum(&sum, part, from, to, t->out);
    else if (take->first)
        exec_part_copy(part, from, to, t->out);
    else
        exec_part_fold(t->folds, t->dtype, part, from, to, t->out);
}

static bool is_there(const exec_transfer *t, int32_t i)
{
    const exec_take *take = &t->m.takes.at[i];
    return i < t->asked && take->after <= t->given &&
           (t->arrived[i] || take->rank == t->world->rank);
}

static void finish_two(exec_transfer *t, const exec_take *own)
{
    const exec_part *to = &own->layout.part;
    const exec_part flat = {.run = exec_part_bytes(to)};
    exec_part_fold_two(t->folds, t->dtype, (exec_parted){&own->own, t->in},
                       (exec_parted){&flat, slot_of(t, t->slots_done++)}, to,
                       t->out);
}

static void finish_one(exec_transfer *t, const exec_take *take)
{
    const exec_part flat = {.run = exec_part_bytes(&take->layout.part)};
    if (take->rank == t->world->rank)
        fold(t, take, &take->own, t->in);
    else if (waits_in_slot(t, take))
        fold(t, take, &flat, slot_of(t, t->slots_done++));
}

/* Works off takes in their order as far as they are there. */
static bool finish_takes(exec_transfer *t)
{
    const int32_t before = t->done;
    while (t->done < t->asked) {
        const exec_take *take = &t->m.takes.at[t->done];
        const int32_t last = t->done + take->joins;
        if (!is_there(t, t->done) || !is_there(t, last))
            break;
        if (take->joins)
            finish_two(t, take);
        else
            finish_one(t, take);
        t->done = last + 1;
    }
    return t->done > before;
}

static void go_on(exec_transfer *t)
{
    bool more = true;
    while (more) {
        more = ask_ahead(t);
        more |= post_sends(t);
        more |= finish_takes(t);
    }
}

/* Requests that are done make place. */
static void drop_done(exec_transfer *t)
{
    int32_t n = 0;
    for (int32_t i = 0; i < t->n_open; i++) {
        if (exec_is_none(t->world, &t->request[i]))
            continue;
        t->request[n] = t->request[i];
        t->of[n++] = t->of[i];
    }
    t->n_open = n;
}

/* The other end of a request, and what has happened there when it goes on. */
static int32_t peer_of(const exec_transfer *t, int32_t of)
{
    return of >= 0 ? t->m.takes.at[of].rank : t->m.sends.at[-1 - of].rank;
}

static exec_cause cause_here(int32_t of)
{
    return of >= 0 ? EXEC_TOOK : EXEC_SENT;
}

static exec_cause cause_there(int32_t of)
{
    return of >= 0 ? EXEC_SENT : EXEC_TOOK;
}

static bool is_awaited(const exec_transfer *t, int32_t of)
{
    const exec_bell *bell = exec_bell_of(t->world, peer_of(t, of));
    return bell && exec_bell_awaits(bell, cause_here(of),
                                    exec_bell_bit(t->world->rank));
}

/* MPI may have answered a message in this look, of which it does not tell, and
 * who sleeps has to go on with it: a large message is sent in parts. Mostly
 * there is nobody who sleeps so. Or it waits for another message, so that it is
 * called more and more seldom unless something moves. */
static void ring_those_who_wait(exec_transfer *t)
{
    enum { LEAST_NS = 20000, MOST_NS = 10000000, SHARE = 8 };
    int32_t first = 0;
    while (first < t->n_open && !is_awaited(t, t->of[first]))
        first++;
    if (first == t->n_open)
        return;
    const int64_t now = fs_now_ns();
    if (t->unsure_ns == 0)
        t->unsure_ns = now;
    if (now < t->again_ns)
        return;
    const int64_t pause_ns = least((now - t->unsure_ns) / SHARE, MOST_NS);
    t->again_ns = now + (pause_ns > LEAST_NS ? pause_ns : LEAST_NS);
    for (int32_t i = first; i < t->n_open; i++)
        exec_ring(t->world, peer_of(t, t->of[i]), cause_here(t->of[i]));
}

bool exec_transfer_wants(const exec_transfer *t, exec_wants *wants)
{
    bool called = !t->group;
    for (int32_t i = 0; i < t->n_open && !t->group; i++) {
        const int32_t peer = peer_of(t, t->of[i]);
        wants->from[cause_there(t->of[i])] |= exec_bell_bit(peer);
        called &= exec_bell_of(t->world, peer) != NULL;
    }
    return called;
}

/* Of a message that goes in parts MPI tells when all have gone; a look that
 * takes longer than one which finds nothing (well under a microsecond) did work
 * on one. */
static void test_requests(exec_transfer *t, bool *moved)
{
    enum { QUIET_NS = 2000 };
    if (t->n_open == 0)
        return;
    const int64_t begin = fs_now_ns();
    const int n =
        t->world->link->poll(t->world, t->n_open, t->request, t->index);
    if (n == 0 && fs_now_ns() - begin <= QUIET_NS)
        return;
    *moved = true;
    t->unsure_ns = t->again_ns = 0;
    for (int i = 0; i < n; i++) {
        const int32_t of = t->of[t->index[i]];
        *(of >= 0 ? &t->arrived[of] : &t->sent[-1 - of]) = true;
        if (!t->group)
            exec_ring(t->world, peer_of(t, of), cause_here(of));
    }
    drop_done(t);
    while (t->given < t->posted && t->sent[t->given])
        t->given++;
}

/* MPI reduces all of a tensor; its requests count as the take and the send that
 * there are not. */
static void reduce_as_mpi(exec_transfer *t, const exec_flat *flat)
{
    const int64_t element = ir_dtype_bytes(t->dtype);
    const int64_t count = flat->span.end - flat->span.begin;
    for (int64_t at = 0; at < count; at += MOST_COUNT) {
        const exec_reduction r = {.kind = t->folds,
                                  .dtype = t->dtype,
                                  .in = t->in + flat->in_at + at * element,
                                  .out = t->out + flat->out_at + at * element,
                                  .count = least(MOST_COUNT, count - at)};
        t->world->link->all_reduce(t->world, t->group, &r, next_request(t, 0));
    }
}

void exec_transfer_start(exec_transfer *t, const void *in, void *out,
                         void *scratch, int64_t scratch_bytes)
{
    const int32_t folds = count_folds(t);
    const int64_t fit = t->small || t->m.largest == 0
                            ? folds
                            : (scratch_bytes - t->m.low_bytes) / t->m.largest;
    FS_ASSERT(!t->busy && (t->group || !t->n_members));
    t->busy = true;
    t->in = in;
    t->out = out;
    t->low = t->small ? t->small_room : scratch;
    t->slots = t->low + t->m.low_bytes;
    t->n_slots = (int32_t)least(fit, folds);
    FS_ASSERT(t->n_slots > 0 || folds == 0);
    t->slots_asked = t->slots_done = t->n_open = 0;
    t->asked = t->done = t->posted = t->given = 0;
    t->unsure_ns = t->again_ns = 0;
    memset(t->arrived, 0, (size_t)t->m.takes.n);
    memset(t->sent, 0, (size_t)t->m.sends.n);
    if (t->fills != IR_B)
        exec_fill_neutral(t->fills, t->dtype, out,
                          t->out_bytes / ir_dtype_bytes(t->dtype));
    for (int32_t k = 0; k < t->n_flat; k++)
        reduce_as_mpi(t, &t->flat[k]);
    ask_ahead(t);
    post_sends(t);
}

bool exec_transfer_poll(exec_transfer *t, bool *moved)
{
    test_requests(t, moved);
    go_on(t);
    if (t->n_open > 0 || t->done < t->m.takes.n || t->posted < t->m.sends.n) {
        if (t->world->bells && !t->group)
            ring_those_who_wait(t);
        return false;
    }
    *moved = true;
    t->busy = false;
    return true;
}
