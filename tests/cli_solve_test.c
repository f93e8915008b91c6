/* flowsearch solve: public instances at their best known costs, and bad input
 * in one clear line. */
#include "config.h"
#include "tests/cli_tables.h"

#include <stdint.h>

#define NODES "\"nodes\":{\"intervals\":[[0,2],[1,3]],"
#define EDGES "\"edges\":{\"nodes\":[[0,1]],\"costs\":[[0,1,2,0]]}"
#define GOOD                                                                   \
    "{\"problem\":{" NODES "\"costs\":[[1,2],[3,4]],"                          \
    "\"usages\":[[5,6],[7,8]]}," EDGES ",\"usage_limit\":%s}}"

static int64_t whole(const cli_answer *a, const char *key)
{
    return json_integer_value(json_object_get(a->json, key));
}

static void instance(const char *name, int64_t cost)
{
    const cli_answer *a =
        cli("solve \"$S/datasets/iopddl/%s\" --json --db none", name);
    tap_equal_int(a->status, 0, "%s is solved", name);
    tap_equal_int(whole(a, "cost"), cost, "%s: at the best known cost", name);
    tap_ok(whole(a, "lower_bound") <= cost &&
               (double)whole(a, "lower_bound") >= 0.998 * (double)cost,
           "%s: with a bound near it", name);
    tap_ok(whole(a, "usage_peak") <= whole(a, "usage_limit"),
           "%s: within the usage limit", name);
    tap_equal_int(json_array_size(json_object_get(a->json, "solution")),
                  whole(a, "nodes"), "%s: a strategy for each node", name);
    if (a->status)
        cli_show(a);
}

static void refused(const char *fact, const char *text, const char *word)
{
    cli_put("bad.json", text);
    const cli_answer *a = cli("solve \"$D/bad.json\" --db none");
    tap_ok(a->status == 2 && strstr(a->err, word), "%s", fact);
    if (a->status != 2 || !strstr(a->err, word))
        cli_show(a);
}

static void test_bad_input(void)
{
    refused("a node without strategies",
            "{\"problem\":{" NODES "\"costs\":[[1,2],[]],"
            "\"usages\":[[5,6],[]]}," EDGES "}}",
            "problem.nodes.costs[1] is empty: a node without strategies");
    refused("usages of other nodes",
            "{\"problem\":{" NODES "\"costs\":[[1,2],[3,4]],"
            "\"usages\":[[5,6]]}," EDGES "}}",
            "problem.nodes.usages has 1 items, problem.nodes.costs 2");
    refused("usages of other strategies",
            "{\"problem\":{" NODES "\"costs\":[[1,2],[3,4]],"
            "\"usages\":[[5,6],[7]]}," EDGES "}}",
            "problem.nodes.usages[1] must have a whole number for each");
    refused("a table too small",
            "{\"problem\":{" NODES "\"costs\":[[1,2],[3,4,5]],"
            "\"usages\":[[5,6],[7,8,9]]}," EDGES "}}",
            "problem.edges.costs[0] must have a whole number for each pair");
    refused("an edge to nowhere",
            "{\"problem\":{" NODES "\"costs\":[[1,2],[3,4]],"
            "\"usages\":[[5,6],[7,8]]},"
            "\"edges\":{\"nodes\":[[0,2]],\"costs\":[[0,1,2,0]]}}}",
            "problem.edges.nodes[0] must name two different nodes of 0 to");
    refused("an interval that ends first",
            "{\"problem\":{\"nodes\":{\"intervals\":[[0,2],[3,1]],"
            "\"costs\":[[1,2],[3,4]],\"usages\":[[5,6],[7,8]]}," EDGES "}}",
            "problem.nodes.intervals[1] must be two times");
    refused("no problem", "{}", "problem is missing (an object wanted)");
    refused("a fraction",
            "{\"problem\":{" NODES "\"costs\":[[1,2.5],[3,4]],"
            "\"usages\":[[5,6],[7,8]]}," EDGES "}}",
            "problem.nodes.costs[0] must be a list of whole numbers");
    refused("what is cut", "{\"problem\":", "bad.json:1:");
    const cli_answer *a =
        cli("solve \"$S/datasets/iopddl/G.json.gz\" --time-limit 0 --db none");
    tap_ok(a->status == 2 && strstr(a->err, "--time-limit wants seconds"),
           "no time");
    if (system("head -c 20000 \"$S/datasets/iopddl/G.json.gz\" "
               ">\"$D/cut.json.gz\"") == 0)
        a = cli("solve \"$D/cut.json.gz\" --db none");
    tap_ok(a->status == 2 && strstr(a->err, "its gzip data is broken or cut"),
           "gzip data that is cut");
}

static void test_limits(void)
{
    char text[600];
    snprintf(text, sizeof text, GOOD, "12");
    cli_put("least.json", text);
    const cli_answer *a = cli("solve \"$D/least.json\" --db none --json "
                              "-o \"$D/solution.json\"");
    tap_ok(a->status == 0 && whole(a, "cost") == 4 &&
               whole(a, "lower_bound") == 4 && whole(a, "usage_peak") == 12,
           "what just fits is found");
    cli("solve \"$D/least.json\" --db none -o \"$D/again.json\"");
    tap_ok(system("cmp -s \"$D/solution.json\" \"$D/again.json\"") == 0,
           "the file is the same each time");
    snprintf(text, sizeof text, GOOD, "11");
    cli_put("no.json", text);
    a = cli("solve \"$D/no.json\" --db none");
    tap_ok(a->status == 1 && strstr(a->err, "is infeasible"),
           "a limit below everything is infeasible");
    snprintf(text, sizeof text, GOOD, "null");
    cli_put("free.json", text);
    a = cli("solve \"$D/free.json\" --db none --json");
    tap_ok(a->status == 0 && whole(a, "cost") == 4 &&
               json_is_null(json_object_get(a->json, "usage_limit")),
           "no limit");
}

/* n nodes of one strategy each, of that cost, and no edges. */
static void put_costly(const char *name, int n, const char *cost)
{
    static char text[4096];
    size_t at = 0;
    const char *const parts[][2] = {
        {"{\"problem\":{\"nodes\":{\"intervals\":[", "[0,1]"},
        {"],\"costs\":[", NULL},
        {"],\"usages\":[", "[1]"}};
    for (int k = 0; k < 3; k++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s", parts[k][0]);
        for (int i = 0; i < n; i++)
            at += (size_t)snprintf(
                text + at, sizeof text - at, parts[k][1] ? "%s%s" : "%s[%s]",
                i ? "," : "", parts[k][1] ? parts[k][1] : cost);
    }
    snprintf(text + at, sizeof text - at,
             "]},\"edges\":{\"nodes\":[],\"costs\":[]}}}");
    cli_put(name, text);
}

/* Sums that 64 bits do not hold are refused, none wraps; just below they are
 * told to the last digit. */
static void test_large_costs(void)
{
    put_costly("most.json", 10, "900000000000000001");
    const cli_answer *a = cli("solve \"$D/most.json\" --db none --json");
    tap_ok(a->status == 0 && whole(a, "cost") == 9000000000000000010 &&
               whole(a, "lower_bound") <= whole(a, "cost") &&
               whole(a, "lower_bound") > 8999000000000000000,
           "ten of 9e17 and 1 cost 9000000000000000010: %lld, none below %lld",
           (long long)whole(a, "cost"), (long long)whole(a, "lower_bound"));
    put_costly("more.json", 11, "900000000000000001");
    a = cli("solve \"$D/more.json\" --db none --json -o \"$D/none.out\"");
    tap_ok(a->status == 2 && strstr(a->err, "more.json: the costs") &&
               strstr(a->err, "scale them down") && !whole(a, "cost"),
           "eleven of them are too much for a whole number: %s", a->err);
    tap_ok(system("test ! -e \"$D/none.out\"") == 0, "nothing is written");
    put_costly("never.json", 2, "1000000000000000000");
    a = cli("solve \"$D/never.json\" --db none");
    tap_ok(a->status == 1 && strstr(a->err, "is infeasible"),
           "10^18 forbids: %s", a->err);
    put_costly("beyond.json", 2, "10000000000000000000");
    a = cli("solve \"$D/beyond.json\" --db none");
    tap_ok(a->status == 2 && strstr(a->err, "beyond.json"),
           "a number of more than 64 bits: %s", a->err);
}

/* A square of 20 x 20 nodes of four strategies, each joined with the next ones;
 * costs of -100 to 0. */
static void put_negative(const char *name)
{
    enum { SIDE = 20, DOM = 4 };
    char path[700];
    uint32_t seed = 1;
    snprintf(path, sizeof path, "%s/%s", cli_scratch, name);
    FILE *file = fopen(path, "wb");
    const char *const keys[] = {"{\"problem\":{\"nodes\":{\"costs\":[",
                                "],\"usages\":[", "],\"intervals\":["};
    for (int k = 0; k < 3; k++) {
        fputs(keys[k], file);
        for (int i = 0; i < SIDE * SIDE; i++)
            fprintf(file, "%s%s", i ? "," : "",
                    k == 0   ? "[-1,-2,0,-3]"
                    : k == 1 ? "[1,1,1,1]"
                             : "[0,1]");
    }
    fputs("]},\"edges\":{\"nodes\":[", file);
    for (int i = 0; i < SIDE * SIDE; i++)
        fprintf(file, "%s[%d,%d],[%d,%d]", i ? "," : "", i,
                (i + 1) % (SIDE * SIDE), i, (i + SIDE) % (SIDE * SIDE));
    fputs("],\"costs\":[", file);
    for (int e = 0; e < 2 * SIDE * SIDE; e++) {
        fputs(e ? ",[" : "[", file);
        for (int k = 0; k < DOM * DOM; k++) {
            seed = seed * 1664525u + 1013904223u;
            fprintf(file, "%s-%u", k ? "," : "", (seed >> 16) % 101);
        }
        fputs("]", file);
    }
    fputs("]}}}", file);
    fclose(file);
}

/* Costs may be negative: what is open stays so, and no bound is above what more
 * work finds. */
static void test_negative_costs(void)
{
    put_negative("negative.json");
    const cli_answer *a = cli("solve \"$D/negative.json\" --db none --json "
                              "--gap 0 --work-limit 0.0001");
    const int64_t soon = whole(a, "cost"), bound = whole(a, "lower_bound");
    const double gap = json_real_value(json_object_get(a->json, "gap"));
    tap_ok(a->status == 0 && soon < 0 && bound <= soon &&
               fabs(gap * (double)-soon - (double)(soon - bound)) < 1e-6,
           "little work: %lld, none below %lld, gap %g", (long long)soon,
           (long long)bound, gap);
    a = cli("solve \"$D/negative.json\" --db none --json --gap 0 "
            "--work-limit 2");
    tap_ok(a->status == 0 && whole(a, "cost") < soon &&
               whole(a, "cost") >= bound && whole(a, "lower_bound") >= bound,
           "more finds %lld, which is not below that bound",
           (long long)whole(a, "cost"));
    put_costly("minus.json", 11, "-900000000000000001");
    a = cli("solve \"$D/minus.json\" --db none --json");
    tap_ok(a->status == 2 && strstr(a->err, "more than"),
           "sums below what 64 bits hold are refused: %s", a->err);
}

int main(void)
{
    cli_begin_scratch("cli_solve");
    instance("example.json", 445);
    instance("G.json.gz", 217039);
    instance("B.json.gz", 532843);
    test_limits();
    test_large_costs();
    test_negative_costs();
    test_bad_input();
    cli_end_scratch();
    return tap_done();
}
