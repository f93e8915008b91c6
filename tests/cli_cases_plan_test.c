/* conformance --plan: training cases on ranks give what is recorded of one
 * device, or are refused with what stands in the way. */
#include "config.h"
#include "tests/run_cli.h"

#define MLP "datasets/train_cases/mlp"

static json_t *detail(const cli_answer *a, size_t i)
{
    return json_array_get(json_object_get(a->json, "details"), i);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void make(const char *command)
{
    if (system(command) != 0)
        printf("Bail out! %s\n", command);
}

static bool is_small(const json_t *of, const char *key, double most)
{
    const json_t *value = json_object_get(of, key);
    return json_is_real(value) && json_real_value(value) <= most;
}

static void test_recipe(const char *recipe, int ranks)
{
    cli_answer *a = cli("conformance \"$S/" MLP "\" --plan %s --json", recipe);
    const json_t *mlp = detail(a, 0);
    tap_ok(a->status == 0 && cli_number(a, "passed") == 1 &&
               cli_number(a, "ranks") == ranks,
           "%s: the case passes on %d ranks", recipe, ranks);
    if (a->status != 0)
        cli_show(a);
    tap_equal_text(text_of(a->json, "plan"), recipe, "--json says which plan");
    tap_equal_text(text_of(mlp, "plan"), recipe, "and of which case");
    tap_equal_int((int)json_integer_value(json_object_get(mlp, "gradients")), 6,
                  "%s: every gradient is compared", recipe);
    tap_ok(is_small(mlp, "loss_error", 1e-5) &&
               is_small(mlp, "gradient_error", 1e-4) &&
               is_small(mlp, "curve_error", 1e-3),
           "%s: loss, gradients and curves are the record's", recipe);
}

/* What is compared is what the ranks found. */
static void test_spoiled(void)
{
    make("mkdir -p \"$D/bad\" && cp -r \"$S/" MLP "\" \"$D/bad/\" && "
         "cd \"$D/bad/mlp\" && chmod -R u+w . && "
         "cp grad/m.2.bias.pb x && { head -c -4 x; printf AAAA; } "
         ">grad/m.2.bias.pb");
    cli_answer *a = cli("conformance \"$D/bad\" --plan tp=2 --json");
    tap_ok(a->status == 1 && cli_number(a, "failed") == 1 &&
               strstr(text_of(detail(a, 0), "reason"), "gradient of m.2.bias"),
           "another gradient than recorded failed, named");
}

static void test_refused(void)
{
    static const struct {
        const char *name, *recipe, *says;
    } cases[] = {
        {"mlp", "dp=3", "does not divide over dp=3"},
        {"mlp", "micro-batches=3", "does not divide into 3 micro-batches"},
        {"resnet_thin_bn", "micro-batches=2",
         "takes statistics of a micro-batch"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cli_answer *a =
            cli("conformance \"$S/datasets/train_cases/%s\" --plan %s --json",
                cases[i].name, cases[i].recipe);
        const char *reason = text_of(detail(a, 0), "reason");
        tap_ok(a->status == 1 && cli_number(a, "refused") == 1 &&
                   strstr(reason, cases[i].says),
               "%s, %s is refused: %s", cases[i].name, cases[i].recipe, reason);
    }
    cli_answer *a = cli("conformance \"$S/" MLP "\" --plan dp=2,up=2");
    tap_ok(a->status == 2 && strstr(a->err, "--plan: recipe: unknown key 'up'"),
           "a recipe that is none is bad input");
    make("rm -rf \"$D/bad\"; mkdir -p \"$D/bad\" && cp -r \"$S/" MLP
         "\" \"$D/bad/\" && cd \"$D/bad/mlp\" && chmod -R u+w . && "
         "rm test_data_set_0/input_0.pb");
    a = cli("conformance \"$D/bad\" --plan dp=2 --json");
    tap_ok(cli_number(a, "failed") == 1,
           "a case that is not whole failed all the same");
}

/* A case of the ONNX backend beside one of training. */
static void test_others(void)
{
    make("mkdir -p \"$D/all/forward\" && cp -r \"$S/" MLP "\" \"$D/all/\" && "
         "cp -r \"$S/" MLP "/model.onnx\" \"$S/" MLP "/test_data_set_0\" "
         "\"$D/all/forward/\"");
    cli_answer *a = cli("conformance \"$D/all\" --plan pp=2");
    tap_ok(a->status == 0 &&
               strstr(a->out, "1 training case under --plan pp=2 on 2 ranks; 1 "
                              "of the ONNX backend forward on one, which "
                              "--plan does not touch"),
           "the output says what --plan is not about");
    a = cli("conformance \"$D/all\" --json");
    tap_ok(a->status == 0 && json_is_null(json_object_get(a->json, "plan")) &&
               json_is_null(json_object_get(detail(a, 1), "plan")),
           "without --plan there is none in the object");
}

/* The same tensors every step, from files. */
static void test_folder(void)
{
    cli_answer *a =
        cli("plan \"$S/" MLP "/model.onnx\" --cluster local --ranks 2 --dp 2 "
            "--batch 4 --micro-batches 2 --optimizer sgd --lr 0.1 "
            "-o \"$D/plan.json\"");
    tap_ok(a->status == 0, "the case's model has a plan");
    a = cli("run \"$D/plan.json\" --data \"$S/" MLP
            "/test_data_set_0\" --steps 2 --json");
    const json_t *losses = json_object_get(a->json, "losses");
    char path[700];
    snprintf(path, sizeof path, "%s/" MLP "/train.json",
             cli_env("FS_SRCDIR", "."));
    json_t *train = json_load_file(path, 0, NULL);
    const json_t *sgd =
        json_object_get(json_object_get(train, "losses"), "sgd");
    for (size_t i = 0; i < 2; i++) {
        double got = json_number_value(json_array_get(losses, i));
        double wanted = json_number_value(json_array_get(sgd, i));
        tap_ok(fabs(got - wanted) <= 1e-5 * fabs(wanted),
               "run feeds a folder of tensors: loss %g at step %d, recorded %g",
               got, (int)i, wanted);
    }
    json_decref(train);
    a = cli("run \"$D/plan.json\" --data \"$D\" --steps 2");
    tap_ok(a->status == 2 && strstr(a->err, "input_0.pb"),
           "a folder without them is refused, the file named");
    a = cli("run \"$D/plan.json\" --data \"$S/datasets/train_cases/wide_deep/"
            "test_data_set_0\" --steps 2");
    tap_ok(a->status == 2 && strstr(a->err, "input_0.pb is "),
           "so is a tensor of another kind than the input");
}

int main(void)
{
    cli_begin_scratch("cli_cases_plan_test");
    test_recipe("dp=2,micro-batches=2", 2);
    test_recipe("dp=2,tp=2,zero=1", 4);
    test_spoiled();
    test_refused();
    test_others();
    test_folder();
    cli_end_scratch();
    return tap_done();
}
