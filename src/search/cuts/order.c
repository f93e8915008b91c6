/* Devices of several kinds: which of them the first stages get makes a
 * difference (they hold more in flight; layers differ), and how a cluster is
 * written down does not say what is best. Orders are told apart, and numbered,
 * by the kinds of their groups alone, so that a cluster and the same one
 * written back to front have the same. */
#include "config.h"
#include "search/cuts/order.h"

#include <stdlib.h>
#include <string.h>

/* A sequence of kinds that an order begins with. */
typedef struct prefix {
    int32_t n;
    int32_t *kind;
    double fullest; /* of all orders that begin so at least */
} prefix;

typedef struct lister {
    const hw_cluster *cluster;
    fs_arena *arena, *scratch;
    int32_t n;             /* groups, */
    int32_t *kind;         /* [n] theirs, those of most memory first; */
    int32_t *of;           /* [n] of that kind, one of them */
    FS_VEC(prefix *) open; /* not looked at yet */
    search_orders out;
} lister;

/* ---- kinds ---- */

static int more_first(double a, double b)
{
    return (a < b) - (a > b);
}

/* Equal ones are of one kind. */
static int by_kind(const hw_group *a, const hw_group *b)
{
    const double more[][2] = {{a->device.memory_bytes, b->device.memory_bytes},
                              {a->device.fp32_flops, b->device.fp32_flops},
                              {a->device.bf16_flops, b->device.bf16_flops},
                              {a->device.fp16_flops, b->device.fp16_flops},
                              {a->device.memory_bps, b->device.memory_bps},
                              {a->inner.bandwidth_bps, b->inner.bandwidth_bps},
                              {a->inner.latency_s, b->inner.latency_s},
                              {a->device.launch_s, b->device.launch_s},
                              {a->devices_per_node, b->devices_per_node},
                              {a->nodes, b->nodes}};
    int sign = 0;
    for (size_t k = 0; sign == 0 && k < sizeof more / sizeof *more; k++)
        sign = more_first(more[k][0], more[k][1]);
    return sign ? sign : strcmp(a->device.name, b->device.name);
}

static void find_kinds(lister *l)
{
    const hw_group *groups = l->cluster->groups;
    l->kind = fs_new(l->scratch, int32_t, l->n);
    l->of = fs_new(l->scratch, int32_t, l->n);
    for (int32_t g = 0; g < l->n; g++) {
        for (int32_t other = 0; other < l->n; other++) {
            bool known = false; /* so that each kind counts once */
            for (int32_t k = 0; k < other; k++)
                known |= by_kind(&groups[k], &groups[other]) == 0;
            l->kind[g] += !known && by_kind(&groups[other], &groups[g]) < 0;
        }
        l->of[l->kind[g]] = g;
    }
}

static int32_t size_of(const hw_group *group)
{
    return group->nodes * group->devices_per_node;
}

/* ---- one order ---- */

static int32_t device_of(const hw_cluster *cluster, int32_t group)
{
    int32_t first = 0;
    for (int32_t g = 0; g < group; g++)
        first += size_of(&cluster->groups[g]);
    return first;
}

/* Groups that follow each other here as they do in the cluster are walked the
 * way they are walked. */
static search_order *make(const lister *l, const int32_t *group)
{
    search_order *one = fs_new(l->arena, search_order, 1);
    *one =
        (search_order){0,
                       l->n,
                       fs_memdup(l->arena, group, (size_t)l->n * sizeof *group),
                       fs_new(l->arena, int32_t, l->n),
                       fs_new(l->arena, int32_t, l->n + 1),
                       fs_new(l->arena, bool, l->n)};
    for (int32_t k = 0; k < l->n; k++) {
        one->first[k] = device_of(l->cluster, group[k]);
        one->begin[k + 1] =
            one->begin[k] + size_of(&l->cluster->groups[group[k]]);
        one->back[k] = (k > 0 && group[k] == group[k - 1] - 1) ||
                       (k + 1 < l->n && group[k + 1] == group[k] - 1);
    }
    return one;
}

static int by_kinds(const lister *l, const search_order *a,
                    const search_order *b)
{
    for (int32_t k = 0; k < l->n; k++)
        if (l->kind[a->group[k]] != l->kind[b->group[k]])
            return l->kind[a->group[k]] - l->kind[b->group[k]];
    return 0;
}

/* Sorted, each once. */
static void add(lister *l, const int32_t *group)
{
    search_order *one = make(l, group);
    int32_t at = 0;
    while (at < l->out.list.n && by_kinds(l, l->out.list.at[at], one) < 0)
        at++;
    if (at < l->out.list.n && by_kinds(l, l->out.list.at[at], one) == 0)
        return;
    fs_push(l->arena, &l->out.list, one);
    for (int32_t k = l->out.list.n - 1; k > at; k--)
        l->out.list.at[k] = l->out.list.at[k - 1];
    l->out.list.at[at] = one;
}

/* Of its kind the one beside the last one of the order, else the first. */
static int32_t next_group(const lister *l, const int32_t *group, int32_t k,
                          int32_t kind, const bool *taken)
{
    const int32_t beside[] = {k ? group[k - 1] + 1 : -1,
                              k ? group[k - 1] - 1 : -1};
    for (int32_t i = 0; i < 2; i++)
        if (beside[i] >= 0 && beside[i] < l->n && !taken[beside[i]] &&
            l->kind[beside[i]] == kind)
            return beside[i];
    int32_t g = 0;
    while (taken[g] || l->kind[g] != kind)
        g++;
    return g;
}

static void add_kinds(lister *l, const int32_t *kind)
{
    int32_t *group = fs_new(l->scratch, int32_t, l->n);
    bool *taken = fs_new(l->scratch, bool, l->n);
    for (int32_t k = 0; k < l->n; k++) {
        group[k] = next_group(l, group, k, kind[k], taken);
        taken[group[k]] = true;
    }
    add(l, group);
}

/* ---- which ---- */

/* [kinds] How many groups of each are not in it. */
static void count_left(const lister *l, const prefix *p, int32_t *left)
{
    for (int32_t g = 0; g < l->n; g++)
        left[l->kind[g]]++;
    for (int32_t k = 0; k < p->n; k++)
        left[p->kind[k]]--;
}

/* A stage holds as many micro-batches as there are stages from it on: devices
 * from each group's first on, of its memory. Where groups of more memory come
 * first it is least. */
static double fullest_of(const lister *l, const prefix *p)
{
    int32_t *left = fs_new(l->scratch, int32_t, l->n);
    int32_t behind = l->cluster->n_devices, next = 0;
    double fullest = 0;
    count_left(l, p, left);
    for (int32_t k = 0; k < l->n; k++) {
        while (k >= p->n && left[next] == 0)
            next++;
        const int32_t kind = k < p->n ? p->kind[k] : next;
        const hw_group *group = &l->cluster->groups[l->of[kind]];
        const double full = behind / group->device.memory_bytes;
        fullest = full > fullest ? full : fullest;
        behind -= size_of(group);
        left[kind] -= k >= p->n;
    }
    return fullest;
}

static void open_all(lister *l, const prefix *p)
{
    int32_t *left = fs_new(l->scratch, int32_t, l->n);
    count_left(l, p, left);
    for (int32_t kind = 0; kind < l->n; kind++) {
        if (left[kind] == 0)
            continue;
        prefix *longer = fs_new(l->scratch, prefix, 1);
        longer->n = p->n + 1;
        longer->kind = fs_new(l->scratch, int32_t, l->n);
        for (int32_t k = 0; k < p->n; k++)
            longer->kind[k] = p->kind[k];
        longer->kind[p->n] = kind;
        longer->fullest = fullest_of(l, longer);
        fs_push(l->scratch, &l->open, longer);
    }
}

/* Of equal ones the longest. */
static bool is_before(const prefix *a, const prefix *b)
{
    if (a->fullest < b->fullest || a->fullest > b->fullest)
        return a->fullest < b->fullest;
    if (a->n != b->n)
        return a->n > b->n;
    return memcmp(a->kind, b->kind, (size_t)a->n * sizeof *a->kind) < 0;
}

static prefix *take_first(lister *l)
{
    int32_t first = 0;
    for (int32_t k = 1; k < l->open.n; k++)
        if (is_before(l->open.at[k], l->open.at[first]))
            first = k;
    prefix *p = l->open.at[first];
    l->open.at[first] = l->open.at[--l->open.n];
    return p;
}

static void list_fullest_first(lister *l)
{
    prefix none = {0};
    open_all(l, &none);
    while (l->open.n && l->out.list.n < SEARCH_MOST_ORDERS) {
        const prefix *p = take_first(l);
        if (p->n == l->n)
            add_kinds(l, p->kind);
        else
            open_all(l, p);
    }
}

static double count_all(const lister *l)
{
    double all = 1;
    for (int32_t g = 0; g < l->n; g++) {
        int32_t alike = 0;
        for (int32_t k = 0; k <= g; k++)
            alike += l->kind[k] == l->kind[g];
        all *= (double)(g + 1) / alike;
    }
    return all;
}

/* Numbers, and out with the cluster's own. */
static void number_all(lister *l, const int32_t *own)
{
    const search_order *as_written = make(l, own);
    int32_t n = 0;
    for (int32_t k = 0; k < l->out.list.n; k++) {
        search_order *one = l->out.list.at[k];
        one->number = k + 1;
        if (by_kinds(l, one, as_written) == 0)
            l->out.own = one->number;
        else
            l->out.list.at[n++] = one;
    }
    l->out.n_out = count_all(l) - l->out.list.n;
    l->out.list.n = n;
}

search_orders search_orders_of(const hw_cluster *cluster, fs_arena *arena)
{
    lister l = {.cluster = cluster,
                .arena = arena,
                .scratch = fs_arena_create(),
                .n = cluster->n_groups};
    int32_t *own = fs_new(l.scratch, int32_t, l.n);
    int32_t *back = fs_new(l.scratch, int32_t, l.n);
    for (int32_t k = 0; k < l.n; k++) {
        own[k] = k;
        back[k] = l.n - 1 - k;
    }
    find_kinds(&l);
    add(&l, own);
    add(&l, back);
    list_fullest_first(&l);
    number_all(&l, own);
    fs_arena_destroy(l.scratch);
    return l.out;
}

const search_order *search_order_back(const search_orders *orders)
{
    for (int32_t k = 0; k < orders->list.n; k++) {
        const search_order *one = orders->list.at[k];
        bool is = true;
        for (int32_t i = 0; i < one->n; i++)
            is &= one->group[i] == one->n - 1 - i;
        if (is)
            return one;
    }
    return NULL;
}

/* ---- places ---- */

/* On to the next group only where that is its neighbour in the cluster, too. */
static bool goes_on(const search_order *order, int32_t k)
{
    return k + 1 < order->n && abs(order->group[k + 1] - order->group[k]) == 1;
}

int32_t search_order_place(const search_order *order, int32_t at, int32_t n)
{
    int32_t k = 0;
    if (!order)
        return at;
    if (n == order->begin[order->n])
        return 0;
    while (at >= order->begin[k + 1])
        k++;
    int32_t last = k;
    for (; at + n > order->begin[last + 1]; last++)
        if (!goes_on(order, last))
            return -1;
    return order->back[k]
               ? order->first[last] + order->begin[last + 1] - (at + n)
               : order->first[k] + at - order->begin[k];
}
