/* The names of device files, and which of them is meant. */
#include "config.h"
#include "hw/devices.h"

#include "base/json.h"

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

bool hw_is_near(const char *wanted, const char *known)
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
        if (hw_is_near(wanted, names->at[i]))
            fs_text_add(&near, "%s%s", near.n ? ", " : "", names->at[i]);
    }
    return fs_printf(arena, "%s: %s", near.n ? "did you mean" : "known",
                     near.n  ? near.at
                     : all.n ? all.at
                             : "none");
}

/* ---- what a text means ---- */

enum { MOST_WORDS = 8, MOST_LETTERS = 24 };

typedef struct words {
    int32_t n;
    char at[MOST_WORDS][MOST_LETTERS];
} words;

/* Words up to a remark in parentheses; false: too many, or too long. */
static bool split(const char *text, words *out)
{
    out->n = 0;
    while (*text && *text != '(') {
        const size_t n = strcspn(text, " -_(");
        if (n > 0) {
            if (out->n == MOST_WORDS || n >= MOST_LETTERS)
                return false;
            for (size_t k = 0; k < n; k++)
                out->at[out->n][k] = (char)tolower((unsigned char)text[k]);
            out->at[out->n++][n] = '\0';
        }
        text += n + (text[n] && text[n] != '(');
    }
    return true;
}

/* "80g", "80gb" -> 80; 0: the word is another. */
static int64_t gigabytes_of(const char *word)
{
    char *end;
    if (!isdigit((unsigned char)*word))
        return 0;
    const long value = strtol(word, &end, 10);
    return strcmp(end, "g") == 0 || strcmp(end, "gb") == 0 ? value : 0;
}

/* Of a maker, of a line of products, of memory. */
static bool tells_no_name(const char *word)
{
    static const char *const known[] = {"nvidia",   "amd",   "intel",
                                        "google",   "tesla", "geforce",
                                        "instinct", "cloud"};
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
        if (strcmp(word, known[k]) == 0)
            return true;
    return gigabytes_of(word) > 0 || strncmp(word, "hbm", 3) == 0;
}

/* Those of the name alone; the memory that the others tell. */
static int64_t leave_names(words *w)
{
    int64_t gigabytes = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < w->n; i++) {
        if (gigabytes_of(w->at[i]))
            gigabytes = gigabytes_of(w->at[i]);
        if (!tells_no_name(w->at[i]))
            memmove(w->at[n++], w->at[i], MOST_LETTERS);
    }
    w->n = n;
    return gigabytes;
}

/* Letters of the words, one behind the other, and of them those that end one:
 * "tpuv4" is "TPU v4", "rtx-3090" "RTX3090". */
typedef struct joined {
    char at[MOST_WORDS * MOST_LETTERS];
    bool ends[MOST_WORDS * MOST_LETTERS];
} joined;

static size_t join(const words *w, joined *out)
{
    size_t n = 0;
    memset(out, 0, sizeof *out);
    for (int32_t i = 0; i < w->n; i++) {
        const size_t letters = strlen(w->at[i]);
        memcpy(out->at + n, w->at[i], letters);
        n += letters;
        out->ends[n - 1] = true;
    }
    return n;
}

/* Up to a word's end, or up to the number of one: "sxm" is "sxm5" too, but
 * "a10" no "a100". */
static bool may_be(const words *meant, const words *name)
{
    joined m, n;
    const size_t length = join(meant, &m);
    join(name, &n);
    if (!length || strncmp(m.at, n.at, length) != 0)
        return false;
    size_t end = length - 1;
    if (isalpha((unsigned char)m.at[end]))
        while (!n.ends[end] && isdigit((unsigned char)n.at[end + 1]))
            end++;
    return n.ends[end];
}

hw_meant hw_devices_meant(const hw_names *names, const char *text,
                          fs_arena *arena)
{
    hw_meant out = {0};
    words meant, name;
    if (!split(text, &meant))
        return out;
    out.gigabytes = leave_names(&meant);
    for (int32_t i = 0; i < names->n; i++)
        if (split(names->at[i], &name) && may_be(&meant, &name))
            fs_push(arena, &out.names, names->at[i]);
    return out;
}

fs_status hw_device_memory(const char *directory, const char *name,
                           fs_arena *arena, fs_err *err, double *bytes)
{
    const char *path = fs_printf(arena, "%s/%s.json", directory, name);
    json_t *root;
    fs_json device;
    FS_TRY(fs_json_load(path, err, &root));
    const fs_json in = fs_json_root(path, root);
    fs_status status = fs_json_object(&in, "device", err, &device);
    if (status == FS_OK)
        status = fs_json_number(&device, "memory_bytes", err, bytes);
    json_decref(root);
    return status;
}
