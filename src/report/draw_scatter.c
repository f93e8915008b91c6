/* Predicted against measured, both logarithmic: what lies on the diagonal was
 * foreseen; lines on both sides of it are a tenth off. */
#include "config.h"
#include "report/draw.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

enum {
    SIDE = 420,
    DOTS = 140,
    POINT = 5,
    LETTER = 6,
    LINE = 15,
    LEFT = 48,
    KEY = 340
};

static const char *const colours[] = {"#1f5fa8", "#d2501e", "#2a9d57",
                                      "#8b4fa8", "#c79a00", "#00a0a0",
                                      "#a83c5c", "#5c6b73"};
enum { N_COLOURS = sizeof colours / sizeof colours[0] };
static const char frame_colour[] = "#999999", line_colour[] = "#444444",
                  tenth_colour[] = "#bbbbbb";

typedef struct panel {
    draw *d;
    const report_scatter *of;
    double low, high; /* logarithms */
} panel;

static double at(const panel *p, double seconds)
{
    return SIDE * (log10(seconds) - p->low) / (p->high - p->low);
}

static void find_scale(panel *p)
{
    p->low = INFINITY;
    p->high = -INFINITY;
    for (int32_t k = 0; k < p->of->n; k++) {
        const report_scatter_point *x = &p->of->points[k];
        p->low = fmin(p->low, log10(fmin(x->measured_s, x->predicted_s)));
        p->high = fmax(p->high, log10(fmax(x->measured_s, x->predicted_s)));
    }
    p->low = floor(p->low - 0.1);
    p->high = ceil(p->high + 0.1);
}

static void put_line(panel *p, double x, double y, double width, double height)
{
    draw_put_filled(p->d, "box", frame_colour, (draw_box){x, y, width, height});
}

static void put_text(panel *p, const char *text, double x, double y)
{
    draw_put(p->d, "plaintext", text,
             (draw_box){x, y, LETTER * (double)strlen(text), 12});
}

static void put_frame(panel *p)
{
    char text[32];
    for (double k = p->low; k <= p->high; k++) {
        const double s = at(p, pow(10, k));
        put_line(p, SIDE / 2.0, s, SIDE, 0.6);
        put_line(p, s, SIDE / 2.0, 0.6, SIDE);
        put_text(p, fs_human_seconds(text, pow(10, k)), s, -12);
        put_text(p, fs_human_seconds(text, pow(10, k)), -LEFT / 2.0 - 6, s);
    }
    put_text(p, p->of->title, SIDE / 2.0, SIDE + 16);
    put_text(p, "measured", SIDE / 2.0, -30);
    put_text(p, "predicted", -LEFT / 2.0, SIDE + 16);
}

static void put_diagonal(panel *p, double times, const char *colour)
{
    for (int32_t k = 0; k <= DOTS; k++) {
        const double x = (double)k * SIDE / DOTS;
        const double y = x + SIDE * log10(times) / (p->high - p->low);
        if (y >= 0 && y <= SIDE)
            draw_put_filled(p->d, "circle", colour, (draw_box){x, y, 1.4, 1.4});
    }
}

/* Names begin below each other. */
static void put_name(panel *p, int32_t line, const char *colour,
                     const char *name)
{
    const double y = SIDE - 8.0 - LINE * line, wide = KEY;
    draw_put_filled(p->d, "circle", colour, (draw_box){SIDE + 20, y, 8, 8});
    Agnode_t *n =
        draw_put(p->d, "plaintext", fs_printf(p->d->arena, "%s\\l", name),
                 (draw_box){SIDE + 34 + wide / 2, y, wide, 12});
    draw_set(n, "fixedsize", "true");
}

static void put_key(panel *p)
{
    const int32_t n = p->of->n_series;
    for (int32_t k = 0; k < n; k++)
        put_name(p, k, colours[k % N_COLOURS], p->of->series[k]);
    put_name(p, n + 1, line_colour, "predicted as measured");
    put_name(p, n + 2, tenth_colour, "10 % less and 10 % more than that");
}

fs_status report_draw_scatter(const report_scatter *scatter, const char *file,
                              fs_err *err, report_drawn *out)
{
    const char *format;
    draw d;
    FS_TRY(draw_format(file, err, &format));
    draw_begin(&d, "scatter");
    draw_set(d.graph, "splines", "false");
    panel p = {.d = &d, .of = scatter};
    find_scale(&p);
    put_frame(&p);
    put_diagonal(&p, 0.9, tenth_colour);
    put_diagonal(&p, 1.1, tenth_colour);
    put_diagonal(&p, 1, line_colour);
    for (int32_t k = 0; k < scatter->n; k++) {
        const report_scatter_point *x = &scatter->points[k];
        draw_put_filled(&d, "circle", colours[x->series % N_COLOURS],
                        (draw_box){at(&p, x->measured_s),
                                   at(&p, x->predicted_s), POINT, POINT});
    }
    put_key(&p);
    return draw_finish(&d, "nop2", file, err, out);
}
