/* Files that tests write for commands to read, tables of measured runs above
 * all, and what `validate` says of these. */
#ifndef FS_TESTS_CLI_TABLES_H
#define FS_TESTS_CLI_TABLES_H

#include "tests/run_cli.h"

#include <math.h>
#include <string.h>

/* As $D/NAME. */
static inline void cli_put(const char *name, const char *text)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", cli_scratch, name);
    FILE *file = fopen(path, "wb");
    fputs(text, file);
    fclose(file);
}

/* A member of an object; NAN: it is no number. */
static inline double cli_real(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* Of the table as a file. */
static inline const cli_answer *cli_validate(const char *table)
{
    cli_put("t.csv", table);
    return cli("validate \"$D/t.csv\" --json --db none");
}

/* Why the i-th row that is skipped is; "": there is none. */
static inline const char *cli_reason(const cli_answer *a, size_t i)
{
    const json_t *row = json_array_get(json_object_get(a->json, "skipped"), i);
    const char *text = json_string_value(json_object_get(row, "reason"));
    return text ? text : "";
}

#endif
