/* `run` doubts figures of a machine that are far from what it measures. */
#include "config.h"
#include "tests/run_cli.h"

/* Every op takes half a second: no machine is so slow. */
static const char slow[] =
    "{\"version\": 1, \"groups\": [{\"nodes\": 1, \"devices_per_node\": 1, "
    "\"cores_per_node\": 1,"
    "\"device\": {\"name\": \"slow\", \"memory_bytes\": 4e9, "
    "\"memory_bps\": 1e10, \"tf32_flops\": 0, \"bf16_flops\": 0, \"source\": "
    "\"a test\", \"fp32_flops\": 1e11, \"matmul_efficiency\": 0.8, "
    "\"memory_efficiency\": 0.8, \"launch_s\": 0.5},"
    "\"inner\": {\"name\": \"inner\", \"latency_s\": 1e-6, "
    "\"bandwidth_bps\": 5e9, \"on_cores\": true},"
    "\"memory\": {\"name\": \"memory\", \"latency_s\": 1e-6, "
    "\"bandwidth_bps\": 5e9, \"on_cores\": true}}],"
    "\"outer\": {\"name\": \"outer\", \"latency_s\": 1e-5, "
    "\"bandwidth_bps\": 1e9}}";

static void write_cluster(void)
{
    char path[600];
    snprintf(path, sizeof path, "%s/slow.json", cli_scratch);
    FILE *file = fopen(path, "w");
    if (file) {
        fputs(slow, file);
        fclose(file);
    }
}

int main(void)
{
    cli_begin_scratch("cli_hint_test");
    write_cluster();
    cli_answer *a = cli("plan zoo:mlp,layers=1,hidden=16 --cluster "
                        "\"$D/slow.json\" --batch 4 -o \"$D/plan.json\"");
    tap_equal_int(a->status, 0, "a plan for a slow machine");
    if (a->status != 0)
        cli_show(a);
    a = cli("run \"$D/plan.json\" --data synthetic --steps 2");
    tap_ok(a->status == 0 && strstr(a->out, "flowsearch calibrate"),
           "far from its figures: a hint at calibrate");
    if (a->status != 0)
        cli_show(a);
    cli_end_scratch();
    return tap_done();
}
