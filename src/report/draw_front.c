/* What one figure costs in another: points with their proven bounds, and the
 * staircase that they make. One panel beside the other. */
#include "config.h"
#include "report/draw.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

enum {
    WIDTH = 440,
    HEIGHT = 280,
    APART = 560,
    TICKS = 4,
    LABEL = 190,
    POINT = 8,
    LETTER = 6
};

static const char plan_colour[] = "#1f5fa8", bound_colour[] = "#d2501e",
                  frame_colour[] = "#999999";

/* A panel's scales. */
typedef struct panel {
    draw *d;
    const report_front *front;
    double left;
    double x[2], y[2]; /* least and most */
} panel;

static void find_scales(panel *p)
{
    const report_front *f = p->front;
    p->x[0] = p->y[0] = INFINITY;
    p->x[1] = p->y[1] = 0;
    for (int32_t k = 0; k < f->n; k++) {
        const report_front_point *at = &f->points[k];
        p->x[0] = fmin(p->x[0], at->x);
        p->x[1] = fmax(p->x[1], at->x);
        p->y[0] = fmin(p->y[0], at->bound_s);
        p->y[1] = fmax(p->y[1], at->seconds);
    }
    /* a margin; one point alone has a scale too */
    const double dx = fmax(0.1 * (p->x[1] - p->x[0]), 0.02 * p->x[1]);
    const double dy = fmax(0.1 * (p->y[1] - p->y[0]), 0.02 * p->y[1]);
    p->x[0] = fmax(p->x[0] - dx, 0);
    p->x[1] += dx;
    p->y[0] = fmax(p->y[0] - dy, 0);
    p->y[1] += dy;
}

static double across(const panel *p, double x)
{
    return p->left + WIDTH * (x - p->x[0]) / (p->x[1] - p->x[0]);
}

static double up(const panel *p, double seconds)
{
    return HEIGHT * (seconds - p->y[0]) / (p->y[1] - p->y[0]);
}

/* Between two corners of a rectangle without width or height. */
static void put_line(panel *p, const char *colour, double thick,
                     const double from[2], const double to[2])
{
    draw_put_filled(p->d, "box", colour,
                    (draw_box){(from[0] + to[0]) / 2, (from[1] + to[1]) / 2,
                               fmax(fabs(to[0] - from[0]), thick),
                               fmax(fabs(to[1] - from[1]), thick)});
}

static void put_text(panel *p, const char *text, double x, double y)
{
    draw_put(p->d, "plaintext", text, (draw_box){x, y, LABEL, 12});
}

static const char *x_text(const panel *p, double x)
{
    char text[32];
    if (p->front->what == REPORT_BYTES)
        return fs_strdup(p->d->arena, fs_human_bytes(text, x));
    return fs_printf(p->d->arena, "$ %.3g", x);
}

static void put_frame(panel *p)
{
    const double l = p->left, r = l + WIDTH;
    const double corner[4][2] = {{l, 0}, {r, 0}, {r, HEIGHT}, {l, HEIGHT}};
    char text[32];
    for (int32_t k = 0; k < 4; k++)
        put_line(p, frame_colour, 0.8, corner[k], corner[(k + 1) % 4]);
    for (int32_t k = 0; k <= TICKS; k++) {
        const double part = (double)k / TICKS;
        put_text(p, x_text(p, p->x[0] + part * (p->x[1] - p->x[0])),
                 l + part * WIDTH, -12);
        put_text(p,
                 fs_human_seconds(text, p->y[0] + part * (p->y[1] - p->y[0])),
                 l - 32, part * HEIGHT);
    }
    put_text(p, p->front->title, l + WIDTH / 2, HEIGHT + 34);
    put_text(p, p->front->x_name, l + WIDTH / 2, -30);
    put_text(p, "seconds per iteration", l, HEIGHT + 12);
}

/* From each point to the next one to its right, where more buys a plan that is
 * faster. Points come fastest first. */
static void put_stairs(panel *p)
{
    const report_front *f = p->front;
    for (int32_t k = 0; k < f->n; k++) {
        const report_front_point *at = &f->points[k];
        const double x = across(p, at->x), y = up(p, at->seconds);
        const double end =
            k > 0 ? across(p, f->points[k - 1].x) : p->left + WIDTH;
        const double from[2] = {x, y}, to[2] = {end, y};
        put_line(p, plan_colour, 1.2, from, to);
        if (k == 0)
            continue;
        const double below[2] = {end, up(p, f->points[k - 1].seconds)};
        put_line(p, plan_colour, 1.2, to, below);
    }
}

static void put_points(panel *p)
{
    const report_front *f = p->front;
    for (int32_t k = 0; k < f->n; k++) {
        const report_front_point *at = &f->points[k];
        const double x = across(p, at->x), y = up(p, at->seconds);
        const double low[2] = {x, up(p, at->bound_s)}, high[2] = {x, y};
        const double dash[2][2] = {{x - 6, low[1]}, {x + 6, low[1]}};
        put_line(p, bound_colour, 0.8, low, high);
        put_line(p, bound_colour, 1.6, dash[0], dash[1]);
        draw_put_filled(p->d, "circle", plan_colour,
                        (draw_box){x, y, POINT, POINT});
        const double wide = LETTER * (double)strlen(at->label);
        draw_put(p->d, "plaintext", at->label,
                 (draw_box){x + POINT + wide / 2, y + POINT, wide, 12});
    }
}

static void put_key(draw *d)
{
    panel p = {.d = d};
    const char *const texts[] = {"the plan", "nothing is below: proven"};
    const char *const colours[] = {plan_colour, bound_colour};
    for (int32_t k = 0; k < 2; k++) {
        const double x = 20 + 150.0 * k;
        draw_put_filled(d, "box", colours[k],
                        (draw_box){x, -52, 14, k ? 2 : 8});
        put_text(&p, texts[k], x + 14 + LETTER * (double)strlen(texts[k]) / 2,
                 -52);
    }
}

fs_status report_check_picture(const char *file, fs_err *err)
{
    const char *format;
    return draw_format(file, err, &format);
}

fs_status report_draw_fronts(const report_front *fronts, int32_t n,
                             const char *file, fs_err *err, report_drawn *out)
{
    const char *format;
    draw d;
    FS_TRY(draw_format(file, err, &format));
    draw_begin(&d, "front");
    draw_set(d.graph, "splines", "false");
    for (int32_t k = 0; k < n; k++) {
        panel p = {.d = &d, .front = &fronts[k], .left = (double)APART * k};
        find_scales(&p);
        put_frame(&p);
        put_stairs(&p);
        put_points(&p);
    }
    put_key(&d);
    return draw_finish(&d, "nop2", file, err, out);
}
