#include "config.h"
#include "cli/metrics.h"

#include "base/clock.h"

#include <inttypes.h>
#include <math.h>

static const double quantiles[] = {0.5, 0.9, 0.99};
enum { N_QUANTILES = sizeof quantiles / sizeof quantiles[0] };

static void number(FILE *out, const char *name, const char *kind,
                   const char *help, double value)
{
    fprintf(out,
            "# HELP flowsearch_%s %s\n# TYPE flowsearch_%s %s\nflowsearch_%s "
            "%.17g\n",
            name, help, name, kind, name, value);
}

/* Samples of a batch, as a part of its room. */
static double mean_fill(const cli_served *served,
                        const cli_batches_counts *counts)
{
    return counts->batches
               ? (double)counts->samples /
                     ((double)counts->batches * (double)served->batch)
               : 0;
}

static void latencies(FILE *out, const cli_batches_counts *counts)
{
    static const char name[] = "flowsearch_request_seconds";
    fprintf(out,
            "# HELP %s from a request's arrival until it is answered; "
            "quantiles of the last %d\n# TYPE %s summary\n",
            name, CLI_LATENCIES, name);
    for (int i = 0; i < N_QUANTILES && counts->n_latency; i++)
        fprintf(out, "%s{quantile=\"%g\"} %.9g\n", name, quantiles[i],
                cli_batches_quantile(counts, quantiles[i]));
    fprintf(out, "%s_sum %.9g\n%s_count %" PRId64 "\n", name, counts->answer_s,
            name, counts->answered);
}

char *cli_metrics_write(const cli_served *served,
                        const cli_batches_counts *counts, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    FS_ASSERT(out);
    number(out, "requests_total", "counter", "requests taken",
           (double)counts->accepted);
    number(out, "requests_answered_total", "counter", "of them answered",
           (double)counts->answered);
    number(out, "requests_failed_total", "counter",
           "of them lost with the ranks", (double)counts->failed);
    number(out, "requests_refused_total", "counter",
           "requests not taken: the queue was full, or the server ended",
           (double)counts->refused);
    number(out, "samples_total", "counter", "samples answered",
           (double)counts->samples);
    number(out, "batches_total", "counter", "batches computed",
           (double)counts->batches);
    number(out, "batch_fill_mean", "gauge",
           "samples of a batch, as a part of its room",
           mean_fill(served, counts));
    number(out, "queue_samples", "gauge", "samples that wait",
           (double)counts->waiting);
    number(out, "batches_away", "gauge", "batches that are computed",
           (double)counts->away);
    number(out, "batch_seconds", "gauge", "a batch takes, of late",
           counts->batch_s);
    latencies(out, counts);
    fclose(out);
    return text;
}

void cli_metrics_tell(cli *c, const cli_served *served,
                      const cli_batches_counts *counts)
{
    json_t *latency = json_object();
    char text[2][32];
    const double p50 = cli_batches_quantile(counts, 0.5),
                 p99 = cli_batches_quantile(counts, 0.99);
    fs_json_set_real(latency, "p50", p50);
    fs_json_set_real(latency, "p99", p99);
    fs_json_set_int(c->result, "requests", counts->accepted);
    fs_json_set_int(c->result, "answered", counts->answered);
    fs_json_set_int(c->result, "failed", counts->failed);
    fs_json_set_int(c->result, "refused", counts->refused);
    fs_json_set_int(c->result, "samples", counts->samples);
    fs_json_set_int(c->result, "batches", counts->batches);
    fs_json_set_real(c->result, "batch_fill_mean", mean_fill(served, counts));
    json_object_set_new(c->result, "latency_s", latency);
    cli_say(c,
            "%" PRId64 " requests answered in %" PRId64
            " batches (%.3g of %" PRId64 " samples each), %" PRId64
            " refused, %" PRId64 " lost\n",
            counts->answered, counts->batches,
            mean_fill(served, counts) * (double)served->batch, served->batch,
            counts->refused, counts->failed);
    if (counts->n_latency)
        cli_say(c, "half of them within %s, 99 of 100 within %s\n",
                fs_human_seconds(text[0], p50), fs_human_seconds(text[1], p99));
}
