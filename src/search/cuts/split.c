#include "config.h"
#include "search/cuts/split.h"

#include "search/layout.h"
#include "search/engine/memo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Numbers kept of a stage's states, and written in all, for each of the two
 * bounds; what of a bound is one and the same figure, and once states were
 * dropped. */
enum { MOST_NUMBERS = 1 << 15, LEAST_STATES = 16, MOST_STEPS = 1 << 23 };
static const double grain = 1e-9, slack = 1e-8, near = 1e-7, coarse = 1e-2,
                    shorter = 0.98, longer = 1.1;

/* Without receiving. */
static double pure_seconds(const search_chain *c, int32_t k, int32_t i,
                           int32_t j)
{
    const int32_t g = c->group_of[k];
    return c->own ? c->own[g][j] - c->own[g][i]
                  : (c->seconds[j] - c->seconds[i]) / c->size[g];
}

static double stage_seconds(const search_chain *c, int32_t k, int32_t i,
                            int32_t j)
{
    return pure_seconds(c, k, i, j) + c->in[k * (c->n + 1) + i] +
           c->back[k * (c->n + 1) + j];
}

void search_split_weigh(const search_chain *c, search_split *s)
{
    s->device = s->stage = s->squares = 0;
    s->bytes = 0;
    for (int32_t g = 0; g < c->n_groups; g++) {
        double load = 0;
        for (int32_t k = 0; k < c->n_stages; k++) {
            const int32_t end = k + 1 < c->n_stages ? s->begin[k + 1] : c->n;
            const double w = stage_seconds(c, k, s->begin[k], end);
            if (c->group_of[k] != g)
                continue;
            load += w;
            s->stage = fmax(s->stage, w);
            s->squares += w * w;
            s->bytes += k ? c->bytes[s->begin[k]] : 0;
        }
        s->device = fmax(s->device, load);
    }
}

/* ---- one stage per group ---- */

/* The best cut of what lies before a place into the stages so far: seconds of
 * the slowest of them, or of all where none may take more than so many; then
 * bytes. */
typedef struct best_cut {
    double seconds;
    int64_t bytes;
    int32_t from;
} best_cut;

static bool better(const best_cut *a, const best_cut *b)
{
    return a->seconds < b->seconds ||
           (a->seconds <= b->seconds && a->bytes < b->bytes);
}

/* The k-th stage's begin when it ends at place j, with `most` seconds for a
 * stage (INFINITY: the slowest counts). From the last place backwards: once its
 * own work is slower than that or the best, all before are. Of equals the first
 * place counts. */
static void find_begin(const search_chain *c, int32_t k, int32_t j, double most,
                       const best_cut *before, best_cut *best)
{
    for (int32_t i = j - 1; i >= k; i--) {
        if (pure_seconds(c, k, i, j) > fmin(most, best->seconds))
            return;
        const double w = stage_seconds(c, k, i, j), had = before[i].seconds;
        const best_cut now = {isinf(most) ? fmax(had, w) : had + w,
                              before[i].bytes + (i ? c->bytes[i] : 0), i};
        if (w <= most && !better(best, &now))
            *best = now;
    }
}

static void find_plain(const search_chain *c, double most, fs_arena *arena,
                       search_split *out)
{
    const int32_t row = c->n + 1;
    best_cut *best =
        fs_new(arena, best_cut, (size_t)(c->n_stages + 1) * (size_t)row);
    for (int32_t k = 0; k <= c->n_stages; k++)
        for (int32_t j = 0; j <= c->n; j++)
            best[k * row + j] = (best_cut){INFINITY, 0, -1};
    best[0].seconds = 0;
    for (int32_t k = 0; k < c->n_stages; k++)
        for (int32_t j = k + 1; j <= c->n; j++)
            find_begin(c, k, j, most, &best[k * row], &best[(k + 1) * row + j]);
    for (int32_t k = c->n_stages, j = c->n; k > 0; k--) {
        j = best[k * row + j].from;
        out->begin[k - 1] = j;
    }
}

/* ---- several: states within bounds ---- */

/* Stages are laid in an order of their own. */
typedef struct turn {
    int32_t stage, group;
    bool at_back;
    bool opens;    /* its group has no stage before it in this order, */
    int32_t left;  /* and so many behind it */
    int32_t open;  /* place of the group's load in a state; of an opened one
                      behind the others */
    int32_t loads; /* of the states behind it */
    double heavy;  /* what the last stage takes at least, if its group has it
                      yet to come */
    double rest;   /* what the stages that are left take at least */
} turn;

typedef struct state {
    int32_t from;   /* the state before */
    int32_t i, j;   /* what is left lies between */
    double room;    /* what groups may still take, on one device, beyond that */
    double uneven;  /* squares of what stages are off their group's course */
    double squares; /* of stages' seconds */
    int64_t bytes;
} state;

/* A state that may be kept, and what its stage's group has taken then. */
typedef struct candidate {
    state is;
    double load;
} candidate;

typedef struct level {
    FS_VEC(state) states;
    FS_VEC(double) loads; /* [state][turn.loads] */
} level;

typedef struct splitter {
    const search_chain *chain;
    turn *turns;
    fs_arena *scratch;              /* of a try */
    double device, stage;           /* the bounds tried */
    double even;                    /* seconds of a stage if all were equal */
    double most_stage;              /* that device_within allows */
    level *levels;                  /* [n_stages + 1] before each turn */
    double next_device, next_stage; /* no other outcome below */
    bool full;                      /* states were dropped */
    int64_t steps;                  /* numbers that may yet be written */
    int64_t *key;                   /* [n_groups + 1] scratch of keep, */
    double *after;                  /* [n_groups + 1] and of keep_all */
    FS_VEC(candidate) made;         /* behind the turn at hand */
} splitter;

/* No stage is empty: the first has the first piece, the last the last. */
static double least_of(const search_chain *c, int32_t stage)
{
    double least = INFINITY;
    for (int32_t j = 0; j < c->n; j++)
        least = fmin(least, c->seconds[j + 1] - c->seconds[j]);
    if (stage == 0)
        least = c->seconds[1] - c->seconds[0];
    if (stage == c->n_stages - 1)
        least = c->seconds[c->n] - c->seconds[c->n - 1];
    return least / c->size[c->group_of[stage]];
}

static void look_ahead(const search_chain *c, turn *turns, fs_arena *arena)
{
    double *rest = fs_new(arena, double, c->n_groups);
    const int32_t last = c->n_stages - 1;
    bool laid = true;
    for (int32_t t = last; t >= 0; t--) {
        turn *now = &turns[t];
        now->rest = rest[now->group];
        if (!laid && now->group == c->group_of[last])
            now->heavy = least_of(c, last);
        laid &= now->stage != last;
        rest[now->group] += least_of(c, now->stage);
    }
}

/* From the front, but from the back while the last stage's group is one that
 * has begun: fewer are then open at once. */
static turn *order_stages(const search_chain *c, fs_arena *arena)
{
    turn *turns = fs_new(arena, turn, c->n_stages);
    int32_t *left = fs_new(arena, int32_t, c->n_groups);
    int32_t *open = fs_new(arena, int32_t, c->n_groups); /* in order */
    bool *begun = fs_new(arena, bool, c->n_groups);
    int32_t front = 0, back = c->n_stages, n_open = 0;
    for (int32_t k = 0; k < c->n_stages; k++)
        left[c->group_of[k]]++;
    for (int32_t t = 0; t < c->n_stages; t++) {
        turn *now = &turns[t];
        const int32_t last = c->group_of[back - 1];
        now->at_back = begun[last] && left[last] > 0;
        now->stage = now->at_back ? --back : front++;
        now->group = c->group_of[now->stage];
        now->opens = !begun[now->group];
        now->left = --left[now->group];
        begun[now->group] = true;
        if (now->opens)
            open[n_open++] = now->group;
        for (now->open = 0; open[now->open] != now->group;)
            now->open++;
        if (now->left == 0) {
            n_open--;
            memmove(&open[now->open], &open[now->open + 1],
                    (size_t)(n_open - now->open) * sizeof *open);
        }
        now->loads = n_open;
    }
    look_ahead(c, turns, arena);
    return turns;
}

/* What a group that has taken `load` may still take in `left` stages. */
static double room_of(const splitter *s, int32_t group, double load,
                      int32_t left)
{
    return left == 0 ? 0
                     : s->chain->size[group] *
                           fmin(s->device - load, left * s->stage);
}

static void at_least(double *next, double figure)
{
    *next = fmin(*next, figure);
}

/* A state that is left with too little room: more of it is no more than all
 * groups together gain. */
static void note_short(splitter *s, double lacking)
{
    const search_chain *c = s->chain;
    double devices = 0, stages = 0;
    for (int32_t g = 0; g < c->n_groups; g++)
        devices += c->size[g];
    for (int32_t k = 0; k < c->n_stages; k++)
        stages += c->size[c->group_of[k]];
    at_least(&s->next_device, s->device + lacking / devices);
    at_least(&s->next_stage, s->stage + lacking / stages);
}

/* A stage of w seconds, of them `pure` without receiving, where its devices
 * take `had` besides: longer ones take pure at least. */
static bool note_long(splitter *s, double had, double w, double pure)
{
    const bool more_device = had + pure <= s->device * (1 + slack);
    const bool more_stage = pure <= s->stage * (1 + slack);
    if (had + w > s->device * (1 + slack))
        at_least(&s->next_device, had + (more_device ? w : pure));
    if (w > s->stage * (1 + slack))
        at_least(&s->next_stage, more_stage ? w : pure);
    return more_device && more_stage;
}

/* More even, or as even and with fewer bytes moved. */
static bool finer(const state *a, const state *b)
{
    if (fabs(a->squares - b->squares) > slack * b->squares)
        return a->squares < b->squares;
    return a->bytes < b->bytes;
}

/* Of states that agree in all that counts for what follows, the finest. */
static void keep(splitter *s, level *to, search_memo *memo, const state *made,
                 const double *loads, int32_t n_loads)
{
    int64_t *key = s->key;
    key[0] = (int64_t)made->i << 32 | made->j;
    for (int32_t l = 0; l < n_loads; l++)
        key[l + 1] = llround(loads[l] / (grain * s->device));
    int32_t *at =
        search_memo_at(memo, key, (size_t)(n_loads + 1) * sizeof *key);
    if (*at < 0) {
        *at = to->states.n;
        fs_push(s->scratch, &to->states, *made);
        for (int32_t l = 0; l < n_loads; l++)
            fs_push(s->scratch, &to->loads, loads[l]);
    } else if (finer(made, &to->states.at[*at])) {
        to->states.at[*at] = *made;
        for (int32_t l = 0; l < n_loads; l++)
            to->loads.at[*at * n_loads + l] = loads[l];
    }
}

/* Loads of the states behind a turn. */
static void carry_loads(const turn *t, const double *before, double load,
                        double *after)
{
    const int32_t n = t->loads + (t->left == 0) - t->opens;
    int32_t k = 0;
    for (int32_t l = 0; l < n; l++)
        if (l != t->open)
            after[k++] = before[l];
        else if (t->left > 0)
            after[k++] = load;
    if (t->opens && t->left > 0)
        after[k] = load;
}

/* Seconds of a stage if those that its group has left were equal, but for the
 * last of all if that takes more. */
static double course(const splitter *s, const turn *t, double had)
{
    const double mean = (s->device - had) / (t->left + 1);
    return t->heavy > mean ? (s->device - had - t->heavy) / t->left : mean;
}

/* One more stage, from place i to place j. Returns false when longer ones are
 * of no use either. */
static bool lay(splitter *s, int32_t at, int32_t from, const int32_t span[2])
{
    const search_chain *c = s->chain;
    const turn *t = &s->turns[at];
    const level *before = &s->levels[at];
    const state *was = &before->states.at[from];
    const int32_t held = at ? s->turns[at - 1].loads : 0;
    const double *loads = held ? &before->loads.at[from * held] : NULL;
    const double had = t->opens ? 0 : loads[t->open], due = had + t->rest;
    const double w = stage_seconds(c, t->stage, span[0], span[1]);
    const double pure =
        (c->seconds[span[1]] - c->seconds[span[0]]) / c->size[t->group];
    if (due + w > s->device * (1 + slack) || w > s->stage * (1 + slack))
        return note_long(s, due, w, pure);
    state made = {.from = from,
                  .i = was->i,
                  .j = was->j,
                  .squares = was->squares + w * w,
                  .bytes = was->bytes};
    *(t->at_back ? &made.j : &made.i) = span[!t->at_back];
    made.room = was->room + pure * c->size[t->group] -
                room_of(s, t->group, had, t->left + 1) +
                room_of(s, t->group, had + w, t->left);
    made.uneven = was->uneven + pow(w - course(s, t, had), 2);
    made.bytes += span[0] ? c->bytes[span[0]] : 0;
    if (made.room < -slack * s->device) {
        note_short(s, -made.room);
        return true;
    }
    candidate new = {made, had + w};
    fs_push(s->scratch, &s->made, new);
    s->steps--;
    return true;
}

/* All stages that a turn could lay behind a state. */
static void extend(splitter *s, int32_t at, int32_t from)
{
    const int32_t rest = s->chain->n_stages - at - 1;
    const state was = s->levels[at].states.at[from];
    const int32_t most = was.j - was.i - rest;
    bool on = true;
    for (int32_t n = rest ? 1 : most; on && n <= most; n++) {
        const int32_t front[2] = {was.i, was.i + n};
        const int32_t back[2] = {was.j - n, was.j};
        on = lay(s, at, from, s->turns[at].at_back ? back : front);
    }
}

/* ---- which to keep ---- */

static int by_course(const void *x, const void *y)
{
    const state *a = &((const candidate *)x)->is;
    const state *b = &((const candidate *)y)->is;
    if (a->uneven < b->uneven || a->uneven > b->uneven)
        return a->uneven < b->uneven ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return a->from != b->from ? a->from - b->from : a->i - b->i;
}

/* Of too many those that are nearest to their groups' course. */
static void keep_all(splitter *s, int32_t at)
{
    const turn *t = &s->turns[at];
    const int32_t held = at ? s->turns[at - 1].loads : 0;
    const int32_t share = MOST_NUMBERS / (s->chain->n_stages + t->loads);
    const int32_t most = share > LEAST_STATES ? share : LEAST_STATES;
    search_memo memo = {.arena = s->scratch};
    level *to = &s->levels[at + 1];
    int32_t k = 0;
    if (s->made.n)
        qsort(s->made.at, (size_t)s->made.n, sizeof *s->made.at, by_course);
    for (; k < s->made.n && to->states.n < most && s->steps > 0; k++) {
        const candidate *c = &s->made.at[k];
        const double *loads =
            held ? &s->levels[at].loads.at[c->is.from * held] : NULL;
        carry_loads(t, loads, c->load, s->after);
        keep(s, to, &memo, &c->is, s->after, t->loads);
        s->steps -= t->loads + 1;
    }
    s->full |= k < s->made.n;
    s->made.n = 0;
}

/* ---- bounds tried ---- */

static void trace(const splitter *s, search_split *out)
{
    const int32_t stages = s->chain->n_stages;
    const level *last = &s->levels[stages];
    int32_t at = 0;
    for (int32_t k = 1; k < last->states.n; k++)
        if (finer(&last->states.at[k], &last->states.at[at]))
            at = k;
    for (int32_t t = stages; t > 0; t--) {
        const state *after = &s->levels[t].states.at[at];
        const state *before = &s->levels[t - 1].states.at[after->from];
        const turn *now = &s->turns[t - 1];
        out->begin[now->stage] = now->at_back ? after->j : before->i;
        at = after->from;
    }
    search_split_weigh(s->chain, out);
}

/* What there is before any stage is laid. */
static void start(splitter *s)
{
    const search_chain *c = s->chain;
    state begun = {.j = c->n, .room = -c->seconds[c->n]};
    for (int32_t t = 0; t < c->n_stages; t++)
        if (s->turns[t].opens)
            begun.room +=
                room_of(s, s->turns[t].group, 0, s->turns[t].left + 1);
    if (begun.room < -slack * s->device)
        note_short(s, -begun.room);
    else
        fs_push(s->scratch, &s->levels[0].states, begun);
}

/* Is there a cut within these bounds? */
static bool within(splitter *s, double device, double stage, search_split *out)
{
    const int32_t stages = s->chain->n_stages;
    s->scratch = fs_arena_create();
    s->levels = fs_new(s->scratch, level, stages + 1);
    memset(&s->made, 0, sizeof s->made);
    s->device = device;
    s->stage = stage;
    s->next_device = s->next_stage = INFINITY;
    s->full = false;
    start(s);
    for (int32_t t = 0; t < stages; t++) {
        for (int32_t k = 0; k < s->levels[t].states.n && s->steps > 0; k++)
            extend(s, t, k);
        s->full |= s->steps <= 0;
        keep_all(s, t);
    }
    const bool found = s->levels[stages].states.n > 0;
    if (found)
        trace(s, out);
    fs_arena_destroy(s->scratch);
    return found;
}

/* Even stages first: there are fewest states, and what is looked for next lies
 * there. */
static bool device_within(splitter *s, double device, search_split *out)
{
    static const double uneven[] = {1.1, 1.5, INFINITY};
    bool found = false;
    for (size_t k = 0; k < sizeof uneven / sizeof *uneven && !found; k++)
        found =
            within(s, device, fmin(s->even * uneven[k], s->most_stage), out);
    return found;
}

static bool stage_within(splitter *s, double stage, search_split *out)
{
    return within(s, s->device, stage, out);
}

/* The least figure from `low` on for which there is a cut, `out` being one for
 * `high`. Low figures first, since they have fewest states; what is tried next
 * is in turns the next that makes a difference, and a step on or halfway. */
typedef struct bisection {
    bool (*found)(splitter *s, double figure, search_split *out);
    const double *next; /* written by it */
    const double *got;  /* in `out` */
    double low, high;
} bisection;

static double bisect(splitter *s, bisection b, search_split *out)
{
    double step = b.low / 128, same = near;
    s->steps = MOST_STEPS;
    for (bool low = true; s->steps > 0 && b.high > b.low * (1 + same);) {
        const double halfway = b.low + (b.high - b.low) / 2;
        const double figure = low ? b.low : fmin(b.low + step, halfway);
        if (b.found(s, figure, out)) {
            b.high = *b.got;
            low = false;
            continue;
        }
        if (s->full) {
            out->exact = false;
            same = coarse;
        }
        b.low = s->full ? figure : fmax(figure, *b.next);
        low = !low && b.low > figure;
        step *= 2;
    }
    out->exact &= s->steps > 0;
    return b.high;
}

static double span_of(const search_chain *c, const search_split *s,
                      fs_arena *arena)
{
    double *w = fs_new(arena, double, c->n_stages);
    for (int32_t k = 0; k < c->n_stages; k++)
        w[k] = stage_seconds(c, k, s->begin[k],
                             k + 1 < c->n_stages ? s->begin[k + 1] : c->n);
    return c->span(c->ctx, w);
}

static void copy_cut(const search_chain *c, const search_split *from,
                     search_split *to)
{
    int32_t *begin = to->begin;
    memcpy(begin, from->begin, (size_t)c->n_stages * sizeof *begin);
    *to = *from;
    to->begin = begin;
}

/* `out`, a cut whose slowest stage is no longer than most_stage, becomes the
 * one of the fastest slowest device, then stage. */
static void find_under(splitter *s, double low, search_split *out)
{
    const double device = bisect(s,
                                 (bisection){device_within, &s->next_device,
                                             &out->device, low, out->device},
                                 out);
    s->device = device;
    const double stage = bisect(s,
                                (bisection){stage_within, &s->next_stage,
                                            &out->stage, s->even, out->stage},
                                out);
    s->steps = MOST_STEPS;
    within(s, device, stage, out);
    out->exact &= !s->full;
}

/* From the fastest slowest device on to the fastest slowest stage, `out`: of
 * these the one of least span. */
static void find_shared(const search_chain *c, fs_arena *arena,
                        search_split *out)
{
    splitter s = {.chain = c,
                  .turns = order_stages(c, arena),
                  .most_stage = INFINITY,
                  .key = fs_new(arena, int64_t, c->n_groups + 1),
                  .after = fs_new(arena, double, c->n_groups + 1)};
    double devices = 0, stages = 0;
    for (int32_t g = 0; g < c->n_groups; g++)
        devices += c->size[g];
    for (int32_t k = 0; k < c->n_stages; k++)
        stages += c->size[c->group_of[k]];
    s.even = c->seconds[c->n] / stages;
    search_split last = *out, now = *out;
    last.begin = fs_new(arena, int32_t, c->n_stages);
    now.begin = fs_new(arena, int32_t, c->n_stages);
    copy_cut(c, out, &last);
    double low = c->seconds[c->n] / devices;
    double best = c->span ? span_of(c, &last, arena) : INFINITY;
    while (low * c->times < best) {
        copy_cut(c, &last, &now);
        find_under(&s, low, &now);
        const double span = c->span ? span_of(c, &now, arena) : 0;
        const bool exact = out->exact & now.exact;
        if (span < best)
            copy_cut(c, &now, out);
        out->exact = exact;
        best = fmin(span, best);
        low = now.device;
        s.most_stage = now.stage * shorter;
        if (s.most_stage < last.stage)
            break;
    }
}

/* Do all stages take equally long for one piece? */
static bool is_even(const search_chain *c)
{
    for (int32_t g = 1; g < c->n_groups; g++)
        if (c->size[g] != c->size[0])
            return false;
    return !c->own;
}

/* From the fastest slowest stage, `out`, on to the fastest of all: of these the
 * one of least span. */
static void find_uneven(const search_chain *c, fs_arena *arena,
                        search_split *out)
{
    search_split now = {.begin = fs_new(arena, int32_t, c->n_stages)};
    double best = span_of(c, out, arena);
    for (double most = out->stage * (1 + near); most * c->times < best;
         most *= longer) {
        now.exact = out->exact;
        find_plain(c, most, arena, &now);
        search_split_weigh(c, &now);
        const double span = span_of(c, &now, arena);
        if (span < best)
            copy_cut(c, &now, out);
        best = fmin(span, best);
    }
}

void search_split_find(const search_chain *chain, fs_arena *arena,
                       search_split *out)
{
    out->begin = fs_new(arena, int32_t, chain->n_stages);
    out->exact = true;
    find_plain(chain, INFINITY, arena, out);
    search_split_weigh(chain, out);
    if (chain->n_groups < chain->n_stages)
        find_shared(chain, arena, out);
    else if (chain->span && !is_even(chain))
        find_uneven(chain, arena, out);
}
