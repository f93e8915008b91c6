/* Files of plans edited by hand into nonsense: each field, one after the other,
 * takes several other values, and bytes are flipped. The plans have what plans
 * can have: chunks and weight slots, recomputation, copies that are freed and
 * gathered again, halos, stages of unlike meshes. (How origin becomes a graph
 * again: cli_origin_test.c.) Whatever stands there is read and checked or
 * refused with what and where; what is accepted is noted as edited unless it
 * says the same, and is sound: it ends under the actor protocol, and a replay
 * of its memory finds no two live pieces on one byte. FS_LONG=1 takes every
 * value and every byte (of the larger plans at a part of the places). */
#include "plan_hand.h"

#include "base/json.h"
#include "ir/recompute.h"
#include "ir/window.h"
#include "plan_live.h"
#include "plan_world.h"

#include <unistd.h>

typedef struct fuzzing {
    const char *name;
    ir_graph *g;
    hw_cluster *c;
    char path[64];
    json_t *root;
    char *text;
    size_t n;
    uint64_t digest, seed;
    bool whole;
    int32_t sparse; /* one of so many places is tried */
    int32_t tried, unread, refused, same, edited;
    int32_t silent, unsound, speechless;
} fuzzing;

static const plan_origin origin = {.model = "mlp.onnx",
                                   .optimizer = "adam",
                                   .lr_schedule = "",
                                   .lr = 0.1,
                                   .beta1 = 0.9,
                                   .beta2 = 0.999,
                                   .epsilon = 1e-8,
                                   .cluster = "1x8:hand",
                                   .batch = 16,
                                   .seed = 42};

/* ---- plans to spoil ---- */

static ir_graph *trained(ir_graph *g, const char *recompute)
{
    fs_err err = {0};
    ir_train_options train = ir_train_defaults();
    train.optimizer = IR_ADAM;
    train.micro_batches = 2;
    train.recompute = recompute;
    g->digest = 0x1234;
    g->batch = 16;
    if (g->err.status != FS_OK || ir_train(g, &train, &err) != FS_OK) {
        printf("Bail out! %s%s\n", g->err.text, err.text);
        exit(1);
    }
    return g;
}

static ir_graph *make_layers(int32_t layers, const char *recompute)
{
    ir_graph *g = ir_graph_create("layers");
    const ir_init init = {IR_INIT_NORMAL, 0, 0.1, 7};
    const ir_shape shape = ir_shape_make(2, (int64_t[]){8, 8});
    int32_t x = ir_input(g, "x", IR_F32, shape, 0);
    int32_t target = ir_input(g, "target", IR_F32, shape, 0);
    for (int32_t i = 0; i < layers; i++) {
        int32_t w =
            ir_parameter(g, fs_printf(g->arena, "w%d", i), IR_F32, shape, init);
        x = ir_unary(g, IR_OP_relu, ir_matmul(g, x, w, false, false));
    }
    g->loss = ir_mse(g, x, target);
    return trained(g, recompute);
}

/* Two convolutions whose windows hang over the pieces' edges. */
static ir_graph *make_convolutions(void)
{
    ir_graph *g = ir_graph_create("windows");
    const ir_init init = {IR_INIT_NORMAL, 0, 0.1, 7};
    const ir_shape shape = ir_shape_make(4, (int64_t[]){2, 2, 8, 8});
    const int64_t attr[IR_WINDOW_ATTRS] = {
        [IR_WINDOW_STRIDE] = 1, 1, 0, [IR_WINDOW_BEFORE] = 1, 1, 0,
        [IR_WINDOW_AFTER] = 1,  1, 0, [IR_WINDOW_SPREAD] = 1, 1, 0,
        [IR_WINDOW_GROUPS] = 1};
    int32_t x = ir_input(g, "x", IR_F32, shape, 0);
    int32_t target = ir_input(g, "target", IR_F32, shape, 0);
    for (int32_t i = 0; i < 2; i++) {
        int32_t w =
            ir_parameter(g, fs_printf(g->arena, "w%d", i), IR_F32,
                         ir_shape_make(4, (int64_t[]){2, 2, 3, 3}), init);
        x = ir_unary(g, IR_OP_relu, ir_conv(g, x, w, attr));
    }
    g->loss = ir_mse(g, x, target);
    return trained(g, NULL);
}

/* Of the node's signatures one that is chosen by `suits`, boxed by cheapest
 * paths; any where none is. */
static void choose(const fuzzing *x, plan_strategy *s,
                   bool (*suits)(const ir_graph *, const ir_node *,
                                 const ir_nd_sig *),
                   fs_arena *arena)
{
    plan_boxer *boxer =
        plan_boxer_create((plan_boxing_cost){.seconds = hand_seconds}, arena);
    for (int32_t v = 0; v < s->n_nodes; v++) {
        const ir_node *node = &x->g->nodes.at[v];
        ir_nd_sig_list list = {0};
        ir_signatures(x->g, node, &s->stages[s->stage_of[v]].mesh, arena,
                      &list);
        bool boxed = false;
        for (int32_t k = 0; k < 2 * list.n && !boxed; k++) {
            s->sig[v] = list.at[k % list.n];
            boxed = (k >= list.n || suits(x->g, node, &s->sig[v])) &&
                    hand_box_node(x->g, s, v, boxer);
        }
    }
}

static bool all_cut(const ir_nd_sbp *sbp, int32_t axes, int32_t dimension)
{
    bool cut = true;
    for (int32_t a = 0; a < axes; a++)
        cut &= sbp->at[a].kind == IR_S && sbp->at[a].axis == dimension &&
               !ir_sbp_has_halo(sbp->at[a]);
    return cut;
}

/* ZeRO-3: parameters and states lie cut by all ranks, which share the samples;
 * weights are whole where they are used. */
static bool suits_zero(const ir_graph *g, const ir_node *node,
                       const ir_nd_sig *sig)
{
    bool suits = node->n_out > 0;
    if (node->op == IR_OP_variable || node->op == IR_OP_accumulate ||
        node->phase == IR_UPDATE)
        return suits && (g->tensors.at[node->out[0]].shape.rank == 0 ||
                         all_cut(&sig->out[0], 2, 0));
    for (int32_t k = 0; k < node->n_in; k++)
        suits &=
            g->tensors.at[node->in[k]].role != IR_PARAM ||
            (sig->in[k].at[0].kind == IR_B && sig->in[k].at[1].kind == IR_B);
    return suits && (g->tensors.at[node->out[0]].shape.rank == 0 ||
                     ir_sbp_is_partial(sig->out[0].at[0]) ||
                     all_cut(&sig->out[0], 2, 0));
}

/* Images cut by rows: windows borrow what lies beyond. */
static bool suits_rows(const ir_graph *g, const ir_node *node,
                       const ir_nd_sig *sig)
{
    if (node->n_out == 0 || g->tensors.at[node->out[0]].shape.rank < 4)
        return true;
    if (node->op == IR_OP_conv && !ir_sbp_has_halo(sig->in[0].at[0]))
        return false;
    if (node->op == IR_OP_variable || node->phase == IR_UPDATE)
        return sig->out[0].at[0].kind == IR_B;
    return all_cut(&sig->out[0], 1, 2) || ir_sbp_is_partial(sig->out[0].at[0]);
}

/* Copies of a weight are freed and made again by each pass. */
static void free_copies(const fuzzing *x, plan_strategy *s)
{
    for (int32_t v = 0; v < s->n_nodes; v++)
        for (int32_t k = 0; k < x->g->nodes.at[v].n_in; k++) {
            const ir_node *node = &x->g->nodes.at[v];
            plan_boxing *edge = &s->edge[s->first_edge[v] + k];
            if (node->op != IR_OP_variable && edge->n > 0 &&
                x->g->tensors.at[node->in[k]].role == IR_PARAM)
                edge->sharing = node->phase == IR_FORWARD ? 1 : 2;
        }
}

typedef plan_strategy *making(fuzzing *x, bool *overlap, fs_arena *arena);

static plan_strategy *make_plain(fuzzing *x, bool *overlap, fs_arena *arena)
{
    x->g = hand_mlp(2, 8, 8, 2);
    *overlap = true;
    plan_strategy *s = hand_stages(x->g, 2, (ir_mesh){1, {2}}, arena);
    hand_signatures(x->g, s, 5, arena);
    return s;
}

static bool has_bucket(const plan *p)
{
    bool has = false;
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t i = 0; i < p->roles[r].n_tasks; i++)
            has |= p->roles[r].tasks[i].n_parts > 0;
    return has;
}

static plan *lower(const fuzzing *x, const plan_strategy *s, bool overlap,
                   fs_arena *arena)
{
    plan_lower_options options = plan_lower_defaults();
    options.overlap = overlap;
    options.bucket_bytes = overlap ? 1 << 20 : 0;
    return hand_lower_by(x->g, hand_cluster(arena, 1, 8, 0), s, &options,
                         arena);
}

/* The first signatures that reduce several gradients in one go. */
static plan_strategy *make_bucket(fuzzing *x, bool *overlap, fs_arena *arena)
{
    plan_strategy *s;
    uint64_t seed = 1;
    x->g = hand_mlp(4, 8, 8, 2);
    *overlap = true;
    do {
        s = hand_stages(x->g, 1, (ir_mesh){1, {2}}, arena);
        hand_signatures(x->g, s, seed, arena);
    } while (!has_bucket(lower(x, s, true, arena)) && seed++ < 100);
    return s;
}

static plan_strategy *make_v(fuzzing *x, bool *overlap, fs_arena *arena)
{
    x->g = make_layers(4, NULL);
    *overlap = false;
    plan_strategy *s = hand_stages(x->g, 4, (ir_mesh){1, {2}}, arena);
    hand_place(s, "zb-v", 2);
    hand_signatures(x->g, s, 5, arena);
    return s;
}

static plan_strategy *make_again(fuzzing *x, bool *overlap, fs_arena *arena)
{
    x->g = make_layers(3, "relu");
    *overlap = false;
    plan_strategy *s = hand_stages(x->g, 1, (ir_mesh){1, {2}}, arena);
    hand_signatures(x->g, s, 5, arena);
    return s;
}

static plan_strategy *make_zero(fuzzing *x, bool *overlap, fs_arena *arena)
{
    x->g = make_layers(2, NULL);
    *overlap = true;
    plan_strategy *s = hand_stages(x->g, 1, (ir_mesh){2, {2, 2}}, arena);
    choose(x, s, suits_zero, arena);
    free_copies(x, s);
    return s;
}

static plan_strategy *make_halo(fuzzing *x, bool *overlap, fs_arena *arena)
{
    x->g = make_convolutions();
    *overlap = false;
    plan_strategy *s = hand_stages(x->g, 1, (ir_mesh){1, {2}}, arena);
    choose(x, s, suits_rows, arena);
    return s;
}

static plan_strategy *make_unlike(fuzzing *x, bool *overlap, fs_arena *arena)
{
    x->g = make_layers(2, NULL);
    *overlap = false;
    plan_strategy *s = hand_stages(x->g, 2, (ir_mesh){1, {2}}, arena);
    s->stages[1] = (plan_stage){{2, {2, 2}}, 2};
    hand_signatures(x->g, s, 5, arena);
    return s;
}

static bool has_box(const plan *p, plan_box_kind kind)
{
    bool has = false;
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t i = 0; i < p->roles[r].n_tasks; i++)
            has |= p->roles[r].tasks[i].kind == PLAN_BOX &&
                   p->roles[r].tasks[i].box.kind == kind;
    return has;
}

static bool has_weight_slot(const fuzzing *x, const plan *p)
{
    (void)x;
    bool has = false;
    for (int32_t i = 0; i < p->roles[0].n_slots; i++)
        has |= p->roles[0].slots[i].phase == PLAN_WEIGHT;
    return has && p->roles[0].n_chunks > 1;
}

static bool has_sharing(const fuzzing *x, const plan *p)
{
    (void)x;
    const plan_strategy *s = p->strategy;
    bool has = false;
    for (int32_t e = 0; e < s->first_edge[s->n_nodes]; e++)
        has |= s->edge[e].sharing > 0;
    return has && has_box(p, PLAN_ALL_GATHER);
}

static bool has_parts(const fuzzing *x, const plan *p)
{
    (void)x;
    return has_bucket(p);
}

static bool has_halo(const fuzzing *x, const plan *p)
{
    (void)x;
    return has_box(p, PLAN_HALO);
}

static bool has_unlike(const fuzzing *x, const plan *p)
{
    (void)x;
    return p->n_roles == 2 && p->roles[0].n_ranks != p->roles[1].n_ranks;
}

static bool has_roles(const fuzzing *x, const plan *p)
{
    (void)x;
    return p->n_roles == 2;
}

static bool has_copies(const fuzzing *x, const plan *p)
{
    return p->n_roles == 1 && ir_count_recomputed(x->g) > 0;
}

static fuzzing make_fuzzing(const char *name, making *make,
                            bool (*has)(const fuzzing *, const plan *),
                            int32_t sparse, uint64_t seed)
{
    fuzzing x = {.name = name,
                 .seed = seed,
                 .sparse = sparse,
                 .whole = getenv("FS_LONG") != NULL};
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    bool overlap;
    plan_strategy *s = make(&x, &overlap, arena);
    x.c = hand_cluster(x.g->arena, 1, 8, 0);
    plan *p = lower(&x, s, overlap, arena);
    tap_ok(has(&x, p), "%s: the plan has what it is for", name);
    snprintf(x.path, sizeof x.path, "plan_fuzz_test.%d.json", (int)getpid());
    if (plan_write(x.path, x.g, p, &origin, x.c, &err) != FS_OK ||
        fs_json_load(x.path, &err, &x.root) != FS_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    x.digest = plan_digest_of(x.g, p, &origin);
    x.text = json_dumps(x.root, FS_JSON_FORMAT);
    x.n = strlen(x.text);
    fs_arena_destroy(arena);
    return x;
}

/* ---- one file ---- */

/* Runs to its end, and no two live pieces share a byte. */
static bool is_sound(const fuzzing *x, const plan *p, fs_arena *arena)
{
    uint64_t seed = x->seed;
    bool sound = walk(p, POSTED, &seed, arena);
    for (int32_t r = 0; r < p->n_roles; r++)
        sound = sound && live_own_faults(&p->roles[r]) == 0 &&
                live_clashes(&p->roles[r], p->micro_batches, 3, NULL) == 0;
    return sound;
}

static void tell(int32_t *count, const char *what, const char *edit)
{
    if (++*count <= 5)
        printf("# %s: %s\n", what, edit);
}

/* A refusal names the file and the place in it. */
static void check_refusal(fuzzing *x, fs_status status, const fs_err *err,
                          const char *edit)
{
    const char *at = strstr(err->text, x->path);
    if (status != FS_INVALID || !at || strlen(at) < strlen(x->path) + 4)
        tell(&x->speechless, edit, err->text);
}

static void try_file(fuzzing *x, const char *edit)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    plan_origin o = {0};
    hw_cluster *stored = NULL;
    plan *p = NULL;
    plan_report report;
    x->tried++;
    fs_status status = plan_read_origin(x->path, arena, &err, &o, &stored);
    if (status == FS_OK)
        status = plan_read(x->path, x->g, x->c, arena, &err, &p);
    if (status != FS_OK) {
        x->unread++;
        check_refusal(x, status, &err, edit);
    } else if (plan_check(x->g, x->c, p, arena, &report) != FS_OK) {
        x->refused++;
        if (report.n == 0 || report.findings[0].text[0] == '\0')
            tell(&x->speechless, "refused without a word", edit);
    } else {
        bool same = p->digest == x->digest;
        ++*(same ? &x->same : &x->edited);
        if (!same && !p->edited)
            tell(&x->silent, "another plan, not noted as edited", edit);
        if (!is_sound(x, p, arena))
            tell(&x->unsound, "accepted and not sound", edit);
        if (getenv("FS_SHOW") && !same)
            printf("# accepted: %s\n", edit);
    }
    fs_arena_destroy(arena);
}

static void write_text(const fuzzing *x, const char *text, size_t n)
{
    FILE *f = fopen(x->path, "wb");
    if (!f || fwrite(text, 1, n, f) != n || fclose(f) != 0)
        exit(1);
}

/* ---- each field ---- */

static void try_root(fuzzing *x, const char *where, const char *what)
{
    char edit[300];
    snprintf(edit, sizeof edit, "%.200s %.80s", where, what);
    char *text = json_dumps(x->root, JSON_COMPACT);
    write_text(x, text, strlen(text));
    free(text);
    try_file(x, edit);
}

static json_t *other_values(const json_t *old)
{
    json_t *list = json_array();
    json_int_t i = json_integer_value(old);
    const json_int_t whole[] = {i + 1,   i - 1,     0,         1,
                                -1,      2 * i,     256,       i + 256,
                                i - 256, INT32_MAX, INT64_MAX, INT64_MIN};
    static const char *const texts[] = {
        "",     "B",       "S(0)",       "S(1)",      "P",    "forward", "end",
        "box",  "compute", "all-gather", "slice",     "x",    "w0",      "w0.m",
        "comm", "recv",    "gpipe",      "forward 1", "relu", "P(max)"};
    for (size_t k = 0; json_is_integer(old) && k < 12; k++)
        json_array_append_new(list, json_integer(whole[k]));
    for (size_t k = 0; json_is_string(old) && k < 20; k++)
        json_array_append_new(list, json_string(texts[k]));
    json_array_append_new(list, json_boolean(!json_is_true(old)));
    json_array_append_new(list, json_null());
    json_array_append_new(list, json_real(0.5));
    json_array_append_new(list, json_array());
    return list;
}

/* All of it, or one in a few. */
static bool takes(fuzzing *x, int32_t few)
{
    return fs_rand_below(&x->seed, (x->whole ? 1 : few) * x->sparse) == 0;
}

/* Each value in turn, or one of them. */
static void try_values(fuzzing *x, const char *where, json_t *in,
                       const char *key, size_t index)
{
    json_t *old =
        json_incref(key ? json_object_get(in, key) : json_array_get(in, index));
    json_t *values = takes(x, 1) ? other_values(old) : json_array(), *value;
    size_t i, n = json_array_size(values);
    size_t chosen = n ? (size_t)fs_rand_below(&x->seed, (int64_t)n) : 0;
    json_array_foreach(values, i, value)
    {
        if (json_equal(value, old) || (!x->whole && i != chosen))
            continue;
        key ? json_object_set(in, key, value)
            : json_array_set(in, index, value);
        char *text = json_dumps(value, JSON_ENCODE_ANY);
        try_root(x, where, text);
        free(text);
    }
    key ? json_object_set(in, key, old) : json_array_set(in, index, old);
    json_decref(values);
    json_decref(old);
}

/* Items of a list missing, twice, or exchanged. */
static void try_list(fuzzing *x, const char *where, json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *item = json_incref(json_array_get(list, i));
        if (takes(x, 8)) {
            json_array_remove(list, i);
            try_root(x, where, fs_printf(x->g->arena, "less item %zu", i));
            json_array_insert(list, i, item);
        }
        if (takes(x, 8)) {
            json_array_insert(list, i, item);
            try_root(x, where, fs_printf(x->g->arena, "item %zu twice", i));
            json_array_remove(list, i);
        }
        if (i > 0 && takes(x, 8)) {
            json_t *before = json_incref(json_array_get(list, i - 1));
            json_array_set(list, i - 1, item);
            json_array_set(list, i, before);
            try_root(x, where,
                     fs_printf(x->g->arena, "items %zu and before swapped", i));
            json_array_set(list, i, item);
            json_array_set(list, i - 1, before);
            json_decref(before);
        }
        json_decref(item);
    }
}

static void try_missing(fuzzing *x, const char *where, json_t *in,
                        const char *key)
{
    json_t *old = json_incref(json_object_get(in, key));
    json_object_del(in, key);
    try_root(x, where, "missing");
    json_object_set_new(in, key, old);
}

static void try_fields(fuzzing *x, const char *where, json_t *at);

static void try_item(fuzzing *x, const char *where, json_t *in, const char *key,
                     size_t index)
{
    json_t *item = key ? json_object_get(in, key) : json_array_get(in, index);
    if (json_is_object(item) || json_is_array(item))
        try_fields(x, where, item);
    else
        try_values(x, where, in, key, index);
    if (key && takes(x, 8))
        try_missing(x, where, in, key);
}

static void try_fields(fuzzing *x, const char *where, json_t *at)
{
    const char *key;
    json_t *item, *keys = json_array();
    size_t i;
    json_object_foreach(at, key, item)
        json_array_append_new(keys, json_string(key));
    json_array_foreach(keys, i, item)
    {
        key = json_string_value(item);
        try_item(x, fs_printf(x->g->arena, "%s.%s", where, key), at, key, 0);
    }
    for (i = 0; json_is_array(at) && i < json_array_size(at); i++)
        try_item(x, fs_printf(x->g->arena, "%s[%zu]", where, i), at, NULL, i);
    if (json_is_array(at))
        try_list(x, where, at);
    json_decref(keys);
}

/* ---- each byte ---- */

static void try_bytes(fuzzing *x)
{
    for (size_t i = 0; i < x->n; i++) {
        char edit[64], old = x->text[i];
        if (!takes(x, 30))
            continue;
        x->text[i] = (char)(old ^ (1 << fs_rand_below(&x->seed, 8)));
        snprintf(edit, sizeof edit, "byte %zu: '%c' for '%c'", i, x->text[i],
                 old);
        write_text(x, x->text, x->n);
        try_file(x, edit);
        x->text[i] = old;
    }
}

static void conclude(fuzzing *x, const char *what)
{
    tap_equal_int(x->silent, 0, "%s, %s: no other plan passes unnoted", x->name,
                  what);
    tap_equal_int(x->unsound, 0, "%s, %s: what is accepted is sound", x->name,
                  what);
    tap_equal_int(x->speechless, 0, "%s, %s: each refusal says what and where",
                  x->name, what);
    tap_ok(x->tried > 400 && x->unread > 0 && x->refused > 0,
           "%s, %s: %d edits, %d refused by the reader, %d by the check",
           x->name, what, x->tried, x->unread, x->refused);
    printf("# %s, %s: %d say the same, %d are other sound plans\n", x->name,
           what, x->same, x->edited);
    x->tried = x->unread = x->refused = x->same = x->edited = 0;
}

/* `sparse`: of the larger plans one in so many places is enough. */
static void fuzz(fuzzing x)
{
    try_file(&x, "nothing");
    tap_ok(x.same == 1, "%s: the file as written is the plan", x.name);
    try_fields(&x, "", x.root);
    conclude(&x, "fields");
    try_bytes(&x);
    conclude(&x, "bytes");
    unlink(x.path);
    json_decref(x.root);
    free(x.text);
    ir_graph_destroy(x.g);
}

int main(void)
{
    static const struct {
        const char *name;
        making *make;
        bool (*has)(const fuzzing *, const plan *);
        int32_t sparse;
    } rows[] = {{"two stages", make_plain, has_roles, 1},
                {"zb-v", make_v, has_weight_slot, 4},
                {"recompute", make_again, has_copies, 2},
                {"ZeRO-3 on 2 x 2", make_zero, has_sharing, 2},
                {"a bucket", make_bucket, has_parts, 1},
                {"halos", make_halo, has_halo, 2},
                {"unlike stages", make_unlike, has_unlike, 2}};
    const uint64_t seed = tap_seed(31);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        fuzz(make_fuzzing(rows[k].name, rows[k].make, rows[k].has,
                          rows[k].sparse, seed + k));
    return tap_done();
}
