/* What the program says of a plan that is wrong or was edited: the file, the
 * field, the cycle; and of a prediction what it counts. */
#include "config.h"
#include "tests/run_cli.h"

#define PLAN "plan zoo:gpt,layers=2,hidden=16,heads=4,vocab=24,seq=8 "

/* Status, and both words said on either stream. */
static void says(const char *fact, int status, const char *one,
                 const char *other, const cli_answer *a)
{
    const bool both = (strstr(a->err, one) || strstr(a->out, one)) &&
                      (strstr(a->err, other) || strstr(a->out, other));
    tap_ok(a->status == status && both, "%s", fact);
    if (a->status != status || !both) {
        printf("# wanted status %d, '%s' and '%s'\n", status, one, other);
        cli_show(a);
    }
}

/* plans/deadlock_3d.json: it may be looked at, but is told to be dead. */
static void test_deadlock(void)
{
    static const char waits[] = "waits for";
#define DEAD "\"$S/plans/deadlock_3d.json\""
    says("explain tells that a plan deadlocks", 0, "this plan deadlocks", waits,
         cli("explain " DEAD));
    says("so does explain --op", 0, "this plan deadlocks", waits,
         cli("explain " DEAD " --op /blocks.0/fc/relu"));
    says("and show", 0, "this plan deadlocks", waits,
         cli("show " DEAD " -o \"$D/dead.svg\""));
    says("sim says no", 1, "it deadlocks", waits, cli("sim " DEAD));
    says("run refuses it", 2, "the plan deadlocks", waits,
         cli("run " DEAD " --data synthetic"));
    says("a dry run too", 2, "the plan deadlocks", waits,
         cli("run " DEAD " --data synthetic --dry-run"));
    const cli_answer *a = cli("run " DEAD " --data synthetic");
    const char *cycle = strstr(a->out, waits);
    tap_ok(cycle && !strstr(a->err, waits) &&
               !strstr(strstr(a->out, "a cycle of") + 1, "a cycle of"),
           "and tells the cycle once");
    a = cli("explain " DEAD " --json");
    tap_ok(a->status == 0 && json_is_false(json_object_get(a->json, "live")) &&
               json_array_size(json_object_get(a->json, "findings")) == 1,
           "--json: live is false, the cycle is a finding");
#undef DEAD
}

static void edit(const char *from, const char *to)
{
    char command[512];
    snprintf(command, sizeof command,
             "sed 's/\"%s/\"%s/' \"$D/plan.json\" >\"$D/edited.json\" && "
             "! cmp -s \"$D/plan.json\" \"$D/edited.json\"",
             from, to);
    if (system(command) != 0)
        tap_ok(false, "the plan has \"%s", from);
}

static void test_edits(void)
{
    static const struct {
        const char *from, *to, *one, *other;
    } rows[] = {
        {"clip_norm\": 0.0", "clip_norm\": 1.0", "edited.json: origin",
         "clip_norm"},
        {"optimizer\": \"adamw", "optimizer\": \"sgd", "edited.json: origin",
         "optimizer"},
        {"recompute\": \"", "recompute\": \"block", "edited.json: origin",
         "recompute"},
        {"beta1\": -1.0", "beta1\": 1.5", "edited.json: origin.beta1 is 1.5",
         "below 1"},
        {"momentum\": -1.0", "momentum\": 3", "origin.momentum is 3",
         "below 1"},
        {"clip_norm\": 0.0", "clip_norm\": -1.0",
         "edited.json: origin.clip_norm is -1", "at least 0"},
    };
    cli(PLAN "--cluster 1x2:cpu --batch 8 -o \"$D/plan.json\"");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        edit(rows[i].from, rows[i].to);
        says(rows[i].to, 2, rows[i].one, rows[i].other,
             cli("check \"$D/edited.json\""));
    }
}

static void test_recompute(void)
{
    says(
        "a policy that is none: the policies are listed", 2,
        "(block, full, selective, cheap, casts, nothing, none; any, of search)",
        "fulll",
        cli(PLAN "--cluster 1x2:cpu --batch 8 --recompute fulll "
                 "-o \"$D/no.json\""));
    double ops[2];
    for (int k = 0; k < 2; k++)
        ops[k] = cli_number(cli(PLAN "--cluster 1x2:cpu --batch 8 --recompute "
                                     "%s --json -o \"$D/plan.json\"",
                                k ? "full" : "block"),
                            "recomputed_ops");
    tap_ok(ops[0] > 0 && ops[0] == ops[1],
           "full, Megatron's word, is block: %g and %g ops", ops[1], ops[0]);
}

static void test_cores(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const cli_answer *a = cli(PLAN "--cluster local --ranks %ld --batch %ld "
                                   "-o \"$D/many.json\"",
                              2 * cores, 2 * cores);
    says("more ranks than cores: a plan tells that they share", 0,
         "ranks share the", "times slower", a);
    says("and its simulation", 0, "ranks share the", "times slower",
         cli("sim \"$D/many.json\""));
    a = cli(PLAN "--cluster local --ranks 1 --batch 4 -o \"$D/one.json\"");
    tap_ok(a->status == 0 && !strstr(a->out, "share the"),
           "one rank shares with nobody");
}

int main(void)
{
    cli_begin_scratch("cli_messages_test");
    test_deadlock();
    test_edits();
    test_recompute();
    test_cores();
    cli_end_scratch();
    return tap_done();
}
