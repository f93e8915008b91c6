/* Is a file a trace that Perfetto and chrome://tracing read? Each rule of the
 * trace event format that ours may break: which fields an event must have, that
 * boxes of a thread nest, that arrows begin and end in boxes, that rows are
 * named. Counters are added up. */
#ifndef FS_TESTS_TRACE_VALID_H
#define FS_TESTS_TRACE_VALID_H

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRACE_RANKS = 64 };

typedef struct trace_box {
    long long pid, tid;
    double from, to;
} trace_box;

typedef struct trace_found {
    int boxes, counters, arrows, names, wrong;
    double peak[TRACE_RANKS]; /* of counters of pid r */
    int critical;             /* boxes */
    double critical_us;
} trace_found;

static int trace_by_place(const void *a, const void *b)
{
    const trace_box *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    return x->from != y->from ? (x->from < y->from ? -1 : 1)
                              : (x->to > y->to) - (x->to < y->to);
}

static void trace_wrong(trace_found *found, const char *what, size_t i)
{
    if (found->wrong++ < 5)
        printf("# event %zu: %s\n", i, what);
}

static double trace_number(const json_t *e, const char *key)
{
    const json_t *v = json_object_get(e, key);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

static const char *trace_text(const json_t *e, const char *key)
{
    const char *text = json_string_value(json_object_get(e, key));
    return text ? text : "";
}

static void trace_counter(trace_found *found, const json_t *e, size_t i)
{
    const json_t *args = json_object_get(e, "args");
    const double pid = trace_number(e, "pid");
    double sum = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)args, key, value)
    {
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            trace_wrong(found, "a counter that is no count", i);
        sum += json_number_value(value);
    }
    if (json_object_size(args) == 0 || !(pid >= 0 && pid < TRACE_RANKS))
        trace_wrong(found, "a counter of nothing", i);
    else
        found->peak[(int)pid] = fmax(found->peak[(int)pid], sum);
    found->counters++;
}

/* Does some box hold this end? */
static bool trace_is_bound(const trace_box *boxes, int n, const json_t *e)
{
    const double pid = trace_number(e, "pid"), tid = trace_number(e, "tid");
    const double ts = trace_number(e, "ts");
    for (int i = 0; i < n; i++)
        if ((double)boxes[i].pid == pid && (double)boxes[i].tid == tid &&
            boxes[i].from <= ts && ts <= boxes[i].to)
            return true;
    return false;
}

static void trace_boxes(trace_found *found, trace_box *boxes)
{
    qsort(boxes, (size_t)found->boxes, sizeof *boxes, trace_by_place);
    for (int i = 1; i < found->boxes; i++)
        if (boxes[i].pid == boxes[i - 1].pid &&
            boxes[i].tid == boxes[i - 1].tid &&
            boxes[i].from < boxes[i - 1].to - 1e-6)
            trace_wrong(found, "boxes of a thread overlap", (size_t)i);
}

static void trace_event(trace_found *found, const json_t *e, size_t i,
                        trace_box *boxes)
{
    const char *ph = trace_text(e, "ph");
    const double ts = trace_number(e, "ts");
    if (isnan(trace_number(e, "pid")) || !trace_text(e, "name")[0])
        trace_wrong(found, "no pid or name", i);
    if (strcmp(ph, "M") == 0) {
        found->names++;
        return;
    }
    if (!(ts >= 0))
        trace_wrong(found, "no time", i);
    if (strcmp(ph, "C") == 0) {
        trace_counter(found, e, i);
    } else if (strcmp(ph, "X") == 0) {
        const double dur = trace_number(e, "dur");
        if (!(dur >= 0) || isnan(trace_number(e, "tid")))
            trace_wrong(found, "a box without a length or thread", i);
        if (strstr(trace_text(e, "cat"), "critical")) {
            found->critical++;
            found->critical_us += dur;
        }
        boxes[found->boxes++] =
            (trace_box){(long long)trace_number(e, "pid"),
                        (long long)trace_number(e, "tid"), ts, ts + dur};
    } else if (strcmp(ph, "s") == 0 || strcmp(ph, "f") == 0) {
        found->arrows++;
    } else {
        trace_wrong(found, "an unknown phase", i);
    }
}

/* Arrows come in pairs of one id, the first end not after the second. */
static void trace_arrows(trace_found *found, const json_t *list,
                         const trace_box *boxes)
{
    size_t i;
    json_t *e;
    const json_t *open = NULL;
    json_array_foreach((json_t *)list, i, e)
    {
        const char *ph = trace_text(e, "ph");
        const bool begins = strcmp(ph, "s") == 0;
        if (!begins && strcmp(ph, "f") != 0)
            continue;
        if (!trace_is_bound(boxes, found->boxes, e))
            trace_wrong(found, "an arrow's end is in no box", i);
        if (begins == (open != NULL))
            trace_wrong(found, "an arrow without its other end", i);
        if (!begins && open &&
            (trace_number(open, "id") != trace_number(e, "id") ||
             trace_number(open, "ts") > trace_number(e, "ts")))
            trace_wrong(found, "an arrow back in time", i);
        open = begins ? e : NULL;
    }
    if (open)
        trace_wrong(found, "an arrow without its other end", i);
}

static inline trace_found trace_check(const char *path)
{
    trace_found found = {0};
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    const json_t *list = json_object_get(root, "traceEvents");
    trace_box *boxes = calloc(json_array_size(list) + 1, sizeof *boxes);
    size_t i;
    json_t *e;
    if (!json_is_array(list))
        trace_wrong(&found, "no list of events", 0);
    json_array_foreach((json_t *)list, i, e) trace_event(&found, e, i, boxes);
    trace_boxes(&found, boxes);
    trace_arrows(&found, list, boxes);
    free(boxes);
    json_decref(root);
    return found;
}

#endif
