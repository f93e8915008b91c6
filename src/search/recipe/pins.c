#include "config.h"
#include "search/recipe/pins.h"

#include "base/regex.h"

#include <string.h>

static fs_status parse_pin(const char *text, fs_arena *arena, fs_err *err,
                           search_pin *out)
{
    regex_t regex;
    fs_err why = {0};
    ir_nd_sbp sbp = {0};
    const char *equals = strrchr(text, '=');
    if (!equals || equals == text ||
        ir_nd_sbp_parse(equals + 1, 1, &why, &sbp) != FS_OK ||
        ir_sbp_is_partial(sbp.at[0]) || ir_sbp_has_halo(sbp.at[0]))
        return fs_fail(err, FS_INVALID,
                       "'%.80s': REGEX=S(0), another axis, or REGEX=B is "
                       "wanted",
                       text);
    *out = (search_pin){text, fs_strndup(arena, text, (size_t)(equals - text)),
                        sbp.at[0]};
    FS_TRY(fs_regex_compile(out->pattern, err, &regex));
    regfree(&regex);
    return FS_OK;
}

fs_status search_pins_parse(int32_t n, const char *const *text, fs_arena *arena,
                            fs_err *err, search_pins *out)
{
    search_pin *pins = fs_new(arena, search_pin, n);
    for (int32_t i = 0; i < n; i++)
        FS_TRY(parse_pin(text[i], arena, err, &pins[i]));
    *out = (search_pins){n, pins};
    return FS_OK;
}

static fs_status check_axis(const search_pin *pin, const ir_tensor *t,
                            fs_err *err)
{
    char shape[160];
    if (pin->sbp.kind != IR_S || pin->sbp.axis < t->shape.rank)
        return FS_OK;
    return fs_fail(err, FS_INVALID, "'%.80s': %s is %s and has no axis %d",
                   pin->text, t->name, ir_shape_text(shape, &t->shape),
                   pin->sbp.axis);
}

static fs_status contradict(const search_pin *a, const search_pin *b,
                            const ir_tensor *t, fs_err *err)
{
    return fs_fail(err, FS_INVALID,
                   "'%.80s' and '%.80s' contradict each other: both match %s",
                   a->text, b->text, t->name);
}

/* One parameter that the pin matches. */
static fs_status take(const search_pin *pin, const ir_tensor *t, fs_err *err,
                      const search_pin **pin_of)
{
    FS_TRY(check_axis(pin, t, err));
    if (*pin_of && !ir_sbp_equal((*pin_of)->sbp, pin->sbp))
        return contradict(*pin_of, pin, t, err);
    *pin_of = pin;
    return FS_OK;
}

static bool is_parameter(const ir_graph *graph, const ir_tensor *t)
{
    return t->role == IR_PARAM &&
           graph->nodes.at[t->producer].op == IR_OP_variable;
}

/* Of the longest stretch that stands in both. */
static int32_t common_letters(const char *pattern, const char *name)
{
    int32_t most = 0;
    for (const char *a = pattern; *a; a++)
        for (const char *b = name; *b; b++) {
            int32_t n = 0;
            while (a[n] && a[n] == b[n])
                n++;
            most = n > most ? n : most;
        }
    return most;
}

enum { SHOWN = 3 };
typedef struct alike {
    const char *name;
    int32_t common;
} alike;

/* Most in common first; of equals the first of the network. */
static void note_alike(alike list[SHOWN], const char *name, int32_t common)
{
    int32_t at = SHOWN;
    while (at > 0 && (!list[at - 1].name || list[at - 1].common < common))
        at--;
    for (int32_t k = SHOWN - 1; k > at; k--)
        list[k] = list[k - 1];
    if (at < SHOWN)
        list[at] = (alike){name, common};
}

/* Whoever misspelt a name sees how parameters are called. */
static fs_status match_none(const search_pin *pin, const ir_graph *graph,
                            fs_arena *arena, fs_err *err)
{
    alike list[SHOWN] = {0};
    for (int32_t i = 0; i < graph->tensors.n; i++) {
        const ir_tensor *t = &graph->tensors.at[i];
        if (is_parameter(graph, t))
            note_alike(list, t->name, common_letters(pin->pattern, t->name));
    }
    fs_text names = {.arena = arena};
    for (int32_t k = 0; k < SHOWN && list[k].name; k++)
        fs_text_add(&names, "%s %.80s", k ? "," : "", list[k].name);
    return fs_fail(err, FS_INVALID,
                   "'%.80s' matches no parameter; the nearest:%s", pin->text,
                   names.at ? names.at : " there is none");
}

static fs_status find_parameters(const search_pin *pin, const ir_graph *graph,
                                 fs_arena *arena, fs_err *err,
                                 const search_pin **pin_of)
{
    regex_t regex;
    fs_status status = fs_regex_compile(pin->pattern, err, &regex);
    bool found = false;
    if (status != FS_OK)
        return status;
    for (int32_t i = 0; status == FS_OK && i < graph->tensors.n; i++) {
        const ir_tensor *t = &graph->tensors.at[i];
        if (!is_parameter(graph, t) ||
            regexec(&regex, t->name, 0, NULL, 0) != 0)
            continue;
        found = true;
        status = take(pin, t, err, &pin_of[i]);
    }
    regfree(&regex);
    return status != FS_OK || found ? status
                                    : match_none(pin, graph, arena, err);
}

/* What an update keeps beside its parameter lies as that does. */
static void find_states(const ir_graph *graph, const search_pin **pin_of)
{
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        if (ir_op_class_of(node->op) != IR_CLASS_UPDATE)
            continue;
        for (int32_t k = 1; k < node->n_in; k++)
            if (graph->tensors.at[node->in[k]].role == IR_STATE)
                pin_of[node->in[k]] = pin_of[node->in[0]];
    }
}

fs_status search_pins_find(const search_pins *pins, const ir_graph *graph,
                           fs_arena *arena, fs_err *err,
                           const search_pin ***out)
{
    const search_pin **pin_of =
        fs_new(arena, const search_pin *, graph->tensors.n);
    for (int32_t i = 0; i < pins->n; i++)
        FS_TRY(find_parameters(&pins->at[i], graph, arena, err, pin_of));
    find_states(graph, pin_of);
    *out = pin_of;
    return FS_OK;
}

fs_status search_pins_check_devices(const search_pins *pins, int32_t devices,
                                    fs_err *err)
{
    for (int32_t i = 0; devices == 1 && i < pins->n; i++)
        if (pins->at[i].sbp.kind == IR_S)
            return fs_fail(err, FS_INVALID,
                           "'%.80s': a stage has one device here, on which "
                           "nothing is cut",
                           pins->at[i].text);
    return FS_OK;
}

bool search_pins_concern(const search_pin *const *pin_of, const ir_node *node)
{
    bool concern = false;
    for (int32_t k = 0; k < node->n_in; k++)
        concern |= pin_of[node->in[k]] != NULL;
    for (int32_t k = 0; k < node->n_out; k++)
        concern |= pin_of[node->out[k]] != NULL;
    return concern;
}

static bool lies(const ir_nd_sbp *sbp, const ir_mesh *mesh,
                 const search_pin *pin)
{
    bool cut = pin->sbp.kind == IR_B;
    for (int32_t a = 0; a < mesh->n; a++) {
        const bool as_told = ir_sbp_equal(sbp->at[a], pin->sbp);
        if (!as_told && sbp->at[a].kind != IR_B)
            return false;
        cut |= as_told;
    }
    return cut;
}

bool search_pins_allow(const search_pin *const *pin_of, const ir_node *node,
                       const ir_mesh *mesh, const ir_nd_sig *sig)
{
    for (int32_t k = 0; k < node->n_in; k++)
        if (pin_of[node->in[k]] &&
            !lies(&sig->in[k], mesh, pin_of[node->in[k]]))
            return false;
    for (int32_t k = 0; k < node->n_out; k++)
        if (pin_of[node->out[k]] &&
            !lies(&sig->out[k], mesh, pin_of[node->out[k]]))
            return false;
    return true;
}
