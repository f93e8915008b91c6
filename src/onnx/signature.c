/* The rows of signatures.def, and a node held against its own. */
#include "config.h"
#include "onnx/signature.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = INT32_MAX };

typedef struct signature {
    const char *op;
    int32_t most_inputs;
    const char *outputs, *attributes;
} signature;

static const signature signatures[] = {
#define ONNX_TAKES(op, most_inputs, outputs, attributes)                       \
    {#op, most_inputs, outputs, attributes},
#include "onnx/signatures.def"
#undef ONNX_TAKES
};

/* Ops by their own names (op_own.c). */
static const signature own_signature = {"flowsearch", MANY, "*", "i:I f:t"};

/* One attribute of a signature's text. */
typedef struct entry {
    const char *name;
    int32_t length;
    char type;
    int64_t since, before; /* opsets that know it: from, and below */
    int64_t required;      /* since this one; INT64_MAX: never */
} entry;

static const struct {
    char letter;
    const char *text;
} types[] = {
    [ONNX_ATTR_NONE] = {'?', "without a value"},
    [ONNX_ATTR_REAL] = {'f', "a real"},
    [ONNX_ATTR_INT] = {'i', "an integer"},
    [ONNX_ATTR_TEXT] = {'s', "text"},
    [ONNX_ATTR_TENSOR] = {'t', "a tensor"},
    [ONNX_ATTR_GRAPH] = {'g', "a graph"},
    [ONNX_ATTR_REALS] = {'F', "a list of reals"},
    [ONNX_ATTR_INTS] = {'I', "a list of integers"},
    [ONNX_ATTR_TEXTS] = {'S', "a list of texts"},
};

static const signature *find_signature(const char *op)
{
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++)
        if (strcmp(signatures[i].op, op) == 0)
            return &signatures[i];
    return NULL;
}

bool onnx_has_signature(const char *op)
{
    return find_signature(op) != NULL;
}

static bool next_entry(const char **at, entry *out)
{
    const char *p = *at + strspn(*at, " ");
    char *end;
    if (!*p)
        return false;
    *out = (entry){p, (int32_t)strcspn(p, ":"), 0, 0, INT64_MAX, INT64_MAX};
    p += out->length + 1;
    out->type = *p++;
    if (*p == '>') {
        out->since = strtol(p + 1, &end, 10);
        p = end;
    }
    if (*p == '<') {
        out->before = strtol(p + 1, &end, 10);
        p = end;
    }
    if (*p == '!') {
        out->required =
            isdigit((unsigned char)p[1]) ? strtol(p + 1, &end, 10) : 0;
        p += strspn(p, "!0123456789");
    }
    *at = p;
    return true;
}

static bool is_named(const entry *e, const char *name)
{
    return strlen(name) == (size_t)e->length &&
           strncmp(e->name, name, (size_t)e->length) == 0;
}

static const char *type_text(char letter)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].letter == letter)
            return types[i].text;
    return "of a type that no operator here takes";
}

static char letter_of(const onnx_attr *attr)
{
    bool known = (size_t)attr->type < sizeof types / sizeof *types;
    return known ? types[attr->type].letter : '\0';
}

static bool fits(const onnx_attr *attr, char wanted)
{
    /* An empty list leaves no trace but its type, which old files lack. */
    if (attr->type == ONNX_ATTR_NONE)
        return wanted == 'I' || wanted == 'F' || wanted == 'S';
    return letter_of(attr) == wanted;
}

static fs_status check_attribute(onnx_ctx *c, const onnx_attr *attr,
                                 const char *attributes)
{
    char wanted = '\0';
    entry e;
    while (next_entry(&attributes, &e)) {
        if (!is_named(&e, attr->name) || c->opset < e.since ||
            c->opset >= e.before)
            continue;
        wanted = e.type;
        if (fits(attr, wanted))
            break;
    }
    if (!wanted)
        return onnx_fail(c, "attribute \"%.80s\" is unknown in opset %lld",
                         attr->name, (long long)c->opset);
    if (!fits(attr, wanted))
        return onnx_fail(c, "attribute \"%.80s\" is %s; %s is wanted",
                         attr->name, type_text(letter_of(attr)),
                         type_text(wanted));
    if (wanted == 's' && !attr->s)
        return onnx_fail(c, "attribute \"%.80s\" is not printable", attr->name);
    return FS_OK;
}

static fs_status check_required(onnx_ctx *c, const char *attributes)
{
    entry e;
    while (next_entry(&attributes, &e)) {
        bool given =
            c->opset < e.required || c->opset < e.since || c->opset >= e.before;
        for (int32_t i = 0; i < c->node->attrs.n && !given; i++)
            given = is_named(&e, c->node->attrs.at[i].name);
        if (!given)
            return onnx_fail(c, "attribute \"%.*s\" is missing", e.length,
                             e.name);
    }
    return FS_OK;
}

static fs_status check_inputs(onnx_ctx *c, int32_t most)
{
    for (int32_t i = most; i < c->node->in.n; i++)
        if (onnx_has(c, i))
            return onnx_fail(c, "input %d (\"%.80s\") is too many: %d at most",
                             i, c->node->in.at[i], most);
    return FS_OK;
}

/* The number that holds in this opset. */
static int32_t most_outputs(const char *text, int64_t opset)
{
    for (;;) {
        char *end;
        int64_t most = text[0] == '*' ? MANY : strtol(text, &end, 10);
        if (most == MANY || *end != '<' || opset < strtol(end + 1, &end, 10))
            return (int32_t)most;
        text = end + 1;
    }
}

/* An absent optional at the end is none. */
static fs_status check_outputs(onnx_ctx *c, int32_t most)
{
    const onnx_node *node = c->node;
    for (int32_t i = most; i < node->out.n; i++)
        if (node->out.at[i][0])
            return onnx_fail(c, "output %d (\"%.80s\") is too many: %d at most",
                             i, node->out.at[i], most);
    return FS_OK;
}

/* Since the second version of the format every attribute says its type. */
static fs_status check_typed(onnx_ctx *c, const onnx_attr *attr)
{
    if (attr->typed || c->model->proto.ir_version < 2)
        return FS_OK;
    return onnx_fail(c, "attribute \"%.80s\" has no type", attr->name);
}

fs_status onnx_check_signature(onnx_ctx *c)
{
    const onnx_node *node = c->node;
    const signature *s = strcmp(node->domain, "flowsearch") == 0
                             ? &own_signature
                             : find_signature(node->op);
    if (!s)
        return onnx_fail(c, "what it takes is not known");
    FS_TRY(check_inputs(c, s->most_inputs));
    FS_TRY(check_outputs(c, most_outputs(s->outputs, c->opset)));
    for (int32_t i = 0; i < node->attrs.n; i++) {
        const onnx_attr *attr = &node->attrs.at[i];
        if (strcmp(attr->name, "consumed_inputs") == 0)
            continue;
        if (onnx_attr_find(c, attr->name) != attr)
            return onnx_fail(c, "attribute \"%.80s\" is given twice",
                             attr->name);
        FS_TRY(check_typed(c, attr));
        FS_TRY(check_attribute(c, attr, s->attributes));
    }
    return check_required(c, s->attributes);
}
