/* The names of device files, and which of them is meant. */
#include "config.h"
#include "hw/devices.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

hw_names hw_device_names(const char *directory, fs_arena *arena)
{
    hw_names out = {0};
    DIR *dir = opendir(directory);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        size_t n = strlen(entry->d_name);
        if (n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0)
            fs_push(arena, &out, fs_strndup(arena, entry->d_name, n - 5));
    }
    if (dir)
        closedir(dir);
    if (out.n)
        qsort(out.at, (size_t)out.n, sizeof *out.at, compare_names);
    return out;
}

static int32_t min3(int32_t a, int32_t b, int32_t c)
{
    int32_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Levenshtein distance; names are cut at 63 characters. */
static int32_t edit_distance(const char *a, const char *b)
{
    int32_t row[64], n = (int32_t)strnlen(a, 63), m = (int32_t)strnlen(b, 63);
    for (int32_t j = 0; j <= m; j++)
        row[j] = j;
    for (int32_t i = 1; i <= n; i++) {
        int32_t diagonal = row[0];
        row[0] = i;
        for (int32_t j = 1; j <= m; j++) {
            int32_t above = row[j];
            int32_t swap = diagonal + (a[i - 1] != b[j - 1]);
            row[j] = min3(above + 1, row[j - 1] + 1, swap);
            diagonal = above;
        }
    }
    return row[m];
}

/* Near: a part of the other, or few edits away. */
static bool is_near(const char *wanted, const char *known)
{
    if (wanted[0] && (strstr(known, wanted) || strstr(wanted, known)))
        return true;
    int32_t room = (int32_t)strlen(wanted) / 3;
    return edit_distance(wanted, known) <= (room < 2 ? 2 : room);
}

const char *hw_near_names(const hw_names *names, const char *wanted,
                          fs_arena *arena)
{
    fs_text near = {.arena = arena}, all = {.arena = arena};
    for (int32_t i = 0; i < names->n; i++) {
        fs_text_add(&all, "%s%s", i ? ", " : "", names->at[i]);
        if (is_near(wanted, names->at[i]))
            fs_text_add(&near, "%s%s", near.n ? ", " : "", names->at[i]);
    }
    return fs_printf(arena, "%s: %s", near.n ? "did you mean" : "known",
                     near.n  ? near.at
                     : all.n ? all.at
                             : "none");
}

static bool begins_like(const char *name, const char *kind)
{
    size_t k = 0;
    for (; kind[k]; k++)
        if (name[k] != tolower((unsigned char)kind[k]))
            return false;
    return k > 0;
}

static bool ends_with(const char *name, const char *ending)
{
    const size_t n = strlen(name), m = strlen(ending);
    return n >= m && strcmp(name + n - m, ending) == 0;
}

const char *hw_device_like(const hw_names *names, const char *kind,
                           int64_t gigabytes, fs_arena *arena)
{
    const char *ending = fs_printf(arena, "-%lldg", (long long)gigabytes);
    const char *found = NULL;
    for (int32_t i = 0; i < names->n; i++) {
        const char *name = names->at[i];
        if (!begins_like(name, kind))
            continue;
        if (gigabytes > 0 && ends_with(name, ending))
            return name;
        found = name;
    }
    return found;
}
