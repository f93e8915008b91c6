/* A row that `validate` predicts, others told from it, what is said of them. */
#ifndef FS_TESTS_CLI_ROWS_H
#define FS_TESTS_CLI_ROWS_H

#include "tests/cli_tables.h"

#include <stdint.h>

typedef struct cell {
    const char *name, *value;
} cell;
static const cell good[] = {
    {"id", "r"},
    {"source", "s"},
    {"scope", "iteration"},
    {"task", "pretrain"},
    {"model", ""},
    {"arch", "gpt"},
    {"params_b", ""},
    {"layers", "2"},
    {"hidden", "64"},
    {"ffn", ""},
    {"heads", "4"},
    {"kv_heads", ""},
    {"experts", ""},
    {"vocab", "512"},
    {"seq_len", "64"},
    {"global_batch", "16"},
    {"micro_batch", "2"},
    {"grad_accum", ""},
    {"gpus", "4"},
    {"gpu", "A100-SXM4"},
    {"gpu_mem_gb", "80"},
    {"gpus_per_node", "8"},
    {"intra_link", ""},
    {"inter_link", ""},
    {"tp", "1"},
    {"pp", "2"},
    {"dp", "2"},
    {"cp", ""},
    {"ep", ""},
    {"vpp", ""},
    {"seq_par", "0"},
    {"schedule", "1f1b"},
    {"zero_stage", "0"},
    {"recompute", "none"},
    {"precision", "fp16"},
    {"framework", "Megatron-LM"},
    {"options", ""},
    {"iter_time_s", "0.100"},
    {"tflops_per_gpu", ""},
    {"tflops_kind", ""},
    {"mfu_pct", ""},
    {"hfu_pct", ""},
    {"tokens_per_s", ""},
    {"tokens_per_s_per_gpu", ""},
    {"samples_per_s", ""},
    {"peak_mem_gb", ""},
    {"status", "ok"},
    {"notes", ""},
};
enum { N = sizeof good / sizeof good[0], ROOM = 1 << 16 };

static char table[ROOM];

static inline void add(const char *text)
{
    const size_t n = strlen(table);
    snprintf(table + n, ROOM - n, "%s", text);
}

static inline void begin(void)
{
    table[0] = '\0';
    for (int k = 0; k < N; k++) {
        add(k ? "," : "");
        add(good[k].name);
    }
    add("\n");
}

/* The good row, but for "name=value|name=value". */
static inline void add_row(const char *changes)
{
    for (int k = 0; k < N; k++) {
        char key[80];
        const char *value = good[k].value, *at = changes;
        snprintf(key, sizeof key, "%s=", good[k].name);
        size_t n = strlen(value);
        for (; at && *at; at += strcspn(at, "|"), at += *at == '|')
            if (strncmp(at, key, strlen(key)) == 0) {
                value = at + strlen(key);
                n = strcspn(value, "|");
            }
        char text[400];
        snprintf(text, sizeof text, "%s\"%.*s\"", k ? "," : "", (int)n, value);
        add(text);
    }
    add("\n");
}

static inline const cli_answer *ask(void)
{
    return cli_validate(table);
}

static uint64_t state; /* of random rows (splitmix64) */

static inline size_t below(size_t n)
{
    uint64_t x = state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return (size_t)((x ^ x >> 31) % n);
}

static inline const char *detail(const cli_answer *a, size_t i, const char *key)
{
    const json_t *row = json_array_get(json_object_get(a->json, "details"), i);
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static inline int64_t predicted(const cli_answer *a)
{
    return json_integer_value(json_object_get(a->json, "predicted"));
}

/* Each change, and a part of the reason why that is skipped. */
typedef struct wrong {
    const char *changes, *reason;
} wrong;

static inline void all_skipped(const wrong *rows, size_t n)
{
    begin();
    for (size_t i = 0; i < n; i++)
        add_row(rows[i].changes);
    const cli_answer *a = ask();
    tap_equal_int(a->status, 1, "a table of bad rows has no answer");
    tap_ok(strstr(a->err, "no row was predicted") != NULL, "which is said: %s",
           a->err);
    tap_equal_int(predicted(a), 0, "none of them is predicted");
    for (size_t i = 0; i < n; i++)
        tap_ok(strstr(cli_reason(a, i), rows[i].reason) != NULL, "%s: %s (%s)",
               rows[i].changes, rows[i].reason, cli_reason(a, i));
}
#define ALL_SKIPPED(rows) all_skipped(rows, sizeof(rows) / sizeof((rows)[0]))

#endif
