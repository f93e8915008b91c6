/* Messages among stepped ranks. The bytes of one are kept when it is sent, or
 * copied when one of its ends looks, at the latest then; each end sees that it
 * is done when it looks, some looks later. Messages of one sender and tag keep
 * their order. Reductions as MPI's: done for nobody before all have come. */
#include "config.h"

#include "interleave.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_HIDDEN = 3, KEPT_BYTES = 4096, MOST_RANKS = 64 };

typedef struct side {
    bool posted, seen; /* seen done */
    exec_part part;
    void *base;
    char *was; /* what lay there when it was posted */
} side;

typedef struct message {
    int32_t from, to, tag;
    side sender, receiver;
    char *kept; /* its sender is done with it */
    bool copied;
    int32_t ends; /* that have not seen it done, or are still to come */
    struct message *next;
} message;

/* All ranks of a group once. */
typedef struct reduction {
    int32_t posted;
    exec_reduction *part; /* [members] */
    char *result;
    struct reduction *next;
} reduction;

typedef struct group {
    int32_t n, tag;
    int32_t *rank, *begun; /* [n] reductions, of each */
    reduction *all;        /* of the run, in order */
    struct group *next;
} group;

/* What a request points to. */
typedef struct end {
    message *message;
    bool sends;
    group *group; /* or a reduction */
    reduction *reduction;
    int32_t member;
    int32_t hidden; /* looks for which it stays unseen */
} end;

static struct {
    message *waiting; /* for an end, in the order of posting */
    int64_t flying;   /* ends that need only be looked at */
    int64_t flying_of[MOST_RANKS];
    group *groups;
} hub;

bool interleave_in_flight(void)
{
    return hub.flying > 0;
}

bool interleave_awaits_look(int32_t rank)
{
    return hub.flying_of[rank] > 0;
}

/* Of transfers alone: what else is sent, a rank need not look at soon. */
static void fly(const message *m, int32_t rank, int64_t ends)
{
    FS_ASSERT(rank < MOST_RANKS);
    hub.flying += ends;
    if (m && m->tag < EXEC_TAG_LOSS)
        hub.flying_of[rank] += ends;
}

static void *zeroes(size_t n, size_t size)
{
    void *at = calloc(n ? n : 1, size);
    FS_ASSERT(at);
    return at;
}

static void free_group(group *g)
{
    for (reduction *r = g->all, *next; r; r = next) {
        next = r->next;
        free(r->part);
        free(r->result);
        free(r);
    }
    free(g->rank);
    free(g->begun);
    free(g);
}

void interleave_link_end(void)
{
    if (hub.waiting)
        interleave_fail("a message from rank %d to %d, tag %d, is left behind",
                        (int)hub.waiting->from, (int)hub.waiting->to,
                        (int)hub.waiting->tag);
    if (hub.flying)
        interleave_fail("messages are left behind");
    for (group *g = hub.groups, *next; g; g = next) {
        next = g->next;
        free_group(g);
    }
    memset(&hub, 0, sizeof hub);
}

static end *make_end(exec_request *request)
{
    end *e = zeroes(1, sizeof *e);
    e->hidden = interleave_choose(MOST_HIDDEN + 1);
    request->post = (struct exec_post *)(void *)e;
    return e;
}

/* ---- messages ---- */

static side *side_of(message *m, bool sends)
{
    return sends ? &m->sender : &m->receiver;
}

static bool fits(message *m, int32_t from, int32_t to, int32_t tag, bool sends)
{
    return !side_of(m, sends)->posted && m->from == from && m->to == to &&
           m->tag == tag;
}

/* The oldest that lacks this end, out of the list; or a new one in it. */
static message *find_message(int32_t from, int32_t to, int32_t tag, bool sends)
{
    message **at = &hub.waiting, *m;
    while (*at && !fits(*at, from, to, tag, sends))
        at = &(*at)->next;
    m = *at;
    if (m && m->next && fits(m->next, from, to, tag, sends) &&
        interleave_plants(INTERLEAVE_LAST_FIRST)) {
        at = &m->next;
        m = *at;
    }
    if (m) {
        *at = m->next;
        fly(m, m->from, !m->kept);
        fly(m, m->to, 1);
        return m;
    }
    m = *at = zeroes(1, sizeof *m);
    *m = (message){.from = from, .to = to, .tag = tag, .ends = 2};
    return m;
}

static exec_part flat(const exec_part *part)
{
    return (exec_part){.run = exec_part_bytes(part)};
}

/* As what is small is sent at once. */
static void keep(message *m)
{
    const exec_part to = flat(&m->sender.part);
    if (to.run > KEPT_BYTES || !interleave_once_in(3))
        return;
    m->kept = zeroes(1, (size_t)to.run);
    exec_part_copy(&m->sender.part, m->sender.base, &to, m->kept);
    fly(m, m->from, 1);
}

static char *image_of(const side *s)
{
    const exec_part to = flat(&s->part);
    char *image = zeroes(1, (size_t)to.run);
    exec_part_copy(&s->part, s->base, &to, image);
    return image;
}

/* Until its end is seen done, nobody but the link may touch it. */
static void hold_to_rule(const message *m, const side *s, const char *what)
{
    char *is = image_of(s);
    if (memcmp(is, s->was, (size_t)exec_part_bytes(&s->part)) != 0)
        interleave_fail("from rank %d to %d, tag %d: %s", (int)m->from,
                        (int)m->to, (int)m->tag, what);
    free(is);
}

static void copy(message *m)
{
    const exec_part kept = flat(&m->sender.part);
    hold_to_rule(m, &m->receiver, "something else was put where it arrives");
    if (!m->sender.seen)
        hold_to_rule(m, &m->sender, "it was changed while it was sent");
    exec_part_copy(m->kept ? &kept : &m->sender.part,
                   m->kept ? m->kept : m->sender.base, &m->receiver.part,
                   m->receiver.base);
    m->copied = true;
    interleave_work();
}

static void post(message *m, bool sends, const exec_layout *layout, void *base,
                 exec_request *request)
{
    end *e = make_end(request);
    e->message = m;
    e->sends = sends;
    *side_of(m, sends) =
        (side){.posted = true, .part = layout->part, .base = base};
    side_of(m, sends)->was = image_of(side_of(m, sends));
    if (sends && !m->receiver.posted)
        keep(m);
    interleave_work();
}

static void send(exec_world *world, const void *base, const exec_layout *layout,
                 int32_t peer, int tag, exec_request *request)
{
    interleave_point();
    post(find_message(world->rank, peer, tag, true), true, layout,
         (void *)(uintptr_t)base, request);
}

static void recv(exec_world *world, void *base, const exec_layout *layout,
                 int32_t peer, int tag, exec_request *request)
{
    interleave_point();
    post(find_message(peer, world->rank, tag, false), false, layout, base,
         request);
}

static bool look_at_message(end *e)
{
    message *m = e->message;
    const bool both = m->sender.posted && m->receiver.posted;
    if (!both && !(e->sends && m->kept))
        return false;
    const bool seen = e->hidden-- <= 0;
    const bool early = e->sends && interleave_plants(INTERLEAVE_EARLY_ENDS);
    if (both && !m->copied && !early && (seen || interleave_once_in(2)))
        copy(m);
    if (seen && e->sends && !early)
        hold_to_rule(m, &m->sender, "it was changed while it was sent");
    side_of(m, e->sends)->seen |= seen;
    return seen;
}

static void drop_message(message *m)
{
    if (--m->ends > 0)
        return;
    free(m->sender.was);
    free(m->receiver.was);
    free(m->kept);
    free(m);
}

/* ---- as MPI reduces ---- */

static bool reduces(ir_dtype dtype)
{
    return exec_can_fold(dtype);
}

static bool is_group(const group *g, int tag, int32_t n, const int32_t *rank)
{
    return g->tag == tag && g->n == n &&
           memcmp(g->rank, rank, (size_t)n * sizeof *rank) == 0;
}

static struct exec_group *join(exec_world *world, int tag, int32_t n,
                               const int32_t *rank)
{
    group *g = hub.groups;
    (void)world;
    while (g && !is_group(g, tag, n, rank))
        g = g->next;
    if (!g) {
        g = zeroes(1, sizeof *g);
        *g = (group){.n = n, .tag = tag, .next = hub.groups};
        g->rank = zeroes((size_t)n, sizeof *rank);
        g->begun = zeroes((size_t)n, sizeof *rank);
        memcpy(g->rank, rank, (size_t)n * sizeof *rank);
        hub.groups = g;
    }
    interleave_point();
    return (struct exec_group *)(void *)g;
}

static reduction *next_reduction(group *g, int32_t member)
{
    reduction **at = &g->all;
    for (int32_t i = 0; i < g->begun[member]; i++)
        at = &(*at)->next;
    g->begun[member]++;
    if (!*at) {
        *at = zeroes(1, sizeof **at);
        (*at)->part = zeroes((size_t)g->n, sizeof *(*at)->part);
    }
    return *at;
}

static void all_reduce(exec_world *world, const struct exec_group *of,
                       const exec_reduction *part, exec_request *request)
{
    end *e = make_end(request);
    e->group = (group *)(void *)(uintptr_t)of;
    interleave_point();
    while (e->group->rank[e->member] != world->rank)
        e->member++;
    e->reduction = next_reduction(e->group, e->member);
    e->reduction->part[e->member] = *part;
    const int32_t n = e->group->n;
    const bool all_there = ++e->reduction->posted == n;
    for (int32_t i = 0; i < n && all_there; i++)
        fly(NULL, e->group->rank[i], 1);
    interleave_work();
}

static void reduce(reduction *r, int32_t n)
{
    const exec_reduction *p = r->part;
    const size_t bytes = (size_t)(p->count * ir_dtype_bytes(p->dtype));
    r->result = zeroes(1, bytes);
    memcpy(r->result, p[0].in, bytes);
    for (int32_t i = 1; i < n; i++)
        exec_fold(p->kind, p->dtype, r->result, p[i].in, p->count);
}

static bool look_at_reduction(end *e)
{
    reduction *r = e->reduction;
    const exec_reduction *p = &r->part[e->member];
    if (r->posted < e->group->n)
        return false;
    if (!r->result)
        reduce(r, e->group->n);
    if (e->hidden-- > 0)
        return false;
    memcpy(p->out, r->result, (size_t)(p->count * ir_dtype_bytes(p->dtype)));
    return true;
}

/* ---- looking ---- */

static int poll(exec_world *world, int n, exec_request *request, int *index)
{
    int done = 0;
    interleave_point();
    for (int i = 0; i < n; i++) {
        end *e = (end *)(void *)request[i].post;
        if (!e || !(e->message ? look_at_message(e) : look_at_reduction(e)))
            continue;
        fly(e->message, world->rank, -1);
        if (e->message)
            drop_message(e->message);
        free(e);
        interleave_work();
        request[i].post = NULL;
        index[done++] = i;
    }
    return done;
}

void interleave_link(exec_world *world)
{
    static exec_link link;
    link = exec_link_local;
    link.send = send;
    link.recv = recv;
    link.poll = poll;
    link.reduces = reduces;
    link.join = join;
    link.all_reduce = all_reduce;
    world->link = &link;
}
