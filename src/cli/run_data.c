/* What run says of its data. */
#include "config.h"
#include "cli/data.h"
#include "cli/job.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* For benches: FS_DISK=LATENCY_S[,BYTES_PER_S] makes the disk that slow. */
static void slow_disk(exec_data_options *out)
{
    char *end;
    const char *said = getenv("FS_DISK");
    if (!said)
        return;
    out->disk_latency_s = strtod(said, &end);
    const double rate = *end == ',' ? strtod(end + 1, NULL) : 0;
    if (!isfinite(out->disk_latency_s) || out->disk_latency_s < 0)
        out->disk_latency_s = 0;
    out->disk_s_per_byte = rate > 0 && isfinite(rate) ? 1 / rate : 0;
}

fs_status cli_run_data_open(cli *c, const cli_plan *p, exec_data *out)
{
    const cli_args *a = &c->args;
    exec_data_options options = {
        .seed = cli_seed(c, &p->model.origin),
        .shuffle = a->shuffle != NULL,
        .shuffle_seed = a->shuffle ? strtoull(a->shuffle, NULL, 10) : 0,
        .augment = a->augment,
        .normalize = a->normalize,
        .columns = a->columns};
    if (!a->data)
        return fs_fail(&c->err, FS_INVALID,
                       "run wants --data: FILE.txt, FILE.bin:u16, "
                       "IMAGES,LABELS, FILE.csv, a folder of input_N.pb, or "
                       "synthetic");
    slow_disk(&options);
    return cli_data_open(&p->model, a->data, &options, c->arena, &c->err, out);
}

fs_status cli_run_data_check(cli *c, const cli_plan *p)
{
    exec_data data;
    FS_TRY(cli_run_data_open(c, p, &data));
    if (data.note && !c->quiet)
        fs_warn("%s", data.note);
    if (data.close)
        data.close(data.ctx);
    return cli_job_check_reads(c, "FS_READS_DATA", c->args.data, data.digest);
}

/* "IMAGES,LABELS", "FILE:u16" */
const char *cli_run_data_file(const cli *c, int i)
{
    const char *at = c->args.data;
    for (; at && i > 0; i--) {
        at = strchr(at, ',');
        at += at != NULL;
    }
    if (!at)
        return NULL;
    size_t n = strcspn(at, ",");
    const char *suffix = n > 4 ? at + n - 4 : "";
    if (strncmp(suffix, ":u16", 4) == 0 || strncmp(suffix, ":i32", 4) == 0)
        n -= 4;
    return fs_strndup(c->arena, at, n);
}

int cli_run_data_words(cli *c, const char **words)
{
    const cli_args *a = &c->args;
    const char *const said[][2] = {{"--augment", a->augment},
                                   {"--normalize", a->normalize},
                                   {"--columns", a->columns}};
    int n = 0;
    if (a->shuffle)
        words[n++] = a->shuffle[0]
                         ? fs_printf(c->arena, "--shuffle=%s", a->shuffle)
                         : "--shuffle=0";
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++)
        if (said[i][1]) {
            words[n++] = said[i][0];
            words[n++] = said[i][1];
        }
    return n;
}
