/* What every op's list of signatures leaves out. On small random instances each
 * combination of layouts on one mesh axis is tried with the plain kernels: one
 * whose pieces give the whole, for several draws of values on two and three
 * devices, is legal. It must be listed, or follow from what is listed by steps
 * that move nothing (B to S or P, S to P), or stand in unlisted.tsv with a
 * reason. Halos are ir_signatures_test's. */
#include "config.h"

#include "op_cut.h"
#include "tap.h"

enum { INSTANCES = 24, DRAWS = 3, MOST_COMBINATIONS = 70000, SELDOM = 5 };

/* One instance and the combination that is tried. */
typedef struct attempt {
    cut c;
    ir_io whole;
    ir_sig_list listed, found;
    ir_sig sig;
} attempt;

/* May a tensor that lies as `from` be taken as `to` without any transfer? */
static bool follows(ir_sbp from, ir_sbp to)
{
    return ir_sbp_equal(from, to) || from.kind == IR_B ||
           (from.kind == IR_S && ir_sbp_is_partial(to));
}

/* Can what does `by` do `sig`? */
static bool covers(const ir_node *node, const ir_sig *by, const ir_sig *sig)
{
    for (int32_t k = 0; k < node->n_in; k++)
        if (!follows(sig->in[k], by->in[k]))
            return false;
    for (int32_t k = 0; k < node->n_out; k++)
        if (!follows(by->out[k], sig->out[k]))
            return false;
    return true;
}

static bool covered(const attempt *a, const ir_sig_list *list)
{
    for (int32_t i = 0; i < list->n; i++)
        if (covers(a->c.node, &list->at[i], &a->sig))
            return true;
    return false;
}

static ir_nd_sig nd_of(const attempt *a)
{
    ir_nd_sig nd = {0};
    for (int32_t k = 0; k < a->c.node->n_in; k++)
        nd.in[k].at[0] = a->sig.in[k];
    for (int32_t k = 0; k < a->c.node->n_out; k++)
        nd.out[k].at[0] = a->sig.out[k];
    return nd;
}

/* On every device `infer` of the inputs' pieces gives the outputs' pieces. */
static bool shapes_agree(const attempt *a, const ir_nd_sig *nd, int32_t devices)
{
    const ir_mesh mesh = {1, {devices}};
    const ir_node *node = a->c.node;
    for (int32_t d = 0; d < devices; d++) {
        const int32_t at[IR_MAX_MESH] = {d};
        ir_io local = a->whole, made;
        for (int32_t k = 0; k < node->n_in; k++)
            ir_local_piece(&a->whole.in[k], &nd->in[k], &mesh, at, &local.in[k],
                           NULL);
        for (int32_t k = 0; k < node->n_out; k++)
            ir_local_piece(&a->whole.out[k], &nd->out[k], &mesh, at,
                           &local.out[k], NULL);
        const ir_node own = op_case_local(node, &local);
        made = local;
        if (ir_op_table[node->op]->infer(&own, &made, NULL) != FS_OK)
            return false;
        for (int32_t k = 0; k < node->n_out; k++)
            if (!ir_shape_equal(&made.out[k], &local.out[k]))
                return false;
    }
    return true;
}

static bool fits(const attempt *a, const ir_nd_sig *nd, int32_t devices)
{
    const ir_mesh mesh = {1, {devices}};
    for (int32_t k = 0; k < a->c.node->n_in; k++)
        if (!ir_nd_sbp_fits(&nd->in[k], &a->whole.in[k], &mesh))
            return false;
    for (int32_t k = 0; k < a->c.node->n_out; k++)
        if (!ir_nd_sbp_fits(&nd->out[k], &a->whole.out[k], &mesh))
            return false;
    return shapes_agree(a, nd, devices);
}

/* Do the pieces give the whole? */
static bool holds(attempt *a, const ir_nd_sig *nd)
{
    bool right = true;
    fs_arena *kept = a->c.arena;
    a->c.arena = fs_arena_create();
    right = cut_run(&a->c, nd, NULL) == FS_OK;
    for (int32_t k = 0; right && k < a->c.node->n_out; k++)
        right = cut_error(&a->c, k, nd->out[k].at[0]) < a->c.tolerance;
    fs_arena_destroy(a->c.arena);
    a->c.arena = kept;
    return right;
}

/* On two devices, with the values at hand: most fail here. */
static void try_one(attempt *a)
{
    const ir_nd_sig nd = nd_of(a);
    if (covered(a, &a->listed) || covered(a, &a->found) || !fits(a, &nd, 2))
        return;
    a->c.devices = 2;
    if (holds(a, &nd))
        fs_push(a->c.graph->arena, &a->found, a->sig);
}

/* Layout number `i` of a tensor: B, P, P(max), P(min), then its cuts. */
static ir_sbp layout(int32_t i)
{
    const ir_sbp whole[] = {IR_SBP_B, IR_SBP_P, IR_SBP_PMAX, IR_SBP_PMIN};
    return i < 4 ? whole[i] : IR_SBP_S(i - 4);
}

/* Outputs, those that say most first; only floats are partial. */
static void try_outputs(attempt *a, int32_t k)
{
    if (k == a->c.node->n_out) {
        try_one(a);
        return;
    }
    const int32_t first = ir_dtype_is_float(a->whole.out_dtype[k]) ? 1 : 4;
    const int32_t n = 4 + a->whole.out[k].rank;
    for (int32_t i = 0; i < n; i = i == 0 ? 4 : i + 1) {
        a->sig.out[k] = layout(i);
        try_outputs(a, k + 1);
    }
    for (int32_t i = first; i < 4; i++) {
        a->sig.out[k] = layout(i);
        try_outputs(a, k + 1);
    }
}

static void try_inputs(attempt *a, int32_t k)
{
    if (k == a->c.node->n_in) {
        try_outputs(a, 0);
        return;
    }
    const bool partial = ir_dtype_is_float(a->whole.in_dtype[k]);
    for (int32_t i = 0; i < 4 + a->whole.in[k].rank; i++) {
        if (i > 0 && i < 4 && !partial)
            continue;
        a->sig.in[k] = layout(i);
        try_inputs(a, k + 1);
    }
}

static int64_t combinations(const attempt *a)
{
    int64_t n = 1;
    for (int32_t k = 0; k < a->c.node->n_in; k++)
        n = n > MOST_COMBINATIONS ? n : n * (4 + a->whole.in[k].rank);
    for (int32_t k = 0; k < a->c.node->n_out; k++)
        n = n > MOST_COMBINATIONS ? n : n * (4 + a->whole.out[k].rank);
    return n;
}

/* With other values, on two and three devices. */
static bool stands(attempt *a, const ir_sig *sig)
{
    a->sig = *sig;
    const ir_nd_sig nd = nd_of(a);
    for (a->c.devices = 2; a->c.devices <= MAX_DEVICES; a->c.devices++)
        if (fits(a, &nd, a->c.devices) && !holds(a, &nd))
            return false;
    return true;
}

/* "B S -> P": axes have no numbers, which differ from instance to instance. */
static const char *pattern_of(const ir_node *node, const ir_sig *sig,
                              fs_arena *arena)
{
    static const char *const names[] = {"B", "S", "P", "P(max)", "P(min)"};
    fs_text text = {.arena = arena};
    for (int32_t k = 0; k < node->n_in; k++)
        fs_text_add(&text, "%s ", names[sig->in[k].kind]);
    fs_text_add(&text, "->");
    for (int32_t k = 0; k < node->n_out; k++)
        fs_text_add(&text, " %s", names[sig->out[k].kind]);
    return text.at;
}

/* ---- by op ---- */

typedef struct pattern {
    const char *text;
    int32_t times, last; /* instances that have it, the last of them */
} pattern;
typedef FS_VEC(pattern) pattern_list;

static void count_pattern(pattern_list *list, const char *text,
                          int32_t instance, fs_arena *arena)
{
    for (int32_t i = 0; i < list->n; i++)
        if (strcmp(list->at[i].text, text) == 0) {
            list->at[i].times += list->at[i].last != instance;
            list->at[i].last = instance;
            return;
        }
    fs_push(arena, list, (pattern){text, 1, instance});
}

/* False when it is too large to be tried. */
static bool try_instance(ir_op_kind op, int32_t instance, uint64_t *seed,
                         pattern_list *list, fs_arena *arena)
{
    const op_case like = {
        .op = op, .real = IR_F64, .long_axes = true, .seed = seed};
    attempt a = {0};
    bool small = false;
    if (cut_open(&a.c, &like, NULL) == FS_OK) {
        ir_node_io(a.c.graph, a.c.node, &a.whole);
        ir_signatures_1d(a.c.graph, a.c.node, a.c.graph->arena, &a.listed);
        small = combinations(&a) <= MOST_COMBINATIONS;
        if (small)
            try_inputs(&a, 0);
        for (int32_t draw = 0; draw < DRAWS; draw++) {
            cut_fill(&a.c, NULL);
            for (int32_t i = a.found.n - 1; i >= 0; i--)
                if (!stands(&a, &a.found.at[i]))
                    a.found.at[i] = a.found.at[--a.found.n];
        }
        for (int32_t i = 0; i < a.found.n; i++)
            count_pattern(list, pattern_of(a.c.node, &a.found.at[i], arena),
                          instance, arena);
    }
    cut_close(&a.c);
    return small;
}

/* Is `what` the pattern, or, after a ~, a word of its inputs? */
static bool same_pattern(const char *what, const char *text)
{
    const char *at = what[0] == '~' ? strstr(text, what + 1) : NULL;
    return strcmp(what, text) == 0 || (at && at < strstr(text, "->"));
}

/* Does unlisted.tsv accept it? Op or *, pattern or ~layout, reason. */
static bool accepted(const char *op, const char *text)
{
    char line[400], path[1024];
    const char *root = getenv("FS_SRCDIR");
    bool found = false;
    snprintf(path, sizeof path, "%s/tests/unlisted.tsv", root ? root : ".");
    FILE *file = fopen(path, "r");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *own = strtok(line, "\t"), *what = strtok(NULL, "\t");
        const char *why = strtok(NULL, "\n");
        found = why && (strcmp(own, op) == 0 || strcmp(own, "*") == 0) &&
                same_pattern(what, text);
    }
    if (file)
        fclose(file);
    return found;
}

static void check_op(ir_op_kind op, uint64_t *seed)
{
    fs_arena *arena = fs_arena_create();
    const char *name = ir_op_table[op]->name;
    pattern_list list = {0};
    int32_t tried = 0, missing = 0;
    for (int32_t i = 0; i < INSTANCES; i++)
        tried += try_instance(op, i, seed, &list, arena);
    if (tried < SELDOM)
        tap_skip(name, "too many tensors to try every combination");
    for (int32_t i = 0; i < list.n; i++)
        if (list.at[i].times >= SELDOM && !accepted(name, list.at[i].text)) {
            missing++;
            printf("# %s\t%s\t%d of %d\n", name, list.at[i].text,
                   list.at[i].times, tried);
        }
    if (tried >= SELDOM)
        tap_equal_int(missing, 0, "%s: what is legal is listed or accepted",
                      name);
    fs_arena_destroy(arena);
}

int main(void)
{
    uint64_t seed = tap_seed(20261122);
    for (int op = 0; op < IR_OP_COUNT; op++)
        if (ir_op_class_of((ir_op_kind)op) != IR_CLASS_SOURCE &&
            ir_op_table[op]->n_out != 0)
            check_op((ir_op_kind)op, &seed);
    return tap_done();
}
