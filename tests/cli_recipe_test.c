/* Recipes as a user types them: each is a choice of how tensors lie, nothing
 * else; the plan has the collectives that its name promises, and the losses are
 * those of one rank. */
#include "config.h"
#include "tests/cli_plans.h"

enum { STEPS = 3, LAYERS = 2 };

#define GPT "zoo:gpt,layers=2,hidden=16,heads=4,vocab=24,seq=8"
#define LLAMA                                                                  \
    "zoo:llama,layers=2,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=12,seq=8"
#define T5                                                                     \
    "zoo:t5,layers=2,hidden=16,heads=2,head=8,ffn=24,vocab=11,seq=6,target=4"
/* Experts take 60 of 100 tokens: others are dropped. */
#define MOE                                                                    \
    "zoo:moe,layers=2,hidden=16,heads=2,vocab=11,seq=8,experts=4,capacity=60"
/* Six channels, which four ranks do not share evenly. */
#define RESNET "zoo:resnet,depth=18,size=32,classes=10,width=6"
#define UNET "zoo:unet,depth=2,width=4,channels=1,classes=3,size=16"
#define WIDE_DEEP "zoo:wide_deep,fields=3,dense=4,rows=40,embedding=8,hidden=16"
#define FACES "zoo:insightface,depth=18,width=4,embedding=8,classes=64,size=32"

/* ---- what a plan does ---- */

/* Tasks of role 0 that are this boxing step ("": any), in this phase, of
 * tensors whose names begin so. */
static int count_steps(const char *phase, const char *box, const char *of)
{
    char path[600];
    size_t i;
    json_t *task;
    int n = 0;
    snprintf(path, sizeof path, "%s/plan.json", cli_scratch);
    json_t *root = json_load_file(path, 0, NULL);
    json_t *roles = json_object_get(json_object_get(root, "plan"), "roles");
    json_array_foreach(json_object_get(json_array_get(roles, 0), "tasks"), i,
                       task)
    {
        const char *named = json_string_value(json_object_get(task, "box"));
        const char *when = json_string_value(json_object_get(task, "phase"));
        const char *moved = json_string_value(json_object_get(task, "tensor"));
        n += named && (!*box || strcmp(named, box) == 0) &&
             strcmp(when, phase) == 0 && strncmp(moved, of, strlen(of)) == 0;
    }
    json_decref(root);
    return n;
}

static json_t *find_node(json_t *root, const char *name)
{
    size_t i;
    json_t *node;
    json_t *strategy = json_object_get(root, "strategy");
    json_array_foreach(
        json_object_get(strategy, "nodes"), i,
        node) if (strcmp(json_string_value(json_object_get(node, "name")),
                         name) == 0) return node;
    return NULL;
}

/* "in .. -> out ..", "" when there is no such node. */
static const char *signature_of(const char *name)
{
    static char text[300];
    char path[600];
    size_t i;
    json_t *sbp;
    snprintf(path, sizeof path, "%s/plan.json", cli_scratch);
    json_t *root = json_load_file(path, 0, NULL);
    json_t *node = find_node(root, name);
    text[0] = '\0';
    json_array_foreach(json_object_get(node, "in"), i, sbp)
        strcat(strcat(text, json_string_value(sbp)), " ");
    strcat(text, node ? "->" : "");
    json_array_foreach(json_object_get(node, "out"), i, sbp)
        strcat(strcat(text, " "), json_string_value(sbp));
    json_decref(root);
    return text;
}

static int stage_of(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/plan.json", cli_scratch);
    json_t *root = json_load_file(path, 0, NULL);
    json_t *node = find_node(root, name);
    int stage =
        node ? (int)json_integer_value(json_object_get(node, "stage")) : -1;
    json_decref(root);
    return stage;
}

static bool make(const char *spec, const char *recipe)
{
    cli_answer *a = cli("plan %s --cluster 1x4:cpu --batch 8 %s "
                        "-o \"$D/plan.json\"",
                        spec, recipe);
    if (a->status != 0)
        cli_show(a);
    return a->status == 0;
}

static void lies(const char *node, const char *signature)
{
    tap_equal_text(signature_of(node), signature, "%s", node);
}

/* ---- Megatron's tensor parallelism ---- */

static void test_tensor_parallel(void)
{
    tap_ok(make(GPT, "--tp 4"), "gpt --tp 4");
    lies("/blocks.0/ln1/layer_norm", "B B B -> B B B");
    lies("/blocks.0/mlp/fc/add", "B S(0) S(0) -> S(2)");
    lies("/blocks.0/attn/matmul_1", "S(1) S(1) S(1) -> S(1) S(1)");
    tap_equal_int(count_steps("forward", "all-reduce", "/blocks.1/"), 2,
                  "forward: two all-reduces in a block");
    tap_equal_int(count_steps("backward", "all-reduce", "/blocks.1/"), 2,
                  "backward: two");
    tap_equal_int(count_steps("forward", "", "/blocks"), 2 * LAYERS,
                  "and no other collective");
    tap_ok(make(GPT, "--tp 4 --seq-parallel"), "gpt --tp 4 --seq-parallel");
    lies("/blocks.0/ln1/layer_norm", "S(1) B B -> S(1) S(1) S(1)");
    lies("/blocks.0/attn/proj/add_1", "S(1) S(1) -> S(1)");
    lies("/blocks.0/mlp/fc/add", "B S(0) S(0) -> S(2)");
    tap_equal_int(count_steps("forward", "reduce-scatter", "/blocks.1/"), 2,
                  "forward: two reduce-scatters in a block");
    tap_equal_int(count_steps("forward", "all-gather", "/blocks.1/"), 2,
                  "and two all-gathers");
    tap_equal_int(count_steps("forward", "", "/blocks"), 4 * LAYERS,
                  "and no other collective");
}

/* Weights of a class each, and rows of a table. */
static void test_classes_and_tables(void)
{
    tap_ok(make("zoo:gpt,layers=1,hidden=16,heads=4,vocab=4096,seq=32",
                "--tp 4 --pin '^tok=S(0)'"),
           "a vocabulary of 4096 --tp 4");
    lies("/tok/gather", "S(0) B -> P");
    lies("/head/matmul", "B S(0) -> S(2)");
    tap_ok(make("zoo:insightface,depth=18,width=4,embedding=64,classes=40000,"
                "size=32",
                "--tp 4"),
           "a head of 40,000 classes --tp 4");
    lies("head.weight", "-> S(0)");
    tap_ok(make(WIDE_DEEP, "--tp 4 --pin '^deep.weight=S(0)'"),
           "a table by rows");
    lies("deep.weight", "-> S(0)");
    tap_ok(make(WIDE_DEEP, "--tp 4 --pin '^deep.weight=S(1)'"),
           "a table by columns");
    lies("deep.weight", "-> S(1)");
}

/* A pin decides where a recipe would otherwise. */
static void test_pinned_part(void)
{
    tap_ok(make(GPT, "--tp 4 --pin 'fc.weight=S(1)'"),
           "the first weights of a feed-forward pinned by rows");
    lies("blocks.0.mlp.fc.weight", "-> S(1)");
    lies("/blocks.0/mlp/fc/add", "S(2) S(1) P -> P");
    lies("/blocks.0/mlp/proj/add", "S(2) S(1) P -> P");
}

/* ---- what persists ---- */

/* Tensors whose names end so and that lie so on some axis of the mesh. */
static int lying(const char *suffix, char how)
{
    char path[600];
    size_t i;
    json_t *node;
    int n = 0;
    snprintf(path, sizeof path, "%s/plan.json", cli_scratch);
    json_t *root = json_load_file(path, 0, NULL);
    json_t *nodes = json_object_get(json_object_get(root, "strategy"), "nodes");
    json_array_foreach(nodes, i, node)
    {
        const char *name = json_string_value(json_object_get(node, "name"));
        const char *lies =
            json_string_value(json_array_get(json_object_get(node, "out"), 0));
        const size_t long_ = strlen(name), end = strlen(suffix);
        n += long_ >= end && strcmp(name + long_ - end, suffix) == 0 &&
             strchr(lies, how) != NULL;
    }
    json_decref(root);
    return n;
}

/* Tensors that persist and are whole on some axis of the mesh. */
static int whole_somewhere(const char *suffix)
{
    return lying(suffix, 'B');
}

/* Gradients are cut from ZeRO-2 on, not below; there they add up as they are
 * and are reduced once a step. */
static void test_gradients(void)
{
    static const char *const of[] = {"--dp 4", "--dp 2 --tp 1 --pp 2"};
    for (int k = 0; k < 2; k++)
        for (int zero = 0; zero <= 3; zero++) {
            char recipe[100];
            snprintf(recipe, sizeof recipe, "%s --zero %d --micro-batches 2",
                     of[k], zero);
            tap_ok(make(GPT, recipe), "gpt %s", recipe);
            const int cut = lying(".grad.acc", 'S'),
                      summed = lying(".grad.acc", 'P');
            tap_ok(zero < 2 ? cut == 0 && summed > 0 : cut > 0 && summed == 0,
                   "%d of its gradients are cut, %d wait as they are", cut,
                   summed);
        }
}

/* Every parameter is cut by every rank that there is room for: of a matrix, by
 * dp along one axis and by tp along the other where one is too short for both.
 * What is not is counted. */
static void test_persistent(void)
{
    unsigned long long seed = tap_seed(1910);
    for (int i = 0; i < 12; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const int tp = 2 << (seed >> 60) % 3, dp = 16 / tp;
        const int wide = 2 + (int)((seed >> 40) % 15);
        cli_answer *a =
            cli("plan zoo:mlp,in=%d,hidden=%d,layers=2,classes=%d --cluster "
                "2x8:l4 --dp %d --tp %d --zero 3 --batch 16 --json "
                "-o \"$D/plan.json\"",
                wide, wide, wide, dp, tp);
        if (a->status == 2) {
            tap_ok(wide < tp || wide < dp, "%d: dp=%d tp=%d: %.*s", wide, dp,
                   tp, (int)strcspn(a->err, "\n"), a->err);
            continue;
        }
        const json_t *uncut = json_object_get(a->json, "uncut");
        tap_ok(a->status == 0 && wide >= tp && wide >= dp && !uncut &&
                   whole_somewhere(".weight") == 0,
               "mlp of %d --dp %d --tp %d --zero 3: all matrices are cut by 16",
               wide, dp, tp);
    }
    cli_answer *a = cli("plan zoo:mlp,in=32,hidden=32,layers=2,classes=4 "
                        "--cluster 2x8:l4 --dp 16 --zero 3 --batch 16 --json "
                        "--optimizer sgd -o \"$D/plan.json\"");
    const json_t *zero =
        json_object_get(json_object_get(a->json, "uncut"), "zero");
    tap_equal_int(json_integer_value(json_object_get(zero, "tensors")), 2,
                  "a bias that is too short is counted, and its gradient");
    tap_ok(whole_somewhere("head.bias") == 1, "and whole");
}

/* ---- places ---- */

static void test_places(void)
{
    tap_ok(make(GPT, "--dp 1 --cp 4"), "gpt --cp 4");
    lies("ids", "-> S(1)");
    lies("/blocks.0/ln1/layer_norm", "S(1) B B -> S(1) S(1) S(1)");
    lies("/blocks.0/mlp/fc/add", "S(1) B B -> S(1)");
    tap_equal_int(count_steps("forward", "reduce-scatter", ""), 0,
                  "weights are whole: no sums between ranks but the loss");
    tap_ok(make("zoo:gpt,layers=2,hidden=16,heads=1,vocab=24,seq=8",
                "--dp 1 --cp 4"),
           "one head --cp 4");
    lies("/blocks.0/attn/matmul_1", "S(2) B B -> S(2) S(2)");
    tap_equal_int(count_steps("forward", "all-gather", ""), 2 * LAYERS,
                  "forward: keys and values of each block are gathered");
    tap_ok(make(UNET, "--dp 1 --cp 4"), "unet --cp 4: rows of the image");
    tap_ok(count_steps("forward", "halo", "") > 0,
           "convolutions borrow rows of their neighbours");
}

/* ---- experts ---- */

static void test_experts(void)
{
    tap_ok(make(MOE, "--dp 4 --ep 4"), "moe --ep 4");
    lies("blocks.1.moe.fc.weight", "-> S(0)");
    tap_equal_text(signature_of("/blocks.1/moe/fc/matmul"), "S(0) S(0) -> S(0)",
                   "each rank runs its own experts");
    tap_ok(count_steps("forward", "all-to-all", "") >= 2,
           "tokens go there and back");
    tap_ok(make(MOE, "--dp 4 --ep 2"), "moe --dp 4 --ep 2");
    lies("blocks.1.moe.fc.weight", "-> (B,S(0))");
    lies("blocks.1.attn.q.weight", "-> (B,B)");
    lies("ids", "-> (S(0),S(0))");
    tap_ok(count_steps("forward", "all-to-all", "") >= 2,
           "tokens go there and back");
}

/* ---- stages ---- */

static void test_layers(void)
{
    tap_ok(make("zoo:gpt,layers=6,hidden=16,heads=2,vocab=24,seq=8",
                "--pp 4 --layers 1/3/2/0"),
           "gpt of six blocks --layers 1/3/2/0");
    static const int wanted[] = {0, 1, 1, 1, 2, 2};
    for (int k = 0; k < 6; k++) {
        char name[64];
        snprintf(name, sizeof name, "/blocks.%d/ln1/layer_norm", k);
        tap_equal_int(stage_of(name), wanted[k], "%s", name);
        snprintf(name, sizeof name, "/blocks.%d/mlp/proj/add_1", k);
        tap_equal_int(stage_of(name), wanted[k], "%s", name);
    }
    tap_equal_int(stage_of("/tok/gather"), 0, "the table is the first stage's");
    tap_equal_int(stage_of("/head/matmul"), 3, "the head the last's");
    tap_ok(make(GPT, "--layers 0/2 --tp 2"), "--layers alone says how many");
    tap_ok(make(GPT, "--dp 2/2"), "and so do numbers per stage");
    tap_ok(make(GPT, "--dp 2x2 --tp 1"), "which may be told as groups");
    tap_ok(make("zoo:gpt,layers=6,hidden=16,heads=2,vocab=24,seq=8",
                "--pp 4 --interleave 2 --micro-batches 4 --layers 0/1x6/0"),
           "gpt of six blocks --layers 0/1x6/0");
    tap_ok(stage_of("/blocks.0/ln1/layer_norm") == 1 &&
               stage_of("/blocks.5/ln1/layer_norm") == 6,
           "six stages of one between two of none");
    tap_ok(make(GPT, "--tp 1/1"), "of which dp is the devices that are left");
}

static const char *text_of(const cli_answer *a, const char *key)
{
    const char *text = json_string_value(json_object_get(a->json, key));
    return text ? text : "";
}

/* Whoever lets devices run several stages is told where that gains little. */
static void test_interleaving_note(void)
{
    const char *plan = "plan zoo:gpt,layers=8,hidden=16,heads=2,vocab=24,seq=8 "
                       "--cluster 1x4:cpu --batch 8 --pp 4 --interleave 2 "
                       "--micro-batches %d -o \"$D/a.json\" --json";
    const cli_answer *a = cli(plan, 2);
    tap_ok(a->status == 0 &&
               strstr(text_of(a, "interleaving"), "fewer than the 4 groups"),
           "2 micro-batches on 4 groups: %s", text_of(a, "interleaving"));
    a = cli(plan, 4);
    tap_ok(a->status == 0 && !text_of(a, "interleaving")[0],
           "4 micro-batches: nothing to say");
}

/* What is told of a cut cuts there again: between blocks, inside them, and
 * where nothing repeats. */
static void test_layers_again(void)
{
    static const char *const rows[] = {
        "zoo:gpt,layers=6,hidden=16,heads=2,vocab=24,seq=8 --schedule zb-v",
        "zoo:gpt,layers=5,hidden=16,heads=2,vocab=24,seq=8 --interleave 3",
        "zoo:t5,layers=2,hidden=16,heads=2,vocab=24,seq=8 --interleave 2",
        "zoo:mlp,layers=3,in=8,hidden=16,classes=4"};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const char *usual = "--cluster 1x4:cpu --batch 8 --pp 2 "
                            "--micro-batches 4";
        const cli_answer *a =
            cli("plan %s %s -o \"$D/a.json\" --json", rows[r], usual);
        char said[200], digest[40];
        snprintf(said, sizeof said, "%s", text_of(a, "layers"));
        snprintf(digest, sizeof digest, "%s", text_of(a, "plan_digest"));
        a = cli("plan %s %s --layers '%s' -o \"$D/a.json\" --json", rows[r],
                usual, said);
        tap_ok(a->status == 0 && strcmp(text_of(a, "plan_digest"), digest) == 0,
               "%s: --layers %s gives the same plan", rows[r], said);
    }
}

/* Four stages of a pipeline over two groups of devices, in turn or as a V. */
static void test_stages_of(const char *recipe, const int32_t group[4])
{
    char path[600];
    size_t i;
    json_t *stage;
    tap_ok(make("zoo:gpt,layers=4,hidden=16,heads=2,vocab=24,seq=8", recipe),
           "%s", recipe);
    snprintf(path, sizeof path, "%s/plan.json", cli_scratch);
    json_t *root = json_load_file(path, 0, NULL);
    json_t *stages =
        json_object_get(json_object_get(root, "strategy"), "stages");
    tap_equal_int((long)json_array_size(stages), 4, "makes four stages");
    json_array_foreach(stages, i, stage) tap_equal_int(
        (long)json_integer_value(json_object_get(stage, "first_device")),
        2 * group[i], "stage %d on its group of devices", (int)i);
    json_decref(root);
}

static void test_interleaved(void)
{
    test_stages_of("--pp 2 --interleave 2 --dp 2 --micro-batches 4 "
                   "--layers 1/1/1/1",
                   (const int32_t[]){0, 1, 0, 1});
    test_stages_of("--pp 2 --schedule interleaved --dp 2 --micro-batches 4",
                   (const int32_t[]){0, 1, 0, 1});
    test_stages_of("--pp 2 --schedule zb-v --dp 2 --micro-batches 4",
                   (const int32_t[]){0, 1, 1, 0});
}

static void test_unequal(void)
{
    cli_answer *a =
        cli("plan zoo:gpt,layers=6,hidden=32,heads=2,vocab=24,seq=16 "
            "--cluster 1x6:cpu --batch 8 --pp 2 --dp 4/2 -o \"$D/plan.json\"");
    tap_ok(a->status == 0 && strstr(a->out, "2 stages of mesh 4/2"),
           "--pp 2 --dp 4/2");
    tap_equal_int(stage_of("/blocks.3/mlp/proj/add_1"), 0,
                  "twice as many devices have four blocks of six");
    tap_equal_int(stage_of("/blocks.4/ln1/layer_norm"), 1,
                  "and the others two");
    a = cli("search " GPT " --cluster 1x8:cpu --batch 8 --fix dp=4/2,tp=1/2 "
            "-o \"$D/plan.json\" --json");
    const json_t *rows = json_object_get(a->json, "configs");
    const json_t *mesh = json_object_get(json_array_get(rows, 0), "mesh");
    tap_equal_text(mesh ? json_string_value(mesh) : "", "4/2x2",
                   "search --fix dp=4/2,tp=1/2 tells both meshes");
}

/* ---- the same numbers ---- */

static bool train(const char *spec, int ranks, const char *recipe,
                  double *losses)
{
    char words[800];
    snprintf(words, sizeof words,
             "plan %s --cluster local --ranks %d --batch 8 --lr 0.05 "
             "--optimizer sgd %s",
             spec, ranks, recipe);
    return cli_train(words, "synthetic", STEPS, losses);
}

static void test_losses(void)
{
    static const struct {
        const char *spec, *recipes[8];
        double most;
    } rows[] = {
        {GPT,
         {"--tp 4", "--tp 4 --seq-parallel", "--dp 1 --cp 4",
          "--cp 2 --tp 2 --seq-parallel --zero 1",
          "--pp 2 --layers 2/0 --tp 2 --micro-batches 2",
          "--pp 2 --interleave 2 --tp 2 --micro-batches 4",
          "--dp 2/1 --tp 1/2 --micro-batches 2",
          "--dp 2/1/1 --tp 1 --micro-batches 4 --zero 1"},
         1e-6},
        {LLAMA, {"--tp 2 --seq-parallel", "--dp 1 --cp 4"}, 1e-6},
        {T5, {"--cp 2 --tp 2", "--pp 2 --layers 1/3"}, 1e-6},
        {MOE,
         {"--ep 4", "--dp 4 --ep 2 --zero 1", "--dp 2 --ep 2 --tp 2",
          "--dp 2 --cp 2 --ep 2", "--dp 4 --ep 2 --micro-batches 2"},
         1e-6},
        {UNET, {"--dp 1 --cp 4"}, 1e-5},
        {RESNET, {"--dp 4", "--dp 4 --zero 1"}, 1e-5},
        {WIDE_DEEP, {"--tp 4", "--tp 4 --pin '^deep.weight=S(0)'"}, 1e-6},
        {FACES, {"--tp 4"}, 1e-4},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        double one[STEPS], other[STEPS];
        bool ran = train(rows[r].spec, 1, "", one);
        tap_ok(ran, "%s trains on one rank", rows[r].spec);
        for (int k = 0; ran && k < 8 && rows[r].recipes[k]; k++) {
            const char *recipe = rows[r].recipes[k];
            const bool did = train(rows[r].spec, 4, recipe, other);
            const double off =
                did ? cli_losses_off(other, one, STEPS) : (double)NAN;
            tap_ok(off <= rows[r].most, "%s %s: its losses (off %.1e)",
                   rows[r].spec, recipe, off);
        }
    }
}

/* Of groups of devices that differ in number and in shape. */
static void test_unequal_losses(void)
{
    static const char mlp[] = "zoo:mlp,in=12,hidden=16,layers=3,classes=8";
    static const struct {
        const char *spec;
        int ranks;
        const char *recipe;
    } rows[] = {
        {mlp, 1, ""},
        {mlp, 3, "--dp 2/1 --micro-batches 2"},
        {mlp, 6, "--pp 2 --dp 4/2 --zero 1"},
        {mlp, 8, "--pp 2 --dp 4/2 --tp 1/2 --micro-batches 2"},
        {GPT, 1, ""},
        {GPT, 3, "--dp 1/2 --micro-batches 4"},
        {GPT, 6, "--pp 2 --dp 4/2 --micro-batches 2 --schedule gpipe"},
        {GPT, 8, "--pp 2 --dp 4/2 --tp 1/2 --micro-batches 2"},
        {GPT, 6, "--dp 1/2 --tp 2/1 --cp 1/2 --micro-batches 2 --zero 3"},
    };
    double one[STEPS] = {0};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        double losses[STEPS];
        const bool first = rows[r].ranks == 1;
        const bool did =
            train(rows[r].spec, rows[r].ranks, rows[r].recipe, losses);
        if (first)
            memcpy(one, losses, sizeof one);
        const double off =
            did ? cli_losses_off(losses, one, STEPS) : (double)NAN;
        tap_ok(off <= 1e-6, "%s on %d ranks %s: its losses (off %.1e)",
               rows[r].spec, rows[r].ranks, rows[r].recipe, off);
    }
}

/* ---- what cannot be ---- */

static void test_refused(void)
{
    static const struct {
        const char *words, *says;
    } cases[] = {
        {GPT " --cp 3", "cp=3 does not divide the 4 devices"},
        {GPT " --pp 3", "recipe: pp=3 does not divide the 4 devices"},
        {GPT " --cp 2 --dp 4", "dp=4 * cp=2 does not make the 4 devices"},
        {GPT " --ep 2", "ep=2: gpt has no experts"},
        {MOE " --ep 3", "ep=3 does not divide dp=4"},
        {"zoo:moe,layers=2,hidden=16,heads=2,seq=8,experts=3 --ep 4",
         "is of 3 experts"},
        {"zoo:mlp --dp 1 --tp 4 --seq-parallel", "has no layer norms"},
        {GPT " --pp 2 --layers 2/1", "3 blocks for 2 stages, gpt has 2"},
        {GPT " --pp 2 --layers 2", "1 number of blocks, pp=2 wants 2"},
        {GPT " --pp 4 --layers 1/0/0/1",
         "stage 1 of gpt is left with nothing: 0 blocks work for the first "
         "and the last stage only"},
        {GPT " --pp 2 --interleave 2 --schedule gpipe",
         "schedule gpipe runs one stage on a device"},
        {GPT " --pp 2 --interleave 2 --layers 1/1",
         "2 numbers of blocks, pp=2 * interleave=2 wants 4"},
        {GPT " --pp 2 --interleave 3 --schedule zb-v",
         "schedule zb-v runs two stages on a device"},
        {GPT " --layers 1/x", "layers=1/x, numbers of blocks as 5/7"},
        {GPT " --layers 1/", "layers=1/, numbers of blocks as 5/7"},
        {GPT " --dp 2/1 --tp 1", "add up to 3 devices, the cluster has 4"},
        {GPT " --tp 2/1",
         "cp * tp add up to 3 devices, the cluster has 4: no dp"},
        {GPT " --pp 2 --interleave 1 --schedule interleaved --micro-batches 2",
         "interleave=1: the schedule interleaved runs several"},
        {GPT " --pp 2 --dp 1/1/2", "dp gives numbers to 3 stages, there are 2"},
        {GPT " --dp 1/1 --tp 1", "add up to 2 devices, the cluster has 4"},
        {GPT " --dp 2/1 --tp 1/2 --micro-batch 2",
         "stage 0 has 2 and stage 1 has 1; give micro-batches"},
        {GPT " --dp 1/3", "does not divide over dp=3"},
        {GPT " --dp 2/", "dp=2/, numbers from 1 to"},
        {GPT " --dp 0", "dp=0, a number from 1 to"},
        {GPT " --zero 4", "zero=4, a number from 0 to 3"},
        {GPT " --schedule later", "unknown schedule 'later'"},
        {GPT " --schedule gpipe", "1 micro-batch its order is that of 1f1b"},
        {GPT " --pp 2 --schedule gpipe", "its order is that of 1f1b"},
        {GPT " --schedule zb-h1 --micro-batches 2", "no bubble to fill"},
        {GPT " --schedule zb-h2", "no bubble to fill"},
        {GPT " --pp 2 --layers 1x3", "layers gives 3 numbers of blocks"},
        {GPT " --pp 2 --layers 1x0", "layers=1x0, numbers of blocks as 5/7"},
        {GPT " --pp 2 --layers 1x99999999/0", "one per stage (NxK: K stages"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cli_answer *a = cli("plan %s --cluster 1x4:cpu --batch 8 "
                            "-o \"$D/none.json\"",
                            cases[i].words);
        tap_ok(a->status == 2 && strstr(a->err, cases[i].says), "%s: %.*s",
               cases[i].words, (int)strcspn(a->err, "\n"), a->err);
    }
}

/* What would change nothing is no part of a recipe; what says in so many words
 * that nothing is to change is. */
static void test_without_effect(void)
{
    static const char *const none[] = {
        GPT " --dp 1 --tp 4 --zero 3",
        GPT " --dp 1/1 --tp 2 --zero 1",
        GPT " --dp 4 --seq-parallel",
        GPT " --interleave 2 --micro-batches 2",
        GPT " --schedule interleaved --micro-batches 2",
        GPT " --schedule zb-v --micro-batches 2",
        GPT " --pp 2 --interleave 2",
        GPT " --pp 2 --schedule interleaved",
        "zoo:mlp --cp 2",
        "zoo:mlp,in=3,hidden=3,layers=1,classes=3 --tp 4",
        "zoo:mlp,in=3,hidden=3,layers=1,classes=3 --dp 4 --zero 1",
        WIDE_DEEP " --cp 2",
    };
    static const char *const some[] = {
        GPT " --zero 0 --tp 1 --pp 1 --cp 1 --ep 1 --interleave 1",
        GPT " --dp 1 --cp 4 --zero 1",
        RESNET " --cp 2",
    };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        cli_answer *a = cli("plan %s --cluster 1x4:cpu --batch 8 "
                            "-o \"$D/none.json\"",
                            none[i]);
        tap_ok(a->status == 2 && strstr(a->err, "has no effect"), "%s: %.*s",
               none[i], (int)strcspn(a->err, "\n"), a->err);
    }
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        tap_ok(make(some[i], ""), "%s passes", some[i]);
}

/* The same of --fix, where what a part is said of may be left open. */
static void test_fixed_without_effect(void)
{
    static const char *const none[][2] = {
        {"zero=1", "zero=1 has no effect: without dp"},
        {"pp=2,zero=3", "zero=3 has no effect: without dp"},
        {"tp=4,zero=1", "zero=1 has no effect: with dp=1"},
        {"tp=2,pp=2,zero=2", "zero=2 has no effect: with dp=1"},
        {"seq-parallel=1", "seq-parallel=1 has no effect: without tp"},
        {"dp=4,seq-parallel=1", "seq-parallel=1 has no effect: with tp=1"},
        {"dp=4,interleave=2", "interleave=2 (schedule interleaved) has no"},
        {"dp=4,schedule=zb-h1", "schedule=zb-h1 has no effect"}};
    static const char *const some[] = {"dp=2,zero=1",         "cp=4,zero=1",
                                       "tp=2,seq-parallel=1", "zero=0",
                                       "dp=1,tp=4",           "dp=4"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        cli_answer *a = cli("search " GPT " --cluster 1x4:cpu --batch 8 "
                            "--fix %s -o \"$D/none.json\"",
                            none[i][0]);
        tap_ok(a->status == 2 && strstr(a->err, none[i][1]), "--fix %s: %.*s",
               none[i][0], (int)strcspn(a->err, "\n"), a->err);
    }
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        cli_answer *a = cli("search " GPT " --cluster 1x4:cpu --batch 8 "
                            "--fix %s --gap 0.1 --keep 1 -o \"$D/fixed.json\"",
                            some[i]);
        tap_ok(a->status == 0 && !a->err[0], "--fix %s passes: %s", some[i],
               a->err);
    }
    cli_answer *b = cli("search " GPT " --cluster 1x4:cpu --batch 8 --engine "
                        "megatron --fix tp=2,zero=1 -o \"$D/fixed.json\"");
    tap_ok(b->status == 0 && strstr(b->out, "zero=1"),
           "a planner gives it the ranks of dp: %s", b->err);
    for (int i = 0; i < 2; i++) {
        const char *word = i ? "tp=1" : "dp=1";
        cli_answer *a = cli("search " GPT " --cluster 1x4:cpu --batch 8 "
                            "--fix %s --gap 0.1 --keep 1 -o \"$D/fixed.json\"",
                            word);
        tap_ok(a->status == 0 && strstr(a->err, word) &&
                   strstr(a->err, "forbids nothing by itself"),
               "--fix %s alone: a warning: %s", word, a->err);
    }
}

/* A tp that does not divide the heads is legal, and said. */
static void test_heads(void)
{
    static const struct {
        const char *words, *says;
    } rows[] = {{"heads=6 --tp 4", "6 of /blocks.0/attn/matmul_1 over 4 ranks: "
                                   "some have 2, others 1"},
                {"heads=2 --tp 4", "2 of /blocks.0/attn/matmul_1 are not cut"},
                {"heads=4 --tp 4", NULL},
                {"heads=3 --tp 1", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const cli_answer *a =
            cli("plan zoo:gpt,layers=2,hidden=48,vocab=24,seq=8,%s "
                "--cluster 1x4:cpu --batch 8 -o \"$D/plan.json\"",
                rows[i].words);
        tap_ok(a->status == 0 &&
                   (rows[i].says ? strstr(a->out, rows[i].says) != NULL
                                 : !strstr(a->out, "heads  ")),
               "%s: %s", rows[i].words,
               rows[i].says ? rows[i].says : "nothing to be said of heads");
    }
}

/* Words of the training graph are keys, too. */
static void test_words(void)
{
    cli_answer *a = cli("search " GPT " --cluster 1x4:cpu --batch 8 --fix "
                        "dp=2,tp=2,precision=bf16,recompute=block,"
                        "seq-parallel=1 -o \"$D/plan.json\"");
    tap_ok(a->status == 0 && strstr(a->out, "recompute       block"),
           "--fix precision=bf16,recompute=block");
    tap_ok(signature_of("/blocks.0/attn/q/add")[0] != '\0' &&
               strstr(signature_of("/blocks.0/ln1/layer_norm"), "S(1)"),
           "and seq-parallel=1");
    a = cli("search " GPT " --cluster 1x4:cpu --batch 8 --precision fp32 "
            "--fix precision=bf16 -o \"$D/none.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "contradict"),
           "a flag and a key that differ contradict each other");
    a = cli("search " GPT " --cluster 1x4:cpu --batch 8 "
            "--fix precision=bf7 -o \"$D/none.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "bf7"), "a precision that is none");
}

int main(void)
{
    cli_begin_scratch("recipe");
    test_tensor_parallel();
    test_classes_and_tables();
    test_pinned_part();
    test_persistent();
    test_gradients();
    test_places();
    test_experts();
    test_layers();
    test_layers_again();
    test_interleaving_note();
    test_interleaved();
    test_unequal();
    test_refused();
    test_without_effect();
    test_fixed_without_effect();
    test_heads();
    test_words();
    cli("calibrate"); /* once: `local` is then known */
    test_losses();
    test_unequal_losses();
    cli_end_scratch();
    return tap_done();
}
