/* A trace as a picture: a row per rank and stream that does something, boxes
 * coloured by what runs. The width is cut into columns and each column shows
 * what filled most of it, so that a million events draw as fast as a hundred.
 */
#include "config.h"
#include "report/draw.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 1000, MAX_ROWS = 64, ROW_POINTS = 26, LEFT_POINTS = 180 };

typedef enum paint {
    IDLE,
    FORWARD,
    BACKWARD,
    UPDATE,
    COLLECTIVE,
    MOVE,
    WAIT,
    LOAD,
    PAINTS
} paint;

static const char *const colours[PAINTS] = {"#ffffff", "#8fbce6", "#9fd68a",
                                            "#f2b179", "#d2501e", "#7a1fa2",
                                            "#e7dff0", "#bbbbbb"};
static const char *const names[PAINTS] = {
    "idle",       "forward",       "backward", "update",
    "collective", "send, receive", "waiting",  "load"};

typedef struct row {
    int32_t rank, stream;
    plan_stream_kind kind;
    float share[COLUMNS][PAINTS];
    int32_t micro_batch[COLUMNS];
    paint phase[COLUMNS]; /* forward, backward, update: whatever runs there */
} row;

typedef struct timeline {
    draw d;
    const plan *plan;
    int64_t from, to;
    int32_t n_rows;
    row *rows[MAX_ROWS];
} timeline;

static paint paint_of(const plan_task *task)
{
    if (task->kind == PLAN_LOAD)
        return LOAD;
    if (task->kind == PLAN_SEND || task->kind == PLAN_RECV)
        return MOVE;
    if (task->kind == PLAN_BOX && task->comm >= 0)
        return COLLECTIVE;
    if (task->phase == PLAN_FORWARD)
        return FORWARD;
    return plan_phase_once(task->phase) ? UPDATE : BACKWARD;
}

static paint phase_of(const plan_task *task)
{
    if (task->phase == PLAN_FORWARD)
        return FORWARD;
    return plan_phase_once(task->phase) ? UPDATE : BACKWARD;
}

static row *row_of(timeline *t, int32_t rank, int32_t stream)
{
    for (int32_t i = 0; i < t->n_rows; i++)
        if (t->rows[i]->rank == rank && t->rows[i]->stream == stream)
            return t->rows[i];
    if (t->n_rows == MAX_ROWS)
        return NULL;
    row *r = fs_new(t->d.arena, row, 1);
    r->rank = rank;
    r->stream = stream;
    r->kind = plan_role_of_rank(t->plan, rank)->streams[stream].kind;
    return t->rows[t->n_rows++] = r;
}

/* Adds what [from, to) covers of each column; returns the first column after
 * it, *first the one it begins in. */
static int32_t add_share(timeline *t, row *r, int64_t from, int64_t to,
                         paint with, int32_t *first)
{
    double width = (double)(t->to - t->from) / COLUMNS;
    double start = (double)(from - t->from) / width;
    double end = (double)(to - t->from) / width;
    int32_t c = *first = start > 0 ? (int32_t)start : 0;
    for (; c < COLUMNS && c < end; c++) {
        double low = start > c ? start : c, high = end < c + 1 ? end : c + 1;
        r->share[c][with] += (float)(high - low);
    }
    return c;
}

/* Who transfers waits for its peers, from when it could begin. */
static bool waits(const plan_task *task)
{
    return task->comm >= 0 || task->channel >= 0;
}

static void fill_row(timeline *t, row *r, const plan_event *e,
                     const plan_task *task)
{
    int32_t c, end;
    if (waits(task) && e->ready_ns < e->start_ns)
        add_share(t, r, e->ready_ns, e->start_ns, WAIT, &c);
    end = add_share(t, r, e->start_ns, e->end_ns, paint_of(task), &c);
    for (; c < end; c++) {
        r->micro_batch[c] = e->micro_batch;
        r->phase[c] = phase_of(task);
    }
}

/* From the first kernel to the last end: data may be loaded a step ahead, and
 * would push everything else to the right. */
static void find_span(timeline *t, const plan_trace *trace)
{
    t->from = INT64_MAX;
    for (int32_t i = 0; i < trace->events.n; i++) {
        const plan_event *e = &trace->events.at[i];
        const plan_role *role = plan_role_of_rank(t->plan, e->rank);
        bool computes = role->streams[e->stream].kind == PLAN_STREAM_COMPUTE;
        if (computes && e->start_ns < t->from)
            t->from = e->start_ns;
        if (e->end_ns > t->to)
            t->to = e->end_ns;
    }
}

static void spread(timeline *t, const plan_trace *trace)
{
    find_span(t, trace);
    if (t->to <= t->from)
        t->from = t->to - 1;
    for (int32_t i = 0; i < trace->events.n; i++) {
        const plan_event *e = &trace->events.at[i];
        const plan_role *role = plan_role_of_rank(t->plan, e->rank);
        row *r = row_of(t, e->rank, e->stream);
        if (r)
            fill_row(t, r, e, &role->tasks[e->task]);
    }
}

static paint most_of(const row *r, int32_t c)
{
    paint best = IDLE;
    float share = 0.5f, sum = 0;
    for (int32_t k = 1; k < PAINTS; k++)
        sum += r->share[c][k];
    if (sum < share)
        return IDLE;
    for (int32_t k = 1; k < PAINTS; k++)
        if (best == IDLE || r->share[c][k] > r->share[c][best])
            best = (paint)k;
    return best;
}

/* In points: the left edge, the middle's height. */
typedef struct area {
    double x, y, width, height;
} area;

static void place(draw *d, Agnode_t *n, area a)
{
    draw_setf(d, n, "pos", "%.2f,%.2f!", a.x + a.width / 2, a.y);
    draw_setf(d, n, "width", "%.4f", a.width / 72);
    draw_setf(d, n, "height", "%.4f", a.height / 72);
    draw_set(n, "fixedsize", "true");
    draw_set(n, "margin", "0");
}

static Agnode_t *put_text(timeline *t, double x, double y, double width,
                          const char *text)
{
    static const char label[] = "plaintext";
    Agnode_t *n = agnode(t->d.graph, NULL, 1);
    draw_set(n, "shape", label);
    draw_set(n, "label", text);
    place(&t->d, n, (area){x, y, width, 14});
    return n;
}

static Agnode_t *put_box(timeline *t, const row *r, int32_t from, paint colour)
{
    Agnode_t *n = draw_node(&t->d, t->d.graph,
                            fs_printf(t->d.arena, "b%d_%d_%d_%d", r->rank,
                                      r->stream, from, t->d.drawn.nodes));
    draw_set(n, "shape", "box");
    draw_set(n, "style", "filled");
    draw_set(n, "fillcolor", colours[colour]);
    draw_set(n, "color", colours[colour]);
    draw_set(n, "penwidth", "0");
    draw_set(n, "label", "");
    return n;
}

/* What each compute row does, in one strip: F3 is the forward pass of
 * micro-batch 3. Gaps while the same pass waits belong to it. */
static void put_passes(timeline *t, const row *r, double y)
{
    for (int32_t c = 0; c < COLUMNS;) {
        paint phase = r->phase[c];
        int32_t end = c + 1, last = c;
        if (phase == IDLE) {
            c++;
            continue;
        }
        for (; end < COLUMNS && (r->phase[end] == IDLE ||
                                 (r->phase[end] == phase &&
                                  r->micro_batch[end] == r->micro_batch[c]));
             end++)
            if (r->phase[end] != IDLE)
                last = end;
        Agnode_t *n = put_box(t, r, c, phase);
        if (last - c > 18)
            draw_setf(&t->d, n, "label", phase == UPDATE ? "U" : "%c%d",
                      phase == FORWARD ? 'F' : 'B', r->micro_batch[c]);
        draw_set(n, "fontsize", "8");
        place(&t->d, n, (area){LEFT_POINTS + c, y, last + 1 - c, 9});
        c = last + 1;
    }
}

/* A simulated rank stands for its whole role. */
static const char *ranks_text(timeline *t, int32_t rank)
{
    const plan_role *role = plan_role_of_rank(t->plan, rank);
    for (int32_t i = 0; i < t->n_rows; i++)
        if (t->rows[i]->rank != rank &&
            plan_role_of_rank(t->plan, t->rows[i]->rank) == role)
            return fs_printf(t->d.arena, "rank %d", rank);
    if (role->n_ranks == 1)
        return fs_printf(t->d.arena, "rank %d", rank);
    return fs_printf(t->d.arena, "ranks %d-%d", role->first_rank,
                     role->first_rank + role->n_ranks - 1);
}

static void put_row(timeline *t, const row *r, double y)
{
    put_text(
        t, 0, y, LEFT_POINTS - 8,
        fs_printf(t->d.arena, "%s %s", ranks_text(t, r->rank),
                  report_stream_name(t->plan, r->rank, r->stream, t->d.arena)));
    bool passes = r->kind == PLAN_STREAM_COMPUTE;
    for (int32_t c = 0; c < COLUMNS;) {
        paint colour = most_of(r, c);
        int32_t end = c + 1;
        while (end < COLUMNS && most_of(r, end) == colour &&
               r->micro_batch[end] == r->micro_batch[c])
            end++;
        if (colour != IDLE)
            place(&t->d, put_box(t, r, c, colour),
                  (area){.x = LEFT_POINTS + c,
                         .y = passes ? y - 5 : y,
                         .width = end - c,
                         .height = passes ? 11 : 14});
        c = end;
    }
    if (passes)
        put_passes(t, r, y + 6);
}

/* 1, 2 or 5 times a power of ten: at least four of it are in the whole. */
static double round_step(double whole)
{
    double step = pow(10, ceil(log10(whole)));
    static const double smaller[] = {0.5, 0.4, 0.5}; /* 1, 0.5, 0.2, 0.1 */
    for (int32_t k = 0; 4 * step > whole * (1 + 1e-9); k = (k + 1) % 3)
        step *= smaller[k];
    return step;
}

static void put_ticks(timeline *t, double whole, double y)
{
    const double step = whole > 0 ? round_step(whole) : 1;
    char text[32];
    for (int32_t i = 0; i * step <= whole * (1 + 1e-9); i++)
        put_text(
            t, LEFT_POINTS + COLUMNS * (whole > 0 ? i * step / whole : 0) - 30,
            y, 60, fs_human_seconds(text, i * step));
}

static void put_frame(timeline *t, const char *title, double top)
{
    char text[32];
    double whole = (double)(t->to - t->from) * 1e-9;
    put_text(t, LEFT_POINTS, top + 46, COLUMNS,
             fs_printf(t->d.arena, "%s; the picture spans %s", title,
                       fs_human_seconds(text, whole)));
    put_ticks(t, whole, top + 24);
    for (int32_t k = 1; k < PAINTS; k++) {
        Agnode_t *n =
            put_text(t, LEFT_POINTS + (k - 1) * 110, -30, 100, names[k]);
        draw_set(n, "shape", "box");
        draw_set(n, "style", "filled,rounded");
        draw_set(n, "fillcolor", colours[k]);
        draw_set(n, "fontcolor",
                 k == MOVE || k == COLLECTIVE ? "#ffffff" : "#000000");
    }
}

static int by_rank(const void *a, const void *b)
{
    const row *x = *(row *const *)a, *y = *(row *const *)b;
    return x->rank != y->rank ? x->rank - y->rank : x->stream - y->stream;
}

fs_status report_draw_timeline(const plan *p, const plan_trace *trace,
                               const char *title, const char *file, fs_err *err,
                               report_drawn *out)
{
    const char *format;
    FS_TRY(draw_format(file, err, &format));
    if (!trace->events.n)
        return fs_fail(err, FS_INVALID, "%s: the trace is empty", file);
    timeline t = {.plan = p};
    draw_begin(&t.d, "timeline");
    draw_set(t.d.graph, "splines", "false");
    spread(&t, trace);
    qsort(t.rows, (size_t)t.n_rows, sizeof t.rows[0], by_rank);
    double top = (double)t.n_rows * ROW_POINTS;
    put_frame(&t, title, top - ROW_POINTS);
    for (int32_t i = 0; i < t.n_rows; i++)
        put_row(&t, t.rows[i], top - (i + 1) * ROW_POINTS);
    return draw_finish(&t.d, "nop2", file, err, out);
}
