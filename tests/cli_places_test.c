/* A plan finds its model: beside it, from anywhere; and what is no plan or no
 * model is said to be so. */
#include "config.h"
#include "tests/run_cli.h"

static char *program; /* absolute */

/* In folder `at` of the scratch folder: flowsearch `words`, into x.out. */
static int in(const char *at, const char *words)
{
    char command[2048];
    snprintf(command, sizeof command,
             "cd \"$D/%s\" && '%s/flowsearch' %s --db none >\"$D/out\" "
             "2>\"$D/err\"",
             at, program, words);
    int raw = system(command);
    return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128;
}

static const char *said(void)
{
    static char text[4096];
    cli_slurp("err", text, sizeof text);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

static void opens(const char *fact, const char *at, const char *plan)
{
    char words[700];
    snprintf(words, sizeof words, "check %s", plan);
    int status = in(at, words);
    tap_equal_int(status, 0, "%s", fact);
    if (status)
        printf("# %s\n", said());
}

static void test_places(void)
{
    char words[700];
    int made = in("top", "plan models/m.onnx --cluster machines/c.json --batch "
                         "8 -o plans/p.json");
    tap_equal_int(made, 0, "a plan beside neither its model nor its cluster");
    if (made)
        printf("# %s\n", said());
    opens("opens from where it was made", "top", "plans/p.json");
    opens("from its own folder", "top/plans", "p.json");
    opens("from elsewhere", "other", "../top/plans/p.json");
    snprintf(words, sizeof words, "\"%s/top/plans/p.json\"", cli_scratch);
    opens("by its absolute path", "other", words);
    if (system("cd \"$D\" && mv top moved && echo no >other/m.onnx") != 0)
        return;
    opens("after all of it was moved", "other", "../moved/plans/p.json");
    in("moved", "plan models/m.onnx --cluster machines/c.json --batch 8 -o "
                "q.json");
    if (system("cd \"$D/moved\" && sed 's|\"models/m.onnx\"|\"lost.onnx\"|' "
               "q.json >plans/r.json && cp q.json plans/s.json") != 0)
        return;
    tap_equal_int(in("other", "check ../moved/plans/r.json"), 2,
                  "a model that is lost");
    tap_ok(strstr(said(), "../moved/plans/lost.onnx") &&
               strstr(said(), "working directory, lost.onnx"),
           "names both places: %s", said());
}

/* As a file says that was written before paths were those of its folder. */
static void test_as_given(void)
{
    opens("a path that holds from the working directory only", "moved",
          "plans/s.json");
}

static void test_folders(void)
{
    tap_equal_int(in("other", "check ."), 2, "a folder is no plan");
    tap_ok(strstr(said(), "is a folder"), "and is said to be one: %s", said());
    tap_equal_int(in("other", "search zoo:mlp --cluster x.json --batch 8 -o "
                              "y.json"),
                  2, "a cluster file that is not there");
}

int main(void)
{
    cli_begin_scratch("cli_places_test");
    program = realpath(cli_env("FS_BUILDDIR", "."), NULL);
    char *scratch = realpath(cli_scratch, NULL);
    setenv("D", scratch, 1);
    if (system("mkdir -p \"$D/top/models\" \"$D/top/machines\" "
               "\"$D/top/plans\" \"$D/other\" && "
               "cp \"$S/datasets/train_cases/mlp/model.onnx\" "
               "\"$D/top/models/m.onnx\"") != 0)
        printf("Bail out! no scratch folder\n");
    cli_answer *a =
        cli("calibrate --ranks 2 -o \"$D/top/machines/c.json\" --db none");
    if (a->status)
        cli_show(a);
    test_places();
    test_as_given();
    test_folders();
    cli_end_scratch();
    free(program);
    free(scratch);
    return tap_done();
}
