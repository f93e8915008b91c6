/* Tensor parallelism as the papers have it, in every precision, with every
 * recomputation: what a block of a transformer says to other ranks.
 *
 * Megatron-LM (arXiv 1909.08053, section 3): of each part of a block
 * (attention, of what it has itself or of another stack, and feed-forward) the
 * first weights lie by columns, the last by rows; forward adds up what it
 * makes, backward the gradient of what it read: one all-reduce each of (b, s,
 * h). With sequence parallelism (arXiv 2205.05198, section 4.2.2) each is an
 * all-gather in front and a reduce-scatter behind. Norms that are computed
 * again are gathered again for the weights' gradients; a block that is computed
 * again says again what its parts but the last say. */
#include "config.h"
#include "tests/cli_plans.h"

typedef struct network {
    const char *spec; /* with layers, hidden, heads, head, seq to be told */
    const char *block;
    int parts;
    int losses; /* each has a backward pass where micro-batches are several */
} network;

static const network networks[] = {
    {"gpt,layers=3,hidden=%1$d,heads=%2$d,seq=%4$d,vocab=51200", "/blocks.1/",
     2, 1},
    {"llama,layers=3,hidden=%1$d,heads=%2$d,kv_heads=%2$d,ffn=5504,"
     "seq=%4$d,vocab=32000",
     "/blocks.1/", 2, 1},
    {"bert,layers=3,hidden=%1$d,heads=%2$d,seq=%4$d,vocab=30528", "/blocks.1/",
     2, 2},
    {"t5,layers=3,hidden=%1$d,heads=%2$d,head=%3$d,ffn=8192,seq=%4$d,"
     "target=%4$d,vocab=32128",
     "/encoder.1/", 2, 1},
    {"t5,layers=3,hidden=%1$d,heads=%2$d,head=%3$d,ffn=8192,seq=%4$d,"
     "target=%4$d,vocab=32128",
     "/decoder.1/", 3, 1},
};

typedef struct said {
    int gathers, scatters, reduces, others;
    json_int_t off; /* bytes that a message is larger or smaller than wanted */
} said;

static json_t *plan_of_scratch(void)
{
    char path[600];
    snprintf(path, sizeof path, "%s/plan.json", cli_scratch);
    return json_load_file(path, 0, NULL);
}

/* Of weights and what is summed up for them nothing is counted: it is said once
 * per step. */
static bool is_activation(const char *tensor, const char *block)
{
    return strncmp(tensor, block, strlen(block)) == 0 &&
           !strstr(tensor, "weight_grad") && !strstr(tensor, "param_grad") &&
           !strstr(tensor, "reduce_sum");
}

static bool moves(const char *box)
{
    return strcmp(box, "zero-pad") != 0 && strcmp(box, "zero-fill") != 0 &&
           strcmp(box, "slice") != 0;
}

static void count(json_t *task, json_int_t bytes, said *s)
{
    const char *box = json_string_value(json_object_get(task, "box"));
    const bool gather = strcmp(box, "all-gather") == 0;
    if (!moves(box))
        return;
    const json_int_t whole = json_integer_value(
        json_object_get(task, gather ? "bytes_out" : "bytes_in"));
    int *which = gather                               ? &s->gathers
                 : strcmp(box, "reduce-scatter") == 0 ? &s->scatters
                 : strcmp(box, "all-reduce") == 0     ? &s->reduces
                                                      : &s->others;
    ++*which;
    s->off += llabs(whole - bytes);
}

static said said_in(json_t *root, const char *phase, const char *block,
                    json_int_t bytes)
{
    said s = {0};
    size_t i, r;
    json_t *task, *role;
    json_t *roles = json_object_get(json_object_get(root, "plan"), "roles");
    json_array_foreach(roles, r, role)
    {
        json_array_foreach(json_object_get(role, "tasks"), i, task)
        {
            const char *when =
                json_string_value(json_object_get(task, "phase"));
            const char *what =
                json_string_value(json_object_get(task, "tensor"));
            if (json_object_get(task, "box") && strcmp(when, phase) == 0 &&
                is_activation(what, block))
                count(task, bytes, &s);
        }
    }
    return s;
}

/* Weights are read as they lie: none is cut anew. */
static int weights_moved(json_t *root)
{
    size_t i, r;
    json_t *task, *role;
    int n = 0;
    json_t *roles = json_object_get(json_object_get(root, "plan"), "roles");
    json_array_foreach(roles, r, role)
    {
        json_array_foreach(json_object_get(role, "tasks"), i, task)
        {
            const char *box = json_string_value(json_object_get(task, "box"));
            const char *when =
                json_string_value(json_object_get(task, "phase"));
            const char *what =
                json_string_value(json_object_get(task, "tensor"));
            n += box && moves(box) && strcmp(when, "begin") == 0 &&
                 strstr(what, "1.") && strstr(what, "weight");
        }
    }
    return n;
}

typedef struct wanted {
    int parts, passes; /* backward */
    bool scattered;    /* along the sequence */
    int again;         /* of the parts, how many are gathered again */
    int replayed;      /* and how many are computed again, with what they say */
} wanted;

static bool is_said(const said *s, const char *phase, const wanted *w)
{
    const bool back = strcmp(phase, "backward") == 0;
    const int own = back ? w->passes * w->parts : w->parts;
    const int sums = own + (back ? w->replayed : 0);
    const int gathers = own + (back ? w->again : 0);
    const bool good = s->others == 0 && s->off == 0 &&
                      s->reduces == (w->scattered ? 0 : sums) &&
                      s->scatters == (w->scattered ? sums : 0) &&
                      s->gathers == (w->scattered ? gathers : 0);
    if (!good)
        printf("# %s: %d all-gathers, %d reduce-scatters, %d all-reduces, %d "
               "others, %lld bytes off; wanted %d and %d\n",
               phase, s->gathers, s->scatters, s->reduces, s->others,
               (long long)s->off, w->scattered ? gathers : 0, sums);
    return good;
}

typedef struct trial {
    int hidden, heads, head, seq, tp, samples, micro_batches;
} trial;

static int below(unsigned long long *seed, int n)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((*seed >> 33) % (unsigned)n);
}

static trial draw(unsigned long long *seed)
{
    trial t = {.head = 128, .heads = 16, .hidden = 2048};
    t.tp = 2 << below(seed, 3);
    t.seq = 1024 << below(seed, 2);
    t.samples = 1 << below(seed, 3); /* of a rank, at a time */
    t.micro_batches = 1 + below(seed, 2);
    return t;
}

static void test_one(const network *net, const trial *t, const char *precision,
                     const char *recompute, bool scattered)
{
    char spec[200], words[400];
    const int dp = 8 / t->tp, batch = dp * t->samples * t->micro_batches;
    const bool block = strcmp(recompute, "block") == 0;
    const bool norms = block || strcmp(recompute, "cheap") == 0;
    const wanted w = {.parts = net->parts,
                      .passes = t->micro_batches > 1 ? net->losses : 1,
                      .scattered = scattered,
                      .again = norms ? net->parts : 0,
                      .replayed =
                          strcmp(recompute, "block") == 0 ? net->parts - 1 : 0};
    const json_int_t bytes = (json_int_t)t->samples * t->seq * t->hidden *
                             (strcmp(precision, "fp32") == 0 ? 4 : 2);
    snprintf(spec, sizeof spec, net->spec, t->hidden, t->heads, t->head,
             t->seq);
    snprintf(words, sizeof words,
             "zoo:%s --batch %d --micro-batches %d --dp %d --tp %d "
             "--precision %s --recompute %s%s",
             spec, batch, t->micro_batches, dp, t->tp, precision, recompute,
             scattered ? " --seq-parallel" : "");
    cli_answer *a = cli("plan %s --cluster 1x8:a100-sxm4-80g "
                        "--db none -o \"$D/plan.json\"",
                        words);
    if (a->status != 0)
        cli_show(a);
    json_t *root = a->status == 0 ? plan_of_scratch() : NULL;
    const said there = said_in(root, "forward", net->block, bytes);
    const said back = said_in(root, "backward", net->block, bytes);
    const int moved = weights_moved(root);
    tap_ok(root && is_said(&there, "forward", &w) &&
               is_said(&back, "backward", &w) && moved == 0,
           "%s%s", net->block, words);
    if (moved)
        printf("# %d weights are cut anew\n", moved);
    json_decref(root);
}

int main(void)
{
    static const char *const precisions[] = {"fp32", "bf16", "fp16"};
    static const char *const recomputes[] = {"none", "selective", "cheap",
                                             "block"};
    unsigned long long seed = tap_seed(2205);
    cli_begin_scratch("tensor");
    for (size_t n = 0; n < sizeof networks / sizeof *networks; n++)
        for (int p = 0; p < 3; p++)
            for (int r = 0; r < 4; r++)
                for (int s = 0; s < 2; s++) {
                    const trial t = draw(&seed);
                    test_one(&networks[n], &t, precisions[p], recomputes[r],
                             s == 1);
                }
    cli_end_scratch();
    return tap_done();
}
