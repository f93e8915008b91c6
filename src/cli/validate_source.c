/* What is known of frameworks, and of sources beyond their rows. */
#include "config.h"
#include "cli/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static fs_status read_part(const fs_json *in, const char *key, fs_arena *arena,
                           fs_err *err, const char **out)
{
    return fs_json_has(in, key) ? fs_json_strdup(in, key, arena, err, out)
                                : FS_OK;
}

static fs_status read_share(const fs_json *in, const char *key, fs_err *err,
                            int32_t *n, double *out)
{
    if (!fs_json_has(in, key))
        return FS_OK;
    FS_TRY(fs_json_number(in, key, err, out));
    ++*n;
    return *out >= 0 && *out <= 1
               ? FS_OK
               : fs_json_fail(in, key, err, "is %g, must be from 0 to 1", *out);
}

/* As text: what it says of a framework is known when a row has one. */
static fs_status read_with(const fs_json *in, fs_arena *arena, fs_err *err,
                           const char **out)
{
    fs_json with;
    cost_framework any = {0};
    if (!fs_json_has(in, "with"))
        return FS_OK;
    FS_TRY(fs_json_object(in, "with", err, &with));
    FS_TRY(cost_framework_change(&with, err, &any));
    char *text = json_dumps(with.value, JSON_COMPACT);
    *out = fs_strdup(arena, text);
    free(text);
    return FS_OK;
}

static fs_status read_framework(const fs_json *in, const char *key,
                                const validate_frameworks *all, fs_err *err,
                                const cost_framework **out)
{
    const char *name;
    if (!fs_json_has(in, key))
        return FS_OK;
    FS_TRY(fs_json_text(in, key, err, &name));
    for (int32_t i = 0; i < all->n; i++)
        if (strcmp(all->at[i].name, name) == 0) {
            *out = &all->at[i];
            return FS_OK;
        }
    return fs_json_fail(in, key, err, "is '%.80s', which is not known", name);
}

static fs_status read_source(const fs_json *list, size_t i, fs_arena *arena,
                             fs_err *err, validate_frameworks *all)
{
    validate_source *out = &all->sources[i];
    static const char *const keys[] = {"match",
                                       "of_framework",
                                       "of_model",
                                       "of_precision",
                                       "host_cores",
                                       "outer_efficiency",
                                       "jitter",
                                       "with",
                                       "instead_of",
                                       "framework",
                                       "fitted_on",
                                       "source",
                                       "device",
                                       "matmul_efficiency",
                                       "attention_efficiency",
                                       "simulated",
                                       NULL};
    fs_json in;
    int64_t cores = 0;
    out->jitter = NAN;
    FS_TRY(fs_json_item(list, i, err, &in));
    FS_TRY(fs_json_keys(&in, keys, err));
    FS_TRY(read_framework(&in, "framework", all, err, &out->framework));
    FS_TRY(read_framework(&in, "instead_of", all, err, &out->instead_of));
    FS_TRY(fs_json_strdup(&in, "match", arena, err, &out->match));
    FS_TRY(read_part(&in, "of_framework", arena, err, &out->of_framework));
    FS_TRY(read_part(&in, "of_model", arena, err, &out->of_model));
    FS_TRY(read_part(&in, "of_precision", arena, err, &out->of_precision));
    FS_TRY(read_part(&in, "fitted_on", arena, err, &out->fitted_on));
    if (fs_json_has(&in, "host_cores"))
        FS_TRY(fs_json_int(&in, "host_cores", 1, 1000000, err, &cores));
    out->host_cores = (double)cores;
    FS_TRY(read_share(&in, "outer_efficiency", err, &out->n_constants,
                      &out->outer_efficiency));
    FS_TRY(read_share(&in, "jitter", err, &out->n_constants, &out->jitter));
    FS_TRY(read_with(&in, arena, err, &out->with));
    if (fs_json_has(&in, "simulated"))
        FS_TRY(fs_json_bool(&in, "simulated", err, &out->simulated));
    if (!fs_json_has(&in, "device"))
        return FS_OK;
    FS_TRY(fs_json_strdup(&in, "device", arena, err, &out->device));
    out->n_constants++;
    FS_TRY(read_share(&in, "attention_efficiency", err, &out->n_constants,
                      &out->attention_efficiency));
    return fs_json_number(&in, "matmul_efficiency", err,
                          &out->matmul_efficiency) == FS_OK &&
                   out->matmul_efficiency > 0 && out->matmul_efficiency <= 1
               ? FS_OK
               : fs_json_fail(&in, "matmul_efficiency", err,
                              "must be above 0 and at most 1");
}

static fs_status read_sources(const char *path, fs_arena *arena, fs_err *err,
                              validate_frameworks *out)
{
    json_t *root;
    fs_json list;
    FS_TRY(fs_json_load(path, err, &root));
    fs_json in = fs_json_root(path, root);
    fs_status status = fs_json_array(&in, "sources", err, &list);
    const size_t n = status == FS_OK ? json_array_size(list.value) : 0;
    out->sources = fs_new(arena, validate_source, n);
    for (size_t i = 0; i < n && status == FS_OK; i++)
        status = read_source(&list, i, arena, err, out);
    out->n_sources = (int32_t)n;
    json_decref(root);
    return status;
}

fs_status validate_open_frameworks(const char *data_dir, fs_arena *arena,
                                   fs_err *err, validate_frameworks *out)
{
    cost_frameworks all;
    FS_TRY(cost_frameworks_open(data_dir, arena, err, &all));
    out->n = all.n;
    out->at = all.at;
    out->machines = validate_machines_create(data_dir, arena);
    return read_sources(
        fs_printf(arena, "%s/validation/sources.json", data_dir), arena, err,
        out);
}
