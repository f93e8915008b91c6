/* Times of kernels that are made up, in the database of the test's folder, so
 * that which one plans for `local` take is known. */
#ifndef FS_TESTS_CLI_MEASURED_H
#define FS_TESTS_CLI_MEASURED_H

#include "tests/run_cli.h"

#include <sqlite3.h>

static inline int cli_change(const char *sql)
{
    char path[600];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/test.db", cli_scratch);
    const int changed = sqlite3_open(path, &db) == SQLITE_OK &&
                        sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
    tap_ok(changed, "figures can be changed");
    sqlite3_close(db);
    return changed;
}

/* Products of this kernel take a tenth of a microsecond, all others a
 * millisecond. */
static inline void cli_make_faster(const char *variant)
{
    char sql[300];
    snprintf(sql, sizeof sql,
             "UPDATE samples SET seconds = CASE variant WHEN '%s' THEN 1e-7"
             " ELSE 1e-3 END WHERE what = 'matmul' AND variant != ''",
             variant);
    cli_change(sql);
    cli("calibrate --passes 1");
}

/* Of the kernels that `a` lists those of products with this name, or chosen
 * so. */
static inline int cli_count_variants(const cli_answer *a, const char *key,
                                     const char *value)
{
    const json_t *list = json_object_get(a->json, "variants"), *one;
    size_t i;
    int n = 0;
    json_array_foreach(list, i, one) n +=
        strcmp(json_string_value(json_object_get(one, "op")), "matmul") == 0 &&
        strcmp(json_string_value(json_object_get(one, key)), value) == 0;
    return n;
}

#endif
