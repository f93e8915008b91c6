/* Models of the zoo on two ranks give the losses of one: each kind of layer
 * under data, tensor and pipeline parallelism. */
#include "config.h"
#include "tests/cli_plans.h"

enum { STEPS = 4 };

static const struct {
    const char *spec;
    bool by_batch; /* normalised by the batch: no micro-batches, and rounding
                      grows */
} models[] = {
    {"llama,layers=2,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=11,seq=6",
     false},
    {"moe,layers=2,hidden=16,heads=2,vocab=11,seq=8,experts=4", false},
    {"bert,layers=2,hidden=16,heads=2,vocab=11,seq=6,sentence=0", false},
    {"bert,layers=2,hidden=16,heads=2,vocab=11,seq=6", false},
    {"t5,layers=2,hidden=16,heads=2,head=8,ffn=24,vocab=11,seq=6,target=5",
     false},
    {"vit,layers=2,hidden=16,heads=2,ffn=24,patch=4,size=8,classes=5", false},
    {"unet,depth=2,width=4,classes=5,size=16", true},
    {"efficientnet,percent=5,classes=5,size=64", true},
    {"dlrm,tables=10,rows=200,embedding=4,dense=3,bottom=8,top=16", false},
    {"insightface,depth=18,width=4,embedding=8,classes=20,size=32,scale=4",
     true},
    {"gru,layers=2,hidden=16,embedding=8,vocab=11,seq=6", false},
};

/* Trains as the plan of `command` says. */
static bool train_by(const char *command, const char *spec, const char *recipe,
                     double *losses)
{
    char words[600];
    snprintf(words, sizeof words,
             "%s zoo:%s --cluster local --batch 8 --optimizer sgd --lr 0.05 %s",
             command, spec, recipe);
    return cli_train(words, "synthetic", STEPS, losses);
}

static bool train(const char *spec, const char *recipe, double *losses)
{
    return train_by("plan", spec, recipe, losses);
}

/* In parts the search itself cuts a large vocabulary: the largest of a row is
 * put together from P(max). */
static void test_large_vocabulary(void)
{
    static const char *const spec =
        "gpt,layers=1,hidden=16,heads=2,vocab=4000,seq=8";
    double one[STEPS], two[STEPS];
    const bool ran =
        train(spec, "--ranks 1 --dp 1", one) &&
        train_by("search", spec, "--ranks 2 --rewrite usual,parts", two);
    const double most = ran ? cli_losses_off(two, one, STEPS) : 0;
    tap_ok(ran && most <= 1e-5,
           "%s: a searched plan in parts has the losses of one rank (off %.1e)",
           spec, most);
    tap_ok(system("grep -q 'P(max)' \"$D/plan.json\"") == 0,
           "%s: its classes are cut", spec);
}

static void test_recipe(const char *spec, const char *recipe,
                        const double *wanted, double tolerance)
{
    double losses[STEPS];
    const bool ran = train(spec, recipe, losses);
    const double most = ran ? cli_losses_off(losses, wanted, STEPS) : 0;
    tap_ok(ran && most <= tolerance,
           "%s, %s: the losses of one rank (off %.1e)", spec, recipe, most);
}

/* Recurrent layers as steps: R is cut by hidden units. */
static void test_steps(void)
{
    static const char *const specs[] = {
        "lstm,layers=2,hidden=16,embedding=8,vocab=11,seq=6",
        "gru,layers=2,hidden=16,embedding=8,vocab=11,seq=6"};
    for (int k = 0; k < 2; k++) {
        double one[STEPS];
        if (train(specs[k], "--ranks 1 --dp 1", one))
            test_recipe(specs[k], "--ranks 2 --tp 2 --rewrite usual,steps", one,
                        1e-5);
        tap_ok(system("tr -d ' \\n' < \"$D/plan.json\" | grep -q "
                      "'\"name\":\"blocks.1.rnn.recurrent\",\"stage\":0,"
                      "\"in\":\\[\\],\"out\":\\[\"S(1)\"\\]'") == 0,
               "%s: its recurrent weights are cut by hidden units", specs[k]);
    }
    cli_answer *a = cli("model zoo:gru,layers=1,seq=2000 --batch 2 "
                        "--rewrite usual,steps");
    tap_ok(a->status == 0 && strstr(a->out, "1 recurrent layer stays one op"),
           "a layer of many steps stays an op, and it is said");
}

/* A norm over the batch is each micro-batch's own: that is said. */
static void test_statistics(void)
{
    for (int m = 1; m <= 2; m++) {
        cli_answer *a =
            cli("plan zoo:unet,depth=2,width=4,classes=5,size=16 --batch 4 "
                "--cluster 1x1:cpu --micro-batches %d -o \"$D/norm.json\"",
                m);
        tap_ok(a->status == 0 &&
                   (m == 2) == (strstr(a->out, "batch_norm x 10") != NULL),
               "plan of %d: names what has statistics per micro-batch", m);
        a = cli("explain \"$D/norm.json\" --json");
        const json_t *list =
            json_object_get(a->json, "statistics_per_micro_batch");
        tap_ok(a->status == 0 && json_is_array(list) &&
                   json_array_size(list) == (m == 2 ? 2 : 0),
               "explain of %d: so do its kinds of ops", m);
    }
}

/* One image on a machine that is described, so that its figures are the same
 * everywhere. */
static void test_space(void)
{
    static char drawn[1 << 20];
    cli_answer *a = cli("search zoo:unet,depth=2,width=8,size=64 --batch 1 "
                        "--cluster 1x4:cpu --optimizer sgd --json "
                        "-o \"$D/space.json\"");
    if (a->status == 0)
        a = cli("show \"$D/space.json\" -o \"$D/space.dot\"");
    if (a->status != 0)
        cli_show(a);
    cli_slurp("space.dot", drawn, sizeof drawn);
    tap_ok(a->status == 0 && strstr(drawn, "halo"),
           "one image on four devices is cut in space, halos are drawn");
    a = cli("explain \"$D/space.json\"");
    tap_ok(a->status == 0 && strstr(a->out, "halo"),
           "and their seconds are explained");
    a = cli("check \"$D/space.json\"");
    tap_ok(a->status == 0, "such a plan is proven");
}

/* Bytes live at once in the last plan, and how many of its nodes are written
 * in the plan. */
static int64_t live_bytes(size_t *nodes)
{
    char path[600];
    snprintf(path, sizeof path, "%s/plan.json", cli_scratch);
    json_t *file = json_load_file(path, 0, NULL), *roles = NULL, *list = NULL;
    json_t *role = NULL;
    if (file) {
        roles = json_object_get(json_object_get(file, "plan"), "roles");
        list = json_object_get(json_object_get(file, "strategy"), "nodes");
        role = json_array_get(roles, 0);
    }
    *nodes = json_array_size(list);
    const int64_t bytes =
        json_integer_value(json_object_get(role, "bound_bytes"));
    json_decref(file);
    return bytes;
}

/* `most`: bytes, in units of those without chains. A chain holds what enters
 * and leaves it at once, which steps that make some of it smaller need not. */
static void test_chains(const char *spec, const char *options, double most)
{
    double apart[STEPS], fused[STEPS];
    char words[200];
    size_t n_apart, n_fused;
    snprintf(words, sizeof words, "--ranks 1 --dp 1 --rewrite -chain %s",
             options);
    bool ran = train(spec, words, apart);
    const int64_t before = live_bytes(&n_apart);
    snprintf(words, sizeof words, "--ranks 1 --dp 1 %s", options);
    ran = ran && train(spec, words, fused);
    const int64_t now = live_bytes(&n_fused);
    tap_ok(ran && memcmp(apart, fused, sizeof apart) == 0,
           "%s %s: chains give the losses of their steps, to the bit", spec,
           options);
    tap_ok(n_fused < n_apart && now > 0 && (double)now <= most * (double)before,
           "%s %s: %zu nodes are %zu, %lld bytes live at once %lld", spec,
           options, n_apart, n_fused, (long long)before, (long long)now);
}

/* One stage, memory to spare: its prices cannot move, so its dual has to. */
static void test_proof(void)
{
    cli_answer *a = cli("search zoo:resnet50 --batch 64 --fix pp=1 "
                        "--micro-batches 1 --cluster 1x4:a100-sxm4-80g "
                        "--time-limit 600 --json -o \"$D/proof.json\"");
    const double gap = json_number_value(json_object_get(a->json, "gap"));
    if (a->status != 0)
        cli_show(a);
    tap_ok(a->status == 0 && gap <= 0.001,
           "a network of batch norms and sums is proven to 0.1 %% (gap %.3g)",
           gap);
}

int main(void)
{
    cli_begin_scratch("zoo");
    test_space();
    test_proof();
    test_statistics();
    cli("calibrate"); /* once: `local` is then known */
    for (size_t m = 0; m < 2; m++) {
        const char *const spec = models[m ? 6 : 0].spec;
        test_chains(spec, "", 1);
        test_chains(spec, "--precision bf16 --recompute cheap", 1.05);
    }
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const char *spec = models[i].spec;
        const double tolerance = models[i].by_batch ? 1e-4 : 1e-5;
        double one[STEPS];
        const bool ran = train(spec, "--ranks 1 --dp 1", one);
        tap_ok(ran, "%s trains on one rank", spec);
        if (!ran)
            continue;
        test_recipe(spec, "--ranks 2 --dp 2", one, tolerance);
        test_recipe(spec, "--ranks 2 --tp 2", one, tolerance);
        test_recipe(spec,
                    models[i].by_batch ? "--ranks 2 --pp 2"
                                       : "--ranks 2 --pp 2 --micro-batches 2",
                    one, tolerance);
        if (!models[i].by_batch)
            test_recipe(spec, "--ranks 2 --dp 2 --micro-batches 4", one,
                        tolerance);
    }
    test_large_vocabulary();
    test_steps();
    cli_end_scratch();
    return tap_done();
}
