#include "config.h"
#include "cli/bodies.h"

#include "ir/element.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- complaints ---- */

void cli_complain(cli_complaint *out, int status, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    out->status = status;
    out->told = json_pack("{s:o}", "error", fs_json_string(text));
}

/* Where in an input the reader is: [0][3]. */
typedef struct place {
    const cli_served_tensor *t;
    int32_t n;
    int64_t at[IR_MAX_RANK + 1];
    cli_complaint *complaint;
} place;

static fs_status complain_at(const place *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static fs_status complain_at(const place *p, const char *format, ...)
{
    char what[512], where[IR_MAX_RANK * 24 + 32] = "";
    size_t n = 0;
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    json_t *element = json_array();
    for (int32_t i = 0; i < p->n; i++) {
        n += (size_t)snprintf(where + n, sizeof where - n, "[%" PRId64 "]",
                              p->at[i]);
        json_array_append_new(element, json_integer(p->at[i]));
    }
    cli_complain(p->complaint, 400, "input '%s'%s%s: %s", p->t->name,
                 n ? ", element " : "", where, what);
    json_object_set_new(p->complaint->told, "input",
                        fs_json_string(p->t->name));
    json_object_set_new(p->complaint->told, "element", element);
    return FS_INVALID;
}

/* ---- one element ---- */

static const char *json_kind(const json_t *value)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",
        [JSON_STRING] = "a text",    [JSON_INTEGER] = "a whole number",
        [JSON_REAL] = "a number",    [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null"};
    return names[json_typeof(value)];
}

static bool is_unsigned(ir_dtype dtype)
{
    return dtype == IR_U8 || dtype == IR_U16 || dtype == IR_U32 ||
           dtype == IR_U64;
}

static fs_status check_int(const place *p, int64_t value)
{
    const cli_served_tensor *t = p->t;
    const int64_t bits = 8 * ir_dtype_bytes(t->dtype);
    if (t->below > 0 && (value < 0 || value >= t->below))
        return complain_at(p, "%" PRId64 " is not from 0 to %" PRId64, value,
                           t->below - 1);
    const bool below_zero = is_unsigned(t->dtype) && value < 0;
    const int64_t most =
        bits < 64 ? (INT64_C(1) << (bits - !is_unsigned(t->dtype))) - 1
                  : INT64_MAX;
    if (below_zero || value > most ||
        (!is_unsigned(t->dtype) && value < -most - 1))
        return complain_at(p, "%" PRId64 " does not fit into %s", value,
                           ir_dtype_name(t->dtype));
    return FS_OK;
}

static fs_status read_int(const place *p, const json_t *value, void *out,
                          int64_t at)
{
    const double most = 0x1p63, real = json_number_value(value);
    int64_t whole;
    if (!json_is_number(value))
        return complain_at(p, "%s, where a whole number is wanted",
                           json_kind(value));
    if (json_is_real(value) &&
        (real != floor(real) || real >= most || real < -most))
        return complain_at(p, "%.17g is no whole number", real);
    whole = json_is_real(value) ? (int64_t)real : json_integer_value(value);
    FS_TRY(check_int(p, whole));
    ir_element_set_int(p->t->dtype, out, at, whole);
    return FS_OK;
}

static fs_status read_bool(const place *p, const json_t *value, void *out,
                           int64_t at)
{
    const json_int_t whole = json_integer_value(value);
    if (!json_is_boolean(value) &&
        !(json_is_integer(value) && (whole == 0 || whole == 1)))
        return complain_at(p, "%s, where true or false is wanted",
                           json_kind(value));
    ir_element_set_int(p->t->dtype, out, at, json_is_true(value) || whole == 1);
    return FS_OK;
}

static fs_status read_real(const place *p, const json_t *value, void *out,
                           int64_t at)
{
    const double real = json_number_value(value);
    if (!json_is_number(value))
        return complain_at(p, "%s, where a number is wanted", json_kind(value));
    ir_element_set_real(p->t->dtype, out, at, real);
    if (!isfinite(ir_element_real(p->t->dtype, out, at)))
        return complain_at(p, "%.9g is too large for %s", real,
                           ir_dtype_name(p->t->dtype));
    return FS_OK;
}

static fs_status read_element(const place *p, const json_t *value, void *out,
                              int64_t at)
{
    return p->t->dtype == IR_BOOL           ? read_bool(p, value, out, at)
           : ir_dtype_is_float(p->t->dtype) ? read_real(p, value, out, at)
                                            : read_int(p, value, out, at);
}

/* ---- one input ---- */

/* Lists within lists of these lengths; elements go on from *at. */
static fs_status read_list(place *p, const json_t *value, const ir_shape *shape,
                           void *out, int64_t *at)
{
    const int32_t depth = p->n;
    if (depth == shape->rank)
        return read_element(p, value, out, (*at)++);
    if (!json_is_array(value))
        return complain_at(p, "%s, where a list of %" PRId64 " is wanted",
                           json_kind(value), shape->dim[depth]);
    if ((int64_t)json_array_size(value) != shape->dim[depth])
        return complain_at(p, "a list of %zu, where %" PRId64 " are wanted",
                           json_array_size(value), shape->dim[depth]);
    p->n++;
    for (int64_t i = 0; i < shape->dim[depth]; i++) {
        p->at[depth] = i;
        FS_TRY(read_list(p, json_array_get(value, (size_t)i), shape, out, at));
    }
    p->n--;
    return FS_OK;
}

static int32_t depth_of(const json_t *value)
{
    int32_t depth = 0;
    for (; json_is_array(value) && json_array_size(value) > 0 &&
           depth <= IR_MAX_RANK + 1;
         depth++)
        value = json_array_get(value, 0);
    return depth;
}

static fs_status complain_of_shape(const place *p)
{
    char text[160];
    return complain_at(p,
                       "wants one sample of shape %s, a list of such samples, "
                       "or their %" PRId64 " elements each in one list",
                       ir_shape_text(text, &p->t->sample), p->t->elements);
}

/* How the value is nested, and how many samples that makes. */
static fs_status find_shape(const place *p, const json_t *value,
                            ir_shape *shape, int64_t *n)
{
    const ir_shape *sample = &p->t->sample;
    const int32_t depth = depth_of(value);
    const int64_t size = (int64_t)json_array_size(value);
    *n = 1;
    *shape = *sample;
    if (depth == sample->rank && (depth != 1 || size == p->t->elements))
        return FS_OK;
    if (depth == 0 || depth > IR_MAX_RANK)
        return complain_of_shape(p);
    shape->rank = depth;
    shape->dim[0] = size;
    *n = size;
    if (depth == 1) {
        *n = size / p->t->elements;
        return *n * p->t->elements == size ? FS_OK : complain_of_shape(p);
    }
    if (depth != sample->rank + 1)
        return complain_of_shape(p);
    for (int32_t i = 0; i < sample->rank; i++)
        shape->dim[i + 1] = sample->dim[i];
    return FS_OK;
}

static fs_status check_samples(const cli_served *served, const place *p,
                               int64_t n)
{
    if (n <= served->batch)
        return FS_OK;
    cli_complain(p->complaint, 413,
                 "input '%s' has %" PRId64 " samples; a request has at most "
                 "%" PRId64 ", the batch of the plan",
                 p->t->name, n, served->batch);
    return FS_INVALID;
}

/* Where an axis of samples and a sample's own make more than a shape may have,
 * samples are given in one list. */
static fs_status read_input(const cli_served *served,
                            const cli_served_tensor *t, const json_t *value,
                            cli_complaint *out, cli_request *r)
{
    place p = {.t = t, .complaint = out};
    ir_shape shape;
    int64_t n, at = 0;
    FS_TRY(find_shape(&p, value, &shape, &n));
    FS_TRY(check_samples(served, &p, n));
    if (r->n > 0 && n != r->n) {
        cli_complain(out, 400,
                     "input '%s' has %" PRId64 " samples, input '%s' %" PRId64,
                     t->name, n, served->in[0].name, r->n);
        return FS_INVALID;
    }
    r->n = n;
    void **in = &r->in[t - served->in];
    *in = fs_malloc((size_t)(n * t->bytes));
    return read_list(&p, value, &shape, *in, &at);
}

/* ---- a body ---- */

/* Digits, sign, point, exponent, and what stands between numbers. */
enum { TEXT_BYTES = 40, FRAME_BYTES = 4096 };

int64_t cli_body_most_bytes(const cli_served *served, bool raw)
{
    int64_t bytes = 0, elements = 0;
    for (int32_t i = 0; i < served->n_in; i++) {
        bytes += served->in[i].bytes;
        elements += served->in[i].elements;
    }
    return raw ? bytes * served->batch
               : elements * served->batch * TEXT_BYTES +
                     (int64_t)FRAME_BYTES * (served->n_in + 1);
}

/* Before anything is made of it: a number takes two bytes of text, and twenty
 * times as many as a value. */
static fs_status check_length(const cli_served *served, const char *body,
                              size_t bytes, cli_complaint *out)
{
    int64_t elements = FRAME_BYTES, commas = 0;
    for (int32_t i = 0; i < served->n_in; i++)
        elements += served->in[i].elements * served->batch;
    for (const char *at = body;
         (at = memchr(at, ',', bytes - (size_t)(at - body))) != NULL; at++)
        commas++;
    if (commas <= elements)
        return FS_OK;
    cli_complain(out, 413,
                 "more numbers than %" PRId64 " samples have, the most that a "
                 "request may",
                 served->batch);
    return FS_INVALID;
}

static fs_status check_names(const cli_served *served, json_t *inputs,
                             cli_complaint *out)
{
    const char *name;
    json_t *value;
    json_object_foreach(inputs, name, value)
    {
        int32_t i = 0;
        while (i < served->n_in && strcmp(served->in[i].name, name) != 0)
            i++;
        if (i == served->n_in) {
            cli_complain(out, 400,
                         "there is no input '%.200s' (GET /v1/model lists the "
                         "inputs)",
                         name);
            return FS_INVALID;
        }
    }
    return FS_OK;
}

static fs_status read_inputs(const cli_served *served, json_t *root,
                             cli_request *r, cli_complaint *out)
{
    json_t *inputs = json_object_get(root, "inputs");
    if (!json_is_object(inputs) || json_object_size(root) != 1) {
        cli_complain(out, 400,
                     "the body is to be {\"inputs\": {NAME: VALUES}}");
        return FS_INVALID;
    }
    FS_TRY(check_names(served, inputs, out));
    for (int32_t i = 0; i < served->n_in; i++) {
        const cli_served_tensor *t = &served->in[i];
        const json_t *value = json_object_get(inputs, t->name);
        if (!value) {
            cli_complain(out, 400, "input '%s' is missing", t->name);
            return FS_INVALID;
        }
        FS_TRY(read_input(served, t, value, out, r));
    }
    return FS_OK;
}

static fs_status read_json(const cli_served *served, const char *body,
                           size_t bytes, cli_request *r, cli_complaint *out)
{
    json_error_t error;
    FS_TRY(check_length(served, body, bytes, out));
    json_t *root = json_loadb(body, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root) {
        cli_complain(out, 400, "the body is no JSON: line %d, column %d: %s",
                     error.line, error.column, error.text);
        return FS_INVALID;
    }
    const fs_status status = read_inputs(served, root, r, out);
    json_decref(root);
    return status;
}

static fs_status check_raw(const cli_served_tensor *t, const void *data,
                           int64_t n, cli_complaint *out)
{
    place p = {.t = t, .n = 2, .complaint = out};
    if (ir_dtype_is_float(t->dtype))
        return FS_OK;
    for (int64_t i = 0; i < n * t->elements; i++) {
        const int64_t value = ir_element_int(t->dtype, data, i);
        p.at[0] = i / t->elements;
        p.at[1] = i % t->elements;
        if (t->dtype == IR_BOOL && ((const uint8_t *)data)[i] > 1)
            return complain_at(&p, "a byte of %d, where 0 or 1 is wanted",
                               ((const uint8_t *)data)[i]);
        if (t->below > 0)
            FS_TRY(check_int(&p, value));
    }
    return FS_OK;
}

static fs_status read_raw(const cli_served *served, const char *body,
                          size_t bytes, cli_request *r, cli_complaint *out)
{
    const cli_served_tensor *t = &served->in[0];
    const place p = {.t = t, .complaint = out};
    if (served->n_in != 1) {
        cli_complain(out, 415,
                     "the network has %d inputs, and one can be sent as it "
                     "lies in memory: send JSON",
                     served->n_in);
        return FS_INVALID;
    }
    if (bytes == 0 || (int64_t)bytes % t->bytes != 0) {
        cli_complain(out, 400,
                     "%zu bytes, where a multiple of %" PRId64
                     " is wanted: input '%s' has so many a sample",
                     bytes, t->bytes, t->name);
        return FS_INVALID;
    }
    r->n = (int64_t)bytes / t->bytes;
    FS_TRY(check_samples(served, &p, r->n));
    r->in[0] = fs_malloc(bytes);
    memcpy(r->in[0], body, bytes);
    return check_raw(t, r->in[0], r->n, out);
}

void cli_request_free(const cli_served *served, cli_request *r)
{
    for (int32_t i = 0; r->in && i < served->n_in; i++)
        free(r->in[i]);
    for (int32_t i = 0; r->out && i < served->n_out; i++)
        free(r->out[i]);
    free(r->in);
    free(r->out);
    r->in = r->out = NULL;
}

fs_status cli_body_read(const cli_served *served, const char *body,
                        size_t bytes, bool raw, cli_request *r,
                        cli_complaint *out)
{
    const size_t room = (size_t)served->n_in * sizeof *r->in;
    r->n = 0;
    r->in = fs_malloc(room);
    memset(r->in, 0, room);
    const fs_status status = raw ? read_raw(served, body, bytes, r, out)
                                 : read_json(served, body, bytes, r, out);
    if (status != FS_OK)
        cli_request_free(served, r);
    return status;
}

/* ---- answers ---- */

/* As many digits as tell apart the values that the type has; -0 keeps its sign
 * as a real does. */
static void write_element(FILE *out, ir_dtype dtype, const void *data,
                          int64_t at)
{
    if (dtype == IR_BOOL) {
        fputs(ir_element_int(dtype, data, at) ? "true" : "false", out);
    } else if (dtype == IR_U64) {
        fprintf(out, "%" PRIu64, (uint64_t)ir_element_int(dtype, data, at));
    } else if (!ir_dtype_is_float(dtype)) {
        fprintf(out, "%" PRId64, ir_element_int(dtype, data, at));
    } else {
        const double value = ir_element_real(dtype, data, at);
        if (!isfinite(value))
            fputs("null", out);
        else if (value == 0)
            fputs(signbit(value) ? "-0.0" : "0.0", out);
        else
            fprintf(out, dtype == IR_F64 ? "%.17g" : "%.9g", value);
    }
}

static void write_list(FILE *out, const cli_served_tensor *t, int32_t depth,
                       const void *data, int64_t *at)
{
    if (depth == t->sample.rank) {
        write_element(out, t->dtype, data, (*at)++);
        return;
    }
    for (int64_t i = 0; i < t->sample.dim[depth]; i++) {
        putc(i ? ',' : '[', out);
        write_list(out, t, depth + 1, data, at);
    }
    putc(']', out);
}

char *cli_body_write(const cli_served *served, const cli_request *r,
                     size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    FS_ASSERT(out);
    fputs("{\"outputs\":{", out);
    for (int32_t i = 0; i < served->n_out; i++) {
        const cli_served_tensor *t = &served->out[i];
        json_t *name = fs_json_string(t->name);
        char *quoted = json_dumps(name, JSON_ENCODE_ANY);
        int64_t at = 0;
        fprintf(out, "%s%s:", i ? "," : "", quoted);
        for (int64_t k = 0; k < r->n; k++) {
            putc(k ? ',' : '[', out);
            write_list(out, t, 0, r->out[i], &at);
        }
        putc(']', out);
        free(quoted);
        json_decref(name);
    }
    fputs("}}\n", out);
    fclose(out);
    return text;
}
