/* Which of an op's kernels runs: by what was measured on this machine, the same
 * each time that a plan runs. Times are made up, so that none is asserted. */
#include "config.h"
#include "tests/cli_measured.h"

#define GPT "zoo:gpt,layers=1,hidden=32,heads=2,vocab=64,seq=16"
#define RUN "run \"$D/p.json\" --data synthetic --steps 8 --json "

/* Then a plan. */
static void make_faster(const char *variant)
{
    cli_make_faster(variant);
    cli("plan " GPT " --cluster local --ranks 2 --batch 4 --dp 2"
        " -o \"$D/p.json\"");
}

static void digest_of(const cli_answer *a, char out[17])
{
    const char *text =
        json_string_value(json_object_get(a->json, "weights_digest"));
    snprintf(out, 17, "%s", text ? text : "none");
}

static void test_told(void)
{
    make_faster("reference");
    const cli_answer *a = cli("explain \"$D/p.json\" --variants --json");
    const int by_times = cli_count_variants(a, "by", "times");
    tap_ok(by_times > 3 &&
               cli_count_variants(a, "chosen", "reference") >= by_times,
           "of %d products the one that was the fastest", by_times);
    a = cli("explain \"$D/p.json\" --variants");
    tap_ok(strstr(a->out, "the fastest") && strstr(a->out, "reference 100 ns"),
           "a table says which, why, and what each takes");
    a = cli("explain \"$D/p.json\" --variants --stage 0");
    tap_equal_int(a->status, 2, "one question at a time");
}

/* An undisturbed run, one more, one that is broken and begun anew, one that
 * goes on from a checkpoint. */
static void test_same_bits(const char *variant)
{
    char first[17], again[17];
    const cli_answer *a = cli(RUN);
    digest_of(a, first);
    tap_ok(a->status == 0 && cli_count_variants(a, "chosen", variant) > 3,
           "a run says which it was: %s", variant);
    digest_of(cli(RUN), again);
    tap_equal_text(again, first, "the same bits each time");
    setenv("FLOWSEARCH_FAILPOINT", "step:5=kill9@1", 1);
    digest_of(cli(RUN "--max-restarts 1"), again);
    unsetenv("FLOWSEARCH_FAILPOINT");
    tap_equal_text(again, first, "begun anew");
    cli("run \"$D/p.json\" --data synthetic --steps 4 --checkpoint \"$D/ck\"");
    digest_of(cli(RUN "--checkpoint \"$D/ck\" --resume"), again);
    tap_equal_text(again, first, "resumed");
    if (system("rm -rf \"$D/ck\"") != 0)
        printf("# a checkpoint is left behind\n");
}

static void test_flipped(void)
{
    make_faster("dnnl");
    const cli_answer *a = cli("explain \"$D/p.json\" --variants --json");
    tap_ok(cli_count_variants(a, "chosen", "dnnl") > 3 &&
               cli_count_variants(a, "chosen", "reference") == 0,
           "with other figures another");
}

static void test_elsewhere(void)
{
    tap_ok(system("sed 's/\"machine\": *\"[0-9a-f]*\"/"
                  "\"machine\":\"0123456789abcdef\"/' \"$D/p.json\""
                  " > \"$D/q.json\"") == 0,
           "a plan with another machine's figures");
    const cli_answer *a = cli("explain \"$D/q.json\" --variants --json");
    tap_ok(cli_count_variants(a, "by", "order") > 3 &&
               cli_count_variants(a, "by", "times") == 0 &&
               cli_count_variants(a, "by", "bucket") == 0,
           "chooses nothing by them");
}

int main(void)
{
    cli_begin_scratch("cli_variants_test");
    cli("calibrate " GPT " --batch 4 --ranks 2 --passes 1");
    test_told();
    test_same_bits("reference");
    test_flipped();
    test_same_bits("dnnl");
    test_elsewhere();
    cli_end_scratch();
    return tap_done();
}
