/* flowsearch validate: what a row may tell. Whatever is out of its range, of
 * another kind, unknown or contradicts the rest is a skip with its reason; a
 * table's columns and lines are those of its file. */
#include "config.h"
#include "tests/cli_rows.h"

#include <sys/resource.h>

/* ---- cells ---- */

/* Any number column told as what is no value of it: the reason names it. */
static void test_ranges(void)
{
    static const char *const columns[] = {
        "params_b", "layers",      "hidden",         "heads",
        "kv_heads", "experts",     "vocab",          "global_batch",
        "gpus",     "micro_batch", "grad_accum",     "gpu_mem_gb",
        "tp",       "pp",          "gpus_per_node",  "dp",
        "cp",       "ep",          "iter_time_s",    "peak_mem_gb",
        "seq_par",  "zero_stage",  "tokens_per_s",   "samples_per_s",
        "seq_len",  "vpp",         "tflops_per_gpu", "tokens_per_s_per_gpu"};
    static const char *const values[] = {"-1",   "0x10", "1e30", "nan", "inf",
                                         "many", "1 2",  "4_0",  "-0.5"};
    enum { ROWS = 120 };
    const char *asked[ROWS];
    state = tap_seed(28);
    begin();
    for (int i = 0; i < ROWS; i++) {
        char changes[80];
        asked[i] = columns[below(sizeof columns / sizeof *columns)];
        snprintf(changes, sizeof changes, "%s=%s", asked[i],
                 values[below(sizeof values / sizeof *values)]);
        add_row(changes);
    }
    const cli_answer *a = ask();
    tap_equal_int(predicted(a), 0, "numbers that are none: nothing predicted");
    int named = 0;
    for (int i = 0; i < ROWS; i++) {
        named += strstr(cli_reason(a, (size_t)i), asked[i]) != NULL;
        if (!strstr(cli_reason(a, (size_t)i), asked[i]))
            printf("# %s: %s\n", asked[i], cli_reason(a, (size_t)i));
    }
    tap_equal_int(named, ROWS, "each reason names its column");
}

/* 0 is a value of few. */
static void test_zeros(void)
{
    static const wrong rows[] = {
        {"iter_time_s=0", "iter_time_s is '0', must be from"},
        {"iter_time_s=0.000", "iter_time_s is '0.000', must be from"},
        {"dp=0", "dp is '0', must be from 1"},
        {"cp=0", "cp is '0', must be from 1"},
        {"vocab=0", "vocab is '0', must be from 2"},
        {"gpus_per_node=0", "gpus_per_node is '0', must be from 1"},
        {"peak_mem_gb=0|iter_time_s=", "peak_mem_gb is '0'"},
        {"iter_time_s=|samples_per_s=0", "a rate of 0 is none"},
        {"seq_par=2", "seq_par is '2', must be from 0 to 1"},
        {"zero_stage=4", "zero_stage is '4', must be from 0 to 3"},
        {"id=", "id is not told (line 12)"},
        {"id=  ", "id is not told (line 13)"},
        {"gpu=", "gpu is not told"},
        {"gpus=", "gpus is not told"},
        {"arch=", "arch is not told"},
        {"global_batch=|micro_batch=1e9|dp=1000|gpus=1000|pp=1", "no batch"},
        {"tp=1e6|pp=1e6|dp=1e6", "contradictory sizes: tp 1000000"},
    };
    ALL_SKIPPED(rows);
}

/* What text columns may say is known, wherever it is of no consequence too. */
static void test_words(void)
{
    static const wrong rows[] = {
        {"scope=kernel", "scope 'kernel' is no training step"},
        {"task=constrained inference", "is no training"},
        {"recompute=foo", "recompute 'foo' is not known"},
        {"recompute=foo|source=ground_truth_single.csv|framework="
         "Megatron-DeepSpeed",
         "recompute 'foo' is not known"},
        {"recompute=not full", "recompute 'not full' is not known"},
        {"schedule=foo|pp=1|dp=4", "schedule 'foo' is not known"},
        {"schedule=1f1b-ish", "schedule '1f1b-ish' is not known"},
        {"precision=", "precision is not told"},
        {"precision=int8 fp16", "precision 'int8 fp16' is not known"},
        {"precision=mixed", "precision 'mixed' is not known"},
        {"arch=gptx", "networks of the kind 'gptx' are not built"},
        {"arch=(gpt)", "networks of the kind '(gpt)' are not built"},
        {"arch=moe", "experts is not told"},
        {"arch=mixtral", "experts is not told"},
        {"experts=8", "8 experts of a network without"},
        {"seq_len=64x64", "seq_len is '64x64', which is no whole number"},
        {"seq_len=", "seq_len is not told"},
        {"vpp=2.5", "vpp is '2.5'"},
    };
    ALL_SKIPPED(rows);
}

static void test_contradictions(void)
{
    static const wrong rows[] = {
        {"kv_heads=3|arch=llama|heads=4", "3 heads of keys and values are no"},
        {"kv_heads=2", "are not modelled of gpt"},
        {"vpp=2|schedule=1f1b", "contradictory plan: vpp 2"},
        {"vpp=2|schedule=none", "contradictory plan: vpp 2"},
        {"vpp=2|schedule=gpipe", "contradictory plan: vpp 2"},
        {"vpp=3|schedule=zb-v", "is of two"},
        {"vpp=2|schedule=|pp=1|dp=4|micro_batch=1", "but one stage"},
        {"iter_time_s=0.100|samples_per_s=100", "contradictory times"},
        {"iter_time_s=0.100|tokens_per_s=20480", "contradictory times"},
        {"iter_time_s=0.100|tokens_per_s_per_gpu=10240", "contradictory times"},
        {"iter_time_s=|samples_per_s=160.0|tokens_per_s=20480.0",
         "samples_per_s tells a step of"},
        /* 2 (12 h^2 + 4 s h) + V h multiply-adds of a word, h = s = 64 */
        {"iter_time_s=0.100|tflops_per_gpu=0.10", "tflops_per_gpu one of"},
        {"iter_time_s=1.0e-7",
         "the peak of its devices one of 2.42e-07 to inf"},
        {"params_b=0.5", "contradictory sizes: params_b 0.5"},
        {"peak_mem_gb=200", "contradictory memory: peak_mem_gb 200 on devices "
                            "of 80 GB (a100-sxm4-80g)"},
        {"peak_mem_gb=18.5|gpu=V100-SXM2|gpu_mem_gb=16", "of 16 GB"},
        {"status=oom", "contradictory status: 'oom', but iter_time_s tells"},
        {"status=OOM|iter_time_s=|samples_per_s=160",
         "but samples_per_s tells"},
        {"params_b=0.00001", "contradictory sizes: params_b 1e-05"},
        {"layers=1|pp=4|dp=1|micro_batch=16",
         "contradictory sizes: 4 stages of a network of 1 layers"},
        {"tp=4|pp=1|dp=1|heads=2|micro_batch=16", "2 heads on 4 tensor"},
        {"layers=3", "megatron-lm gives each stage as many layers, but 2 "
                     "stages do not divide 3"},
        {"layers=5|vpp=2|schedule=interleaved", "but 4 stages do not divide 5"},
        {"zero_stage=3", "megatron-lm keeps gradients whole"},
        {"zero_stage=2", "zero_stage 2, but megatron-lm keeps gradients"},
        {"zero_stage=1|framework=PyTorch|pp=1|dp=4|micro_batch=1",
         "pytorch keeps states whole"},
        {"framework=PyTorch FSDP", "fsdp has no pipelines, but pp is 2"},
        {"framework=FSDP|pp=1|tp=2", "fsdp cuts no products, but tp is 2"},
        {"schedule=zb-h1|pp=1|dp=4|micro_batch=1", "'zb-h1' is of several"},
        {"schedule=ZB-V|pp=1|dp=4|micro_batch=1", "'ZB-V' is of several"},
        {"schedule=1F1B-I|pp=1|dp=4|micro_batch=1", "'1F1B-I' is of several"},
        {"peak_mem_gb=.00001", "but a device's weights take 9.83e-05 GB"},
        {"peak_mem_gb=.00002|framework=DeepSpeed|zero_stage=3",
         "but a device's weights take 4.92e-05 GB"},
        {"status=oom (rank 3)|iter_time_s=|mfu_pct=1", "but mfu_pct tells"},
        {"status=oom|iter_time_s=|tflops_per_gpu=.002", "tflops_per_gpu tells"},
        {"mfu_pct=40.4|hfu_pct=40.0", "mfu_pct 40.4 is above hfu_pct 40"},
        {"precision=tf32|gpu=V100-SXM2|gpu_mem_gb=16",
         "v100-sxm2-16g has no tf32"},
        {"arch=cnn|model=gpt2|seq_len=", "no network 'gpt2' is known"},
        {"seq_par=perhaps", "seq_par is 'perhaps'"},
        {"status=no oom", "status 'no oom': nothing that was measured"},
        {"status=oom-killed", "nothing that was measured"},
        {"status=oom/fail", "nothing that was measured"},
    };
    ALL_SKIPPED(rows);
}

/* Figures that are the same but for their digits do not contradict. */
static void test_rounded(void)
{
    static const char *const rows[] = {
        "iter_time_s=0.100|samples_per_s=160|tokens_per_s=10240",
        "iter_time_s=0.100|samples_per_s=1.6e2|tokens_per_s_per_gpu=2.6e3",
        "iter_time_s=17.4|samples_per_s=0",
        "iter_time_s=10|samples_per_s=1|tokens_per_s=102",
        "iter_time_s=0.100|tflops_per_gpu=0.0021",
        "params_b=0.0001",
        "peak_mem_gb=85.8", /* of 10^9 bytes */
        "peak_mem_gb=17|gpu=V100-SXM2|gpu_mem_gb=16",
        "peak_mem_gb=200|status=oom|iter_time_s=",
        "params_b=0.00014",
        "scope=|task=|status=OK",
        "scope=run average|task=pre-training",
        "schedule=1F1B (sync)",
        "vpp=1",
        "kv_heads=4",
        "inter_link=RoCE RDMA (rate not stated)",
        "precision=AMP bf16",
        "layers=4|pp=4|dp=1",
        "layers=2|pp=4|dp=1", /* the embedding and the head as one each */
        "layers=3|framework=DeepSpeed",
        "zero_stage=3|seq_par=1|dp=1|pp=4|layers=4",
        "zero_stage=1",
        "zero_stage=2|framework=Megatron + DeepSpeed",
        "zero_stage=3|framework=PyTorch FSDP|pp=1|dp=4|micro_batch=1",
        "framework=GPT-NeoX (DeepSpeed)",
        "schedule=gpipe|pp=1|dp=4|micro_batch=1",
        "peak_mem_gb=.0001",
        "status=OOM on rank 3|iter_time_s=",
        "status=oom (rank 3)|iter_time_s=",
        "status=CUDA out of memory: 2 GiB|iter_time_s=",
        "status=ok (3 runs)",
        "seq_par=No|recompute=False",
        "seq_par=TRUE|tp=2|dp=1|layers=2",
        "arch=vit|model=ViT-B/16|seq_len=224x224|framework=DeepSpeed|pp=1|dp=4|"
        "micro_batch=4",
    };
    enum { ROWS = sizeof rows / sizeof rows[0] };
    begin();
    for (int i = 0; i < ROWS; i++)
        add_row(rows[i]);
    const cli_answer *a = ask();
    tap_equal_int(predicted(a), ROWS, "rows that are sound are predicted (%s)",
                  cli_reason(a, 0));
    begin();
    add_row("iter_time_s=|samples_per_s=200");
    add_row("iter_time_s=|tokens_per_s_per_gpu=3200");
    add_row("global_batch=|grad_accum=4");
    add_row("global_batch=");
    a = ask();
    const json_t *details = json_object_get(a->json, "details");
    for (size_t i = 0; i < 2; i++)
        tap_near(json_number_value(
                     json_object_get(json_array_get(details, i), "measured_s")),
                 0.08, 1e-9, "a rate alone tells a time");
    tap_equal_int(predicted(a), 4, "a batch of what the ranks have");
    tap_ok(strstr(detail(a, 3, "assumed"), "one micro-batch a step") &&
               !strstr(detail(a, 2, "assumed"), "micro-batch"),
           "that it is of one micro-batch is said: %s",
           detail(a, 3, "assumed"));
}

/* Shares of the peak tell a time too: by products of weights alone at least,
 * at most by all of them, of hardware all of them four times in place of three;
 * up to twice as many or half as many count. */
static void test_shares(void)
{
    enum { ROWS = 40 };
    /* of weights; with words and scores */
    const double least = 2 * 12 * 64 * 64, most = least + 64 * (512 + 4 * 64);
    bool sound[ROWS];
    state = tap_seed(29);
    begin();
    for (int i = 0; i < ROWS; i++) {
        const bool hfu = below(2);
        const double s = 1e-5 * (1 + (double)below(9)),
                     all = 2 * 16 * 64 / (s * 4 * 312e12),
                     low = 100 * 3 * least * all / 2,
                     high = 100 * (hfu ? 4 : 3) * most * all * 2;
        sound[i] = below(2);
        const double by = (double)below(1000) / 999,
                     share = sound[i]   ? low + by * (high - low)
                             : below(2) ? high * (1.1 + by)
                                        : low / (1.1 + by);
        char changes[120];
        snprintf(changes, sizeof changes, "id=%d|iter_time_s=%.5e|%s=%.5e", i,
                 s, hfu ? "hfu_pct" : "mfu_pct", share);
        add_row(changes);
    }
    const cli_answer *a = ask();
    int right = 0;
    size_t skipped = 0;
    for (int i = 0; i < ROWS; i++) {
        const char *why = sound[i] ? "" : cli_reason(a, skipped);
        skipped += !sound[i];
        right += sound[i] || strstr(why, "contradictory times: ");
    }
    tap_equal_int(predicted(a), ROWS - (int64_t)skipped,
                  "those that can be are predicted");
    tap_equal_int(right, ROWS, "the others are contradictory");
}

/* ---- plans that planners tell in words ---- */

#define EMPTY "tp=|pp=|dp=|zero_stage=|micro_batch=|schedule=|"
#define MIST(stages)                                                           \
    EMPTY "layers=4|gpus=4|recompute=first n layers per stage|options=" stages
#define OF_STAGES "; per stage [b,dp,tp,w,g,o shard,W,G,O,A offload] "

static void test_options(void)
{
    static const wrong rows[] = {
        {EMPTY "options=logical mesh 2x4", "x dp 2 are not 4 devices"},
        {EMPTY "options=logical mesh 0x4", "options tell 0 ranks"},
        {EMPTY "options=dp2 tp2 pp1 mb0", "options tell 0 micro-batches"},
        {EMPTY "options=logical mesh 2x2|notes=a micro_batches=16",
         "are not a batch of 16"},
        {EMPTY "options=something else", "how it was laid out"},
        {"tp=|options=dp2 tp2 pp1 mb4", "contradictory plan: pp is 2, but 1"},
        {"options=|notes=micro_batches=2", "are not a batch of 16"},
        {"grad_accum=4|notes=micro_batches=2",
         "contradictory plan: grad_accum is 4, but 2"},
        {EMPTY "zero_stage=0|options=zero_3|notes=micro_batches=4",
         "contradictory plan: zero_stage is 0, but 3"},
        {EMPTY "options=4 stages x (1,4), B=16", "the logical mesh of its"},
        {EMPTY "options=logical mesh 4x1",
         "neither micro_batch nor grad_accum is told"},
        {MIST("layers ['1', '1']; ckpt ['0', '0']" OF_STAGES
              "['2/2/1/0/0/1/0.0/0.0/0.0/0.0', '2/2/1/0/0/1/0.0/0.0/0.0/0.0']"),
         "its stages have 2 layers, the network has 4"},
        {MIST("layers ['1', '3']; ckpt ['2', '0']" OF_STAGES
              "['2/2/1/0/0/1/0.0/0.0/0.0/0.0', '2/2/1/0/0/1/0.0/0.0/0.0/0.0']"),
         "stage 0 of 1 layers, 2 of them recomputed"},
        {MIST("layers ['1', '3']; ckpt ['0', '0']" OF_STAGES
              "['2/2/1/0/0/1/0.0/0.0/0.5/0.0', '2/2/1/0/0/1/0.0/0.0/0.0/0.0']"),
         "what is offloaded to the host is not modelled"},
        {MIST("layers ['1', '3']; ckpt ['0', '0']" OF_STAGES
              "['2/2/1/0/0/1/0.0/0.0/0.0/0.0', '2/1/2/0/0/1/0.0/0.0/0.0/0.0']"),
         "laid out otherwise each"},
        {MIST("layers ['1', '3']; ckpt ['0']" OF_STAGES
              "['2/2/1/0/0/1/0.0/0.0/0.0/0.0', '2/2/1/0/0/1/0.0/0.0/0.0/0.0']"),
         "how it was laid out"},
        {"recompute=first n layers per stage", "how many layers are"},
        {"recompute=per op (searched)", "which ops are recomputed"},
        {"iter_time_s=|tflops_per_gpu=10|tflops_kind=some",
         "how flop are counted is unknown"},
    };
    ALL_SKIPPED(rows);
}

/* A plan in words is that in cells. */
static void test_same_options(void)
{
    static const char *const same[][2] = {
        {EMPTY "options=dp2 tp1 pp2 mb4",
         "dp=2|pp=2|grad_accum=4|micro_batch="},
        {EMPTY "options=2 stages x (1,2), logical (2,1), B=4",
         "dp=2|pp=2|zero_stage=1|grad_accum=4"},
        {EMPTY "gpus=2|options=2 stages (1,1)+(1,1), B=4",
         "gpus=2|dp=1|pp=2|grad_accum=4|micro_batch="},
        {EMPTY "options=logical mesh 2x2|notes=nodes=1 "
               "micro_batches=1|framework=alpa",
         "framework=alpa|dp=2|tp=2|pp=1|zero_stage=2|grad_accum=1|micro_"
         "batch="},
        {EMPTY "options=zero_3|notes=micro_batches=1|framework=alpa",
         "framework=alpa|dp=4|pp=1|zero_stage=3|grad_accum=1|micro_batch="},
        {EMPTY "gpus=1|notes=micro_batches=2",
         "gpus=1|dp=1|pp=1|grad_accum=2|micro_batch="},
        {MIST("layers ['2', '2']; ckpt ['0', '0']" OF_STAGES
              "['2/2/1/0/0/1/0.0/0.0/0.0/0.0', '2/2/1/0/0/1/0.0/0.0/0.0/0.0']"),
         "layers=4|zero_stage=1"},
        {MIST("layers ['2', '2']; ckpt ['2', '2']" OF_STAGES
              "['2/2/1/0/0/0/0.0/0.0/0.0/0.0', '2/2/1/0/0/0/0.0/0.0/0.0/0.0']"),
         ""},
    };
    enum { SAME = sizeof same / sizeof same[0] };
    double s[SAME][2];
    begin();
    for (int i = 0; i < SAME; i++) {
        add_row(same[i][0]);
        add_row(same[i][1]);
    }
    const cli_answer *a = ask();
    tap_equal_int(predicted(a), 2 * SAME, "plans in words are predicted (%s)",
                  cli_reason(a, 0));
    for (size_t i = 0; i < 2 * SAME; i++)
        s[i / 2][i % 2] = json_number_value(json_object_get(
            json_array_get(json_object_get(a->json, "details"), i),
            "predicted_s"));
    for (int i = 0; i < SAME; i++)
        if (same[i][1][0])
            tap_near(s[i][0], s[i][1], 1e-9, "%s", same[i][0]);
    tap_ok(s[SAME - 1][0] > 1.05 * s[SAME - 2][0],
           "layers that are recomputed take longer: %g and %g s",
           s[SAME - 1][0], s[SAME - 2][0]);
}

/* 96 B S L H^2 (1 + S / 6 H) + 6 B S H V, 72 without what is recomputed; of
 * LLaMA of 2 heads of keys and values for 4 its own weights, 3 H^2 + 3 H F. */
static void test_flops(void)
{
    const double words = 16 * 64, h = 64, s = 64, gpus = 4e12;
    const double layers = 2 * h * h * (1 + s / (6 * h)), head = 6 * h * 512;
    const double llama = 6 * (2 * (3 * h * h + 3 * h * 192) + 4 * h * s);
    static const char *const rows[] = {
        "iter_time_s=|tflops_per_gpu=0.001|recompute=full|tflops_kind=hw incl. "
        "recompute",
        "iter_time_s=|tflops_per_gpu=0.001|tflops_kind=model",
        "iter_time_s=|tflops_per_gpu=0.001|tflops_kind=model|arch=llama|"
        "kv_heads=2|ffn=192"};
    const double flop[] = {96 * layers + head, 72 * layers + head,
                           llama + head};
    for (int i = 0; i < 3; i++) {
        begin();
        add_row(rows[i]);
        const json_t *row =
            json_array_get(json_object_get(ask()->json, "details"), 0);
        tap_near(json_number_value(json_object_get(row, "measured_s")),
                 words * flop[i] / (0.001 * gpus), 1e-9,
                 "a rate whose flop are known tells a time");
    }
}

/* ---- columns and lines ---- */

static void test_columns(void)
{
    cli_put("t.csv",
            "id,arch,gpu,gpus,global_batch,tpp,iter_time,x,,\nr,,,,,,,,,\n");
    const cli_answer *a = cli("validate \"$D/t.csv\" --json --db none");
    const json_t *unknown = json_object_get(a->json, "unknown_columns");
    tap_equal_int((int64_t)json_array_size(unknown), 5,
                  "columns that are not known, those without a name too");
    tap_equal_int(json_integer_value(
                      json_object_get(json_array_get(unknown, 1), "column")),
                  7, "and where they stand");
    a = cli("validate \"$D/t.csv\" --db none");
    tap_ok(strstr(a->out, "not known, and not read: tpp (column 6; meant: tp), "
                          "iter_time (column 7; meant: iter_time_s), x (column "
                          "8), one without a name (column 9)"),
           "people read of them once: %.300s", a->out);
    static const char *const bad[][2] = {
        {"id,arch,gpu,gpus,global_batch,tp,dp,tp\nr\n",
         "t.csv:1: the column 'tp' stands twice: as column 6 and as column 8"},
        {"id,arch,gpu,gpus,global_batch,tp, TP \nr\n",
         "the column 'TP' stands twice: as column 6 and as column 7"},
        {"id,arch,gpuu,gpus,global_batch\nr\n",
         "no column 'gpu': is column 3, 'gpuu', meant?"},
        {"id,arch,gpu,gpus,batch\nr\n",
         "no column 'global_batch': is column 5, 'batch', meant?"},
        {"id,arch,gpu,gpus\nr\n", "no column 'global_batch': a table"},
        {"id\tarch\tgpu\tgpus\nr\n", "cells are parted by tabs"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cli_put("t.csv", bad[i][0]);
        a = cli("validate \"$D/t.csv\" --db none");
        tap_ok(a->status == 2 && strstr(a->err, bad[i][1]), "refused: %s (%s)",
               bad[i][1], a->err);
    }
    begin();
    memcpy(table, "ID", 2);
    add_row("");
    tap_equal_int(predicted(ask()), 1, "capitals count nothing");
}

/* Each name is looked at a few times, however many there are: pairs of them
 * would take minutes. */
static void test_many_columns(void)
{
    enum { MANY = 50000 };
    char path[700];
    snprintf(path, sizeof path, "%s/t.csv", cli_scratch);
    FILE *file = fopen(path, "wb");
    fputs("id,arch,gpu,gpus,global_batch", file);
    for (int i = 0; i < MANY; i++)
        fprintf(file, ",x%d", i);
    fputs("\nr\n", file);
    fclose(file);
    const cli_answer *a = cli("validate \"$D/t.csv\" --db none");
    tap_ok(a->status == 1 && strstr(a->out, "(column 6)"),
           "%d columns that are not known: %.60s", MANY, a->out);
}

/* The same lines however a system ends them, also inside of quotes. */
static void test_lines(void)
{
    static const char *const ends[] = {"\n", "\r\n", "\r", "\r\r\n"};
    state = tap_seed(28);
    for (int round = 0; round < 8; round++) {
        const char *end = ends[round % 4];
        const size_t before = below(5), inside = below(4);
        static char text[ROOM];
        char wanted[80];
        size_t n = 0;
        begin();
        for (size_t i = 0; i < before; i++)
            add(below(2) ? "\n" : "a,b\n");
        add("\"a");
        for (size_t i = 0; i < inside; i++)
            add("\n");
        add("\",b\nc,d,e\n");
        for (const char *p = table; *p; p++)
            n += (size_t)snprintf(text + n, ROOM - n, "%.*s",
                                  *p == '\n' ? 8 : 1, *p == '\n' ? end : p);
        cli_put("t.csv", text);
        const cli_answer *a = cli("validate \"$D/t.csv\" --json --db none");
        const size_t rows =
            json_array_size(json_object_get(a->json, "skipped"));
        snprintf(wanted, sizeof wanted, "t.csv:%zu: 3 cells",
                 3 + before + inside);
        tap_ok(strstr(cli_reason(a, rows - 1), wanted) != NULL,
               "line ends of %zu: %s (%s)", strlen(end), wanted,
               cli_reason(a, rows - 1));
    }
}

/* What roles share is made once: arrays as large as the graph for each of them
 * came to 875 MB here. */
static void test_many_stages(void)
{
    struct rusage used;
    begin();
    add_row("layers=150|pp=150|gpus=150|dp=1|gpus_per_node=2|schedule=1f1b");
    const cli_answer *a = ask();
    tap_equal_int(predicted(a), 1, "a row of 150 stages is predicted (%s)",
                  cli_reason(a, 0));
    getrusage(RUSAGE_CHILDREN, &used);
#ifdef __SANITIZE_ADDRESS__
    printf("# memory is not asked of a sanitizer\n");
#else
    tap_ok(used.ru_maxrss < 400 * 1024, "it takes %ld MiB at most",
           used.ru_maxrss / 1024);
#endif
}

int main(void)
{
    cli_begin_scratch("cli_rows_test");
    test_ranges();
    test_zeros();
    test_words();
    test_contradictions();
    test_rounded();
    test_shares();
    test_options();
    test_same_options();
    test_flops();
    test_columns();
    test_many_columns();
    test_lines();
    test_many_stages();
    cli_end_scratch();
    return tap_done();
}
