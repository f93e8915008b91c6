/* All-reduces as lists of messages. An algorithm says which spans go from whom
 * to whom; what waits for what follows from the spans. */
#include "config.h"
#include "exec/messages.h"

/* Only who has all terms of a sum of 16-bit floats rounds once. */
bool exec_algorithm_may(plan_algorithm algorithm, const exec_world *world,
                        ir_dtype dtype)
{
    if (algorithm == PLAN_BY_mpi)
        return world->link && world->link->reduces &&
               world->link->reduces(dtype);
    return algorithm == PLAN_BY_direct || ir_dtype_bytes(dtype) != 2;
}

/* ---- messages ---- */

static int64_t length_of(exec_span s)
{
    return s.end - s.begin;
}

/* What of the span lies in one of the tensors. */
static exec_span within(const exec_flat *flat, exec_span s)
{
    return (exec_span){s.begin > flat->span.begin ? s.begin : flat->span.begin,
                       s.end < flat->span.end ? s.end : flat->span.end};
}

/* In `out` when it is `made`, else in `in`. */
static exec_part part_in(const exec_listing *l, const exec_flat *flat,
                         exec_span s, bool made)
{
    return (exec_part){.offset =
                           (made ? flat->out_at : flat->in_at) +
                           (s.begin - flat->span.begin) * l->element_bytes,
                       .run = length_of(s) * l->element_bytes};
}

static exec_layout layout_of(exec_listing *l, exec_span s, bool made)
{
    exec_layout layout = {0};
    for (int32_t i = l->n_flat - 1; i >= 0; i--) {
        const exec_span in = within(&l->flat[i], s);
        if (length_of(in) <= 0)
            continue;
        const exec_part *next =
            layout.part.run > 0
                ? fs_memdup(l->arena, &layout.part, sizeof layout.part)
                : NULL;
        layout.part = part_in(l, &l->flat[i], in, made);
        layout.part.next = next;
    }
    return layout;
}

static bool overlap(exec_span a, exec_span b)
{
    return a.begin < b.end && b.begin < a.end;
}

/* Takes into the span so far: one more than the last one's place, or 0. */
static int32_t takes_of(const exec_listing *l, exec_span s)
{
    int32_t n = l->out->takes.n;
    while (n > 0 && !overlap(l->out->takes.at[n - 1].span, s))
        n--;
    return n;
}

static int32_t sends_of(const exec_listing *l, exec_span s)
{
    int32_t n = l->out->sends.n;
    while (n > 0 && !(l->out->sends.at[n - 1].made &&
                      overlap(l->out->sends.at[n - 1].span, s)))
        n--;
    return n;
}

static void send_span(exec_listing *l, exec_span s, int32_t to)
{
    exec_send send = {.span = s, .rank = l->rank[to]};
    if (length_of(s) == 0)
        return;
    send.after = takes_of(l, s);
    send.made = send.after > 0;
    send.layout = layout_of(l, s, send.made);
    l->world->link->prepare(l->world, &send.layout);
    fs_push(l->arena, &l->out->sends, send);
}

static void add_take(exec_listing *l, exec_span s, exec_take take)
{
    const int64_t bytes = length_of(s) * l->element_bytes;
    take.span = s;
    take.layout = layout_of(l, s, true);
    take.after = sends_of(l, s);
    if (take.rank != l->world->rank) {
        l->world->link->prepare(l->world, &take.layout);
        if (take.folds && bytes > l->out->largest)
            l->out->largest = bytes;
    }
    fs_push(l->arena, &l->out->takes, take);
}

static void place_span(exec_listing *l, exec_span s, int32_t from)
{
    if (length_of(s) > 0)
        add_take(l, s, (exec_take){.rank = l->rank[from]});
}

static void add_own(exec_listing *l, exec_span s, exec_take take)
{
    take.rank = l->world->rank;
    take.own = layout_of(l, s, false).part;
    take.folds = true;
    add_take(l, s, take);
}

/* On top of what stands there: first of all what this rank gives. */
static void fold_span(exec_listing *l, exec_span s, int32_t from)
{
    if (length_of(s) == 0)
        return;
    if (takes_of(l, s) == 0)
        add_own(l, s, (exec_take){.first = true});
    add_take(l, s, (exec_take){.rank = l->rank[from], .folds = true});
}

/* ---- spans ---- */

static exec_span part_of(exec_span s, int32_t n, int32_t i)
{
    int64_t begin, length;
    ir_split(length_of(s), n, i, &begin, &length);
    return (exec_span){s.begin + begin, s.begin + begin + length};
}

static int64_t chunks_of(const exec_listing *l, exec_span s)
{
    return (length_of(s) + l->chunk - 1) / l->chunk;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Empty beyond the last one. */
static exec_span chunk_of(const exec_listing *l, exec_span s, int64_t c)
{
    const int64_t begin = least(s.begin + c * l->chunk, s.end);
    return (exec_span){begin, least(begin + l->chunk, s.end)};
}

/* ---- directly ---- */

/* Contributions to a chunk of this rank's part, in the order of the members.
 * When something was folded there before, that comes first. */
static void fold_directly(exec_listing *l, exec_members m, exec_span part,
                          exec_span chunk)
{
    const bool there = takes_of(l, chunk) > 0;
    for (int32_t i = 0; i < m.n; i++) {
        const exec_take take = {.rank = l->rank[m.at[i]],
                                .folds = true,
                                .first = !there && i == 0,
                                .last = i == m.n - 1,
                                .low_at = (chunk.begin - part.begin) *
                                          l->element_bytes};
        if (i != m.me)
            add_take(l, chunk, take);
        else if (!there)
            add_own(l, chunk, take);
    }
}

static void reduce_directly(exec_listing *l, exec_members m, exec_span s)
{
    const exec_span mine = part_of(s, m.n, m.me);
    const int64_t most = chunks_of(l, part_of(s, m.n, 0));
    for (int64_t c = 0; c < most; c++)
        for (int32_t k = 1; k < m.n; k++) { /* not all to the first */
            const int32_t i = (m.me + k) % m.n;
            send_span(l, chunk_of(l, part_of(s, m.n, i), c), m.at[i]);
        }
    for (int64_t c = 0; c < chunks_of(l, mine); c++)
        fold_directly(l, m, mine, chunk_of(l, mine, c));
}

static void gather_directly(exec_listing *l, exec_members m, exec_span s)
{
    const exec_span mine = part_of(s, m.n, m.me);
    const int64_t most = chunks_of(l, part_of(s, m.n, 0));
    for (int64_t c = 0; c < most; c++)
        for (int32_t k = 1; k < m.n; k++) {
            const int32_t i = (m.me + k) % m.n;
            send_span(l, chunk_of(l, mine, c), m.at[i]);
            place_span(l, chunk_of(l, part_of(s, m.n, i), c), m.at[i]);
        }
}

void exec_list_direct(exec_listing *l, exec_members all, exec_span whole)
{
    if (l->wide)
        l->out->low_bytes =
            length_of(part_of(whole, all.n, all.me)) * l->element_bytes;
    reduce_directly(l, all, whole);
    gather_directly(l, all, whole);
}

/* ---- ring ---- */

static void pass_on(exec_listing *l, exec_members m, exec_span give,
                    exec_span take, bool folds)
{
    const int32_t next = m.at[(m.me + 1) % m.n];
    const int32_t last = m.at[(m.me + m.n - 1) % m.n];
    for (int64_t c = 0; c < chunks_of(l, give); c++)
        send_span(l, chunk_of(l, give, c), next);
    for (int64_t c = 0; c < chunks_of(l, take); c++)
        (folds ? fold_span : place_span)(l, chunk_of(l, take, c), last);
}

/* Part k begins with member k + 1 and is whole with member k (Patarasuk and
 * Yuan, 2009). */
void exec_list_ring(exec_listing *l, exec_members m, exec_span whole)
{
    for (int32_t s = 0; s < 2 * (m.n - 1); s++) {
        const int32_t at = m.me + 2 * m.n - 1 - s;
        pass_on(l, m, part_of(whole, m.n, at % m.n),
                part_of(whole, m.n, (at - 1) % m.n), s < m.n - 1);
    }
}

/* ---- recursive halving and doubling ---- */

enum { MOST_HALVINGS = 31 };

static void swap_chunks(exec_listing *l, int32_t with, exec_span give,
                        exec_span take, bool folds)
{
    for (int64_t c = 0; c < chunks_of(l, give); c++)
        send_span(l, chunk_of(l, give, c), with);
    for (int64_t c = 0; c < chunks_of(l, take); c++)
        (folds ? fold_span : place_span)(l, chunk_of(l, take, c), with);
}

/* Among a power of two: who is `id` finds others by `number`. */
static void halve_and_double(exec_listing *l, int32_t n, int32_t id,
                             int32_t (*number)(exec_members, int32_t),
                             exec_members m, exec_span s)
{
    exec_span given[MOST_HALVINGS];
    int32_t step = 0;
    for (int32_t d = n / 2; d > 0; d /= 2, step++) {
        const bool upper = id & d;
        const exec_span keep = part_of(s, 2, upper);
        given[step] = part_of(s, 2, !upper);
        swap_chunks(l, number(m, id ^ d), given[step], keep, true);
        s = keep;
    }
    for (int32_t d = 1; d < n; d *= 2) {
        const exec_span other = given[--step];
        swap_chunks(l, number(m, id ^ d), s, other, false);
        s.begin = least(s.begin, other.begin);
        s.end = s.end > other.end ? s.end : other.end;
    }
}

static int32_t power_within(int32_t n)
{
    int32_t power = 1;
    while (power <= n / 2)
        power *= 2;
    return power;
}

/* Of the first 2 r members, r beyond a power of two, the odd ones take part. */
static int32_t number_of(exec_members m, int32_t id)
{
    const int32_t beyond = m.n - power_within(m.n);
    return m.at[id < beyond ? 2 * id + 1 : id + beyond];
}

/* Thakur, Rabenseifner, Gropp, 2005, section 4.4. */
void exec_list_halving(exec_listing *l, exec_members m, exec_span whole)
{
    const int32_t power = power_within(m.n), beyond = m.n - power;
    const bool paired = m.me < 2 * beyond;
    const int32_t mate = paired ? m.at[m.me ^ 1] : -1;
    if (paired && m.me % 2 == 0) {
        swap_chunks(l, mate, whole, (exec_span){0, 0}, true);
        swap_chunks(l, mate, (exec_span){0, 0}, whole, false);
        return;
    }
    if (paired)
        swap_chunks(l, mate, (exec_span){0, 0}, whole, true);
    halve_and_double(l, power, paired ? m.me / 2 : m.me - beyond, number_of, m,
                     whole);
    if (paired)
        swap_chunks(l, mate, whole, (exec_span){0, 0}, false);
}

/* ---- tree ---- */

/* Of a binomial tree over the members' places: its parent differs from `me` in
 * its lowest bit, its children in lower ones. */
static int32_t lowest_bit(exec_members m)
{
    int32_t bit = 1;
    while (bit < m.n && !(m.me & bit))
        bit *= 2;
    return bit;
}

void exec_list_tree(exec_listing *l, exec_members m, exec_span whole)
{
    const int32_t own = lowest_bit(m);
    for (int64_t c = 0; c < chunks_of(l, whole); c++) {
        const exec_span chunk = chunk_of(l, whole, c);
        for (int32_t bit = 1; bit < own && m.me + bit < m.n; bit *= 2)
            fold_span(l, chunk, m.at[m.me + bit]);
        if (m.me > 0)
            send_span(l, chunk, m.at[m.me - own]);
    }
    for (int64_t c = 0; c < chunks_of(l, whole); c++) {
        const exec_span chunk = chunk_of(l, whole, c);
        if (m.me > 0)
            place_span(l, chunk, m.at[m.me - own]);
        for (int32_t bit = own / 2; bit > 0; bit /= 2)
            if (m.me + bit < m.n)
                send_span(l, chunk, m.at[m.me + bit]);
    }
}

/* ---- hierarchical ---- */

/* Hosts of the members in the order of their first ones. */
typedef struct hosts {
    int32_t n;
    exec_members *at; /* me: -1 on other hosts */
    int32_t mine;
    int32_t fewest; /* members of one */
} hosts;

static int32_t host_of(const exec_listing *l, int32_t number)
{
    const int32_t *host = l->world->host;
    return host ? host[l->rank[number]] : 0;
}

static hosts list_hosts(const exec_listing *l, exec_members all)
{
    hosts h = {.at = fs_new(l->arena, exec_members, all.n), .fewest = all.n};
    for (int32_t i = 0; i < all.n; i++) {
        const int32_t host = host_of(l, all.at[i]);
        bool seen = false;
        for (int32_t k = 0; k < i; k++)
            seen |= host_of(l, all.at[k]) == host;
        if (seen)
            continue;
        int32_t *at = fs_new(l->arena, int32_t, all.n);
        exec_members *m = &h.at[h.n++];
        *m = (exec_members){.at = at, .me = -1};
        for (int32_t k = i; k < all.n; k++)
            if (host_of(l, all.at[k]) == host) {
                m->me = k == all.me ? m->n : m->me;
                at[m->n++] = all.at[k];
            }
        h.mine = m->me >= 0 ? h.n - 1 : h.mine;
        h.fewest = m->n < h.fewest ? m->n : h.fewest;
    }
    return h;
}

/* The first `fewest` members of a host own a part each. */
static void reduce_within(exec_listing *l, exec_members m, int32_t fewest,
                          exec_span whole)
{
    for (int32_t k = 1; k <= m.n; k++) {
        const int32_t i = (m.me + k) % m.n;
        const exec_span part =
            i < fewest ? part_of(whole, fewest, i) : (exec_span){0, 0};
        for (int64_t c = 0; i != m.me && c < chunks_of(l, part); c++)
            send_span(l, chunk_of(l, part, c), m.at[i]);
    }
    if (m.me >= fewest)
        return;
    const exec_span mine = part_of(whole, fewest, m.me);
    for (int64_t c = 0; c < chunks_of(l, mine); c++)
        fold_directly(l, m, mine, chunk_of(l, mine, c));
}

/* Those who own the same part on each host. */
static void reduce_between(exec_listing *l, const hosts *h, int32_t owner,
                           exec_span part)
{
    int32_t *at = fs_new(l->arena, int32_t, h->n);
    const exec_members m = {.n = h->n, .at = at, .me = h->mine};
    for (int32_t i = 0; i < h->n; i++)
        at[i] = h->at[i].at[owner];
    reduce_directly(l, m, part);
    gather_directly(l, m, part);
}

static void gather_within(exec_listing *l, exec_members m, int32_t fewest,
                          exec_span whole)
{
    const exec_span mine =
        m.me < fewest ? part_of(whole, fewest, m.me) : (exec_span){0, 0};
    for (int32_t k = 1; k < m.n; k++) {
        const int32_t i = (m.me + k) % m.n;
        const exec_span part =
            i < fewest ? part_of(whole, fewest, i) : (exec_span){0, 0};
        for (int64_t c = 0; c < chunks_of(l, mine); c++)
            send_span(l, chunk_of(l, mine, c), m.at[i]);
        for (int64_t c = 0; c < chunks_of(l, part); c++)
            place_span(l, chunk_of(l, part, c), m.at[i]);
    }
}

void exec_list_hierarchical(exec_listing *l, exec_members all, exec_span whole)
{
    const hosts h = list_hosts(l, all);
    const exec_members here = h.at[h.mine];
    reduce_within(l, here, h.fewest, whole);
    if (here.me < h.fewest && h.n > 1)
        reduce_between(l, &h, here.me, part_of(whole, h.fewest, here.me));
    gather_within(l, here, h.fewest, whole);
}

/* One call, no messages of its own. */
void exec_list_mpi(exec_listing *l, exec_members all, exec_span whole)
{
    (void)l;
    (void)all;
    (void)whole;
}
