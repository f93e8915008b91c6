/* What a row of measured runs asks: a network of the zoo, a cluster, a recipe,
 * a framework. */
#include "config.h"
#include "cli/validate_reader.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool validate_has(const char *text, const char *part)
{
    return strcasestr(text, part) != NULL;
}

bool validate_skip(validate_reader *r, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    r->out->skip = fs_strdup(r->arena, text);
    return false;
}

void validate_assume(validate_reader *r, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fs_text_add(&r->assumed, "%s%s", r->assumed.n ? "; " : "", text);
}

/* ---- words ---- */

/* "ZB-2p (sync)" -> "zb-2p"; false: longer than any. */
static bool plain(const char *text, char *out, size_t room)
{
    size_t n = strcspn(text, "(");
    while (n > 0 && text[n - 1] == ' ')
        n--;
    if (n >= room)
        return false;
    for (size_t k = 0; k < n; k++)
        out[k] = text[k] == ' ' || text[k] == '_'
                     ? '-'
                     : (char)tolower((unsigned char)text[k]);
    out[n] = '\0';
    return true;
}

const char *validate_word_of(const char *text, const validate_word *known)
{
    char word[64];
    if (!plain(text, word, sizeof word) || (text[0] && !word[0]))
        return NULL;
    for (; known->text; known++)
        if (strcmp(word, known->text) == 0)
            return known->means;
    return NULL;
}

const char *validate_any_word(const char *text, const validate_word *known)
{
    while (*text) {
        size_t n = 0;
        while (isalpha((unsigned char)text[n]))
            n++;
        for (const validate_word *k = known; n > 0 && k->text; k++)
            if (strlen(k->text) == n && strncasecmp(text, k->text, n) == 0)
                return k->means;
        text += n ? n : 1;
    }
    return NULL;
}

bool validate_all_words(const char *text, const char *const *known,
                        char other[32])
{
    while (*text) {
        size_t n = 0;
        while (isalnum((unsigned char)text[n]))
            n++;
        bool found = n == 0;
        for (size_t k = 0; known[k] && !found; k++)
            found =
                strlen(known[k]) == n && strncasecmp(text, known[k], n) == 0;
        if (!found) {
            snprintf(other, 32, "%.*s", (int)(n < 31 ? n : 31), text);
            return false;
        }
        text += n ? n : 1;
    }
    return true;
}

/* ---- the framework ---- */

/* Whose longest word, or name, is in the text. */
static const cost_framework *framework_in(const validate_frameworks *all,
                                          const char *text)
{
    const cost_framework *found = NULL;
    size_t longest = 0;
    for (int32_t i = 0; i < all->n; i++) {
        const cost_framework *f = &all->at[i];
        for (int32_t k = -1; k < f->n_matches; k++) {
            const char *word = k < 0 ? f->name : f->matches[k];
            if (strlen(word) > longest && validate_has(text, word)) {
                longest = strlen(word);
                found = f;
            }
        }
    }
    return found;
}

/* What stands in parentheses tells only where nothing before it does. */
static const cost_framework *framework_of(const validate_frameworks *all,
                                          const char *text, fs_arena *arena)
{
    const cost_framework *found =
        framework_in(all, fs_strndup(arena, text, strcspn(text, "(")));
    return found ? found : framework_in(all, text);
}

/* To what a source says of its runs. */
static void change(const char *with, cost_framework *framework)
{
    fs_err err = {0};
    json_error_t fault;
    json_t *root = json_loads(with, 0, &fault);
    const fs_json in = fs_json_root("sources.json", root);
    const fs_status status = cost_framework_change(&in, &err, framework);
    FS_ASSERT(status == FS_OK); /* as when it was read */
    json_decref(root);
}

static bool is_of(const validate_row *row, const validate_source *s)
{
    return (validate_has(row->source, s->match) ||
            validate_has(row->source_ref, s->match)) &&
           (!s->of_framework ||
            validate_has(row->framework, s->of_framework)) &&
           (!s->of_model || validate_has(row->model, s->of_model)) &&
           (!s->of_precision || validate_has(row->precision, s->of_precision));
}

/* "fsdp, megatron-lm" */
static const char *framework_names(const validate_frameworks *all,
                                   fs_arena *arena)
{
    fs_text text = {.arena = arena};
    for (int32_t i = 0; i < all->n; i++)
        fs_text_add(&text, "%s%s", i ? ", " : "", all->at[i].name);
    return text.n ? text.at : "none";
}

/* What none of them is like would be predicted as what it is not. */
static void take_framework(validate_reader *r, const validate_frameworks *all)
{
    r->out->framework = framework_of(all, r->row->framework, r->arena);
    if (!r->row->framework[0])
        validate_assume(r, "no framework: as this runtime");
    else if (!r->out->framework)
        validate_skip(
            r,
            "framework '%.60s' is not known (known: %s; an empty cell: this "
            "program's runtime)",
            r->row->framework, framework_names(all, r->arena));
}

/* What the source says takes the place of what is usual. */
static void take_source(validate_reader *r, const validate_frameworks *all)
{
    validate_case *out = r->out;
    for (int32_t i = 0; i < all->n_sources; i++) {
        const validate_source *s = &all->sources[i];
        if (!is_of(r->row, s))
            continue;
        if (s->device && !all->as_sim)
            out->source = s;
        if (s->framework && s->instead_of == out->framework)
            out->framework = s->framework;
        if (s->outer_efficiency > 0 && !all->as_sim)
            out->outer_efficiency = s->outer_efficiency;
        out->simulated = out->simulated || s->simulated;
        if (s->host_cores > 0)
            out->host_cores = s->host_cores;
        if (!out->framework)
            continue;
        cost_framework *own =
            fs_memdup(r->arena, out->framework, sizeof *out->framework);
        if (!isnan(s->jitter) && !all->as_sim)
            own->jitter = s->jitter;
        if (s->with)
            change(s->with, own);
        out->framework = own;
    }
}

/* Which streams collectives run on may hang on the plan. */
static void take_streams(validate_reader *r)
{
    const cost_framework *f = r->out->framework;
    if (!f || !f->tensor_alone || r->out->recipe.tp <= 1)
        return;
    cost_framework *own = fs_memdup(r->arena, f, sizeof *f);
    own->overlaps = own->own_stream = false;
    r->out->framework = own;
}

void validate_understand(const validate_row *row,
                         const validate_frameworks *frameworks, fs_arena *arena,
                         validate_case *out)
{
    *out = (validate_case){.row = row,
                           .recipe = search_recipe_free(),
                           .measured_s = NAN,
                           .measured_bytes = NAN,
                           .optimizer = "adam",
                           .assumed = ""};
    const char *family = validate_family(row->arch);
    validate_reader r = {row,
                         frameworks->machines,
                         arena,
                         out,
                         {.arena = arena},
                         family ? family : "",
                         0,
                         NULL};
    take_framework(&r, frameworks); /* any other reason goes before its */
    take_source(&r, frameworks);
    if (validate_take_measured(&r) && validate_take_network(&r) &&
        validate_take_cluster(&r) && validate_take_recipe(&r))
        validate_check_sound(&r);
    take_streams(&r);
    if (validate_has(row->arch, "cnn"))
        out->optimizer = "momentum";
    if (r.assumed.n)
        out->assumed = r.assumed.at;
}
