/* The wires between nodes as people tell them: "8x HDR IB 200 Gb/s per node",
 * "25 GB/s per GPU", "4 rails of 100 Gb/s". All numbers of a text are read, or
 * the row is none. */
#include "config.h"
#include "cli/validate_reader.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- words ---- */

typedef enum kind {
    WORD, /* any other */
    NUMBER,
    RATE,
    TIMES,
    PER,  /* of what comes next */
    EACH, /* of that, or of the wires that were counted */
    WIRE,
    DEVICE,
    NODE,
    DIRECTION,
    TOTAL,
    BOTH, /* directions, put together */
    NAME, /* numbers behind it are of its name: PCIe 4.0 x16, Slingshot 11 */
    OPEN,
    CLOSE,
    END
} kind;

typedef struct token {
    kind kind;
    double value; /* of a rate bytes a second; of a word what it counts, or what
                     a generation of wires has in 10^9 bits a second; 0 */
    const char *at;
    int32_t n;  /* letters of its text */
    bool apart; /* within parentheses */
    bool minus; /* stands before it */
} token;

/* Ports of InfiniBand as sold, four lanes each, in 10^9 bits a second (its
 * trade association's roadmap). */
static const struct named {
    const char *text;
    kind kind;
    double value;
} names[] = {
    {"per", PER, 0},         {"each", EACH, 0},
    {"every", PER, 0},       {"a", PER, 0},
    {"rail", WIRE, 0},       {"nic", WIRE, 0},
    {"hca", WIRE, 0},        {"port", WIRE, 0},
    {"link", WIRE, 0},       {"adapter", WIRE, 0},
    {"interface", WIRE, 0},  {"gpu", DEVICE, 0},
    {"device", DEVICE, 0},   {"accelerator", DEVICE, 0},
    {"node", NODE, 0},       {"host", NODE, 0},
    {"server", NODE, 0},     {"machine", NODE, 0},
    {"instance", NODE, 0},   {"direction", DIRECTION, 0},
    {"way", DIRECTION, 0},   {"total", TOTAL, 0},
    {"aggregate", TOTAL, 0}, {"aggregated", TOTAL, 0},
    {"combined", TOTAL, 0},  {"bidirectional", BOTH, 0},
    {"bi", BOTH, 0},         {"bidir", BOTH, 0},
    {"both", BOTH, 0},       {"pcie", NAME, 0},
    {"pci", NAME, 0},        {"gen", NAME, 0},
    {"nvlink", NAME, 0},     {"slingshot", NAME, 0},
    {"connectx", NAME, 0},   {"cx", NAME, 0},
    {"one", NUMBER, 1},      {"single", NUMBER, 1},
    {"two", NUMBER, 2},      {"dual", NUMBER, 2},
    {"double", NUMBER, 2},   {"three", NUMBER, 3},
    {"four", NUMBER, 4},     {"quad", NUMBER, 4},
    {"five", NUMBER, 5},     {"six", NUMBER, 6},
    {"seven", NUMBER, 7},    {"eight", NUMBER, 8},
    {"sixteen", NUMBER, 16}, {"qdr", WORD, 40},
    {"fdr", WORD, 56},       {"edr", WORD, 100},
    {"hdr", WORD, 200},      {"ndr", WORD, 400},
    {"xdr", WORD, 800},
};

/* What a text may have beyond ASCII, and what it is there. */
static const struct {
    const char *text, *plain;
} symbols[] = {
    {"\xc3\x97", "x"},     /* times */
    {"\xe2\x9c\x95", "x"}, /* a cross */
    {"\xe2\x88\x97", "*"}, /* an asterisk of mathematics */
    {"\xc2\xa0", " "},     /* blanks that do not break, thin ones */
    {"\xe2\x80\x89", " "}, {"\xe2\x80\xaf", " "},
    {"\xe2\x80\x91", "-"}, /* a hyphen that does not break */
    {"\xe2\x80\x93", "-"}, /* a dash */
    {"\xe2\x88\x92", "-"}, /* minus */
};

static const char *in_ascii(const char *text, fs_arena *arena)
{
    fs_text out = {.arena = arena};
    fs_text_add(&out, "%s", "");
    while (*text) {
        size_t n = 0;
        for (size_t k = 0; k < sizeof symbols / sizeof symbols[0] && !n; k++)
            if (strncmp(text, symbols[k].text, strlen(symbols[k].text)) == 0) {
                n = strlen(symbols[k].text);
                fs_text_add(&out, "%s", symbols[k].plain);
            }
        if (!n)
            fs_text_add(&out, "%c", *text);
        text += n ? n : 1;
    }
    return out.at;
}

static size_t blanks(const char *p)
{
    return strspn(p, " \t");
}

/* "/s", " per second"; 0: it is none. */
static size_t length_of_second(const char *p)
{
    static const char *const known[] = {"/second", "/sec", "/s", "per second",
                                        "per sec"};
    const size_t before = blanks(p);
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        const size_t n = strlen(known[k]);
        if (strncasecmp(p + before, known[k], n) == 0 &&
            !isalpha((unsigned char)p[before + n]))
            return before + n;
    }
    return 0;
}

/* Bytes a second of a unit there: "G", "Gb/s", "Gbps", "GbE", and where the B
 * is a capital bytes, "GB/s"; 0: it is none. Capitals all over ("GBPS") tell
 * neither. */
static double unit_bps(const char *p, const char **end)
{
    static const struct {
        const char *text;
        bool bytes;
    } known[] = {
        {"", false},     {"b", false},      {"bps", false},     {"bit", false},
        {"bits", false}, {"Bit", false},    {"Bits", false},    {"bE", false},
        {"BE", false},   {"be", false},     {"E", false},       {"igE", false},
        {"ige", false},  {"igabit", false}, {"igabits", false}, {"B", true},
        {"Bps", true},   {"byte", true},    {"bytes", true},    {"Byte", true},
        {"Bytes", true}, {"igabyte", true}, {"igabytes", true}};
    static const char prefixes[] = "KMGT";
    const char *prefix =
        *p ? strchr(prefixes, toupper((unsigned char)*p)) : NULL;
    if (!prefix)
        return 0;
    const bool binary = p[1] == 'i' && (p[2] == 'b' || p[2] == 'B');
    const char *unit = p + 1 + binary;
    size_t n = 0;
    while (isalpha((unsigned char)unit[n]))
        n++;
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        if (strlen(known[k].text) != n ||
            strncmp(known[k].text, unit, n) != 0 ||
            isdigit((unsigned char)unit[n]))
            continue;
        *end = unit + n + length_of_second(unit + n);
        return pow(binary ? 1024 : 1000, (double)(prefix - prefixes) + 1) /
               (known[k].bytes ? 1 : 8);
    }
    return 0;
}

/* "200", "0.2", "2e2"; the unit may follow behind a blank or a hyphen. */
static token read_number(const char *p)
{
    char *end;
    token out = {.kind = NUMBER, .at = p};
    char digits[32];
    size_t n = strspn(p, "0123456789.");
    if ((p[n] == 'e' || p[n] == 'E') && isdigit((unsigned char)p[n + 1]))
        n += 1 + strspn(p + n + 1, "0123456789");
    snprintf(digits, sizeof digits, "%.*s", (int)n, p);
    out.value = n < sizeof digits ? strtod(digits, &end) : NAN;
    if (n >= sizeof digits || *end)
        out.value = NAN;
    const char *unit = p + n + blanks(p + n), *after = p + n;
    unit += *unit == '-' && unit == p + n;
    const double bps = unit_bps(unit, &after);
    if (bps > 0) {
        out.kind = RATE;
        out.value *= bps;
    }
    out.n = (int32_t)(after - p);
    return out;
}

/* "MT27700", "p3.16xlarge" are one word each; "HDR100" a generation with a rate
 * of its own. */
static token read_word(const char *p)
{
    token out = {.kind = WORD, .at = p};
    int32_t n = 0, letters = 0;
    while (isalpha((unsigned char)p[letters]))
        letters++;
    while (isalnum((unsigned char)p[n]) || (unsigned char)p[n] >= 0x80 ||
           (p[n] == '.' && isalnum((unsigned char)p[n + 1])))
        n++;
    out.n = n > 0 ? n : 1;
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        const struct named *name = &names[k];
        const int32_t length = (int32_t)strlen(name->text);
        const bool plural = letters == length + 1 && p[length] == 's';
        if ((length != letters && !plural) ||
            strncasecmp(p, name->text, (size_t)length) != 0)
            continue;
        if (n == letters) {
            out.kind = name->kind;
            out.value = name->value;
        } else if (name->kind == WORD)
            out.value = strtod(p + letters, NULL);
    }
    return out;
}

/* "8x200G", "8 x HDR", "x8", but no "24xlarge". */
static bool is_times(const char *text, const char *p)
{
    const char next = *p ? p[1] : '\0';
    const bool behind = p > text && isdigit((unsigned char)p[-1]);
    if (*p == '*')
        return true;
    if (*p != 'x' && *p != 'X')
        return false;
    return !isalpha((unsigned char)next) ||
           (behind && *p == 'x' && isupper((unsigned char)next));
}

/* Of a name, or of a generation's, whose rate it is ("HDR 100"). */
static bool is_of_name(const char *p, const token *t, token *all, int32_t n)
{
    const char *next = p + t->n + blanks(p + t->n);
    if (t->kind != NUMBER || !isdigit((unsigned char)*p) || n < 1)
        return false;
    if (p[-1] == '-' || all[n - 1].kind == NAME ||
        (n > 1 && all[n - 1].kind == TIMES && all[n - 2].kind == NAME))
        return p[-1] != '-' || isalnum((unsigned char)p[-2]);
    if (all[n - 1].kind != WORD || !(all[n - 1].value > 0) || is_times(p, next))
        return false;
    all[n - 1].value = t->value;
    return true;
}

static token read_token(const char *text, const char *p)
{
    if (is_times(text, p))
        return (token){.kind = TIMES, .at = p, .n = 1};
    if (isdigit((unsigned char)*p))
        return read_number(p);
    if (isalpha((unsigned char)*p) || (unsigned char)*p >= 0x80)
        return read_word(p);
    return (token){.kind = *p == '('   ? OPEN
                           : *p == ')' ? CLOSE
                           : *p == '/' ? PER
                                       : END,
                   .at = p,
                   .n = 1};
}

enum { MOST_TOKENS = 64 };

/* A list that ends; false: too many words. */
static bool split(const char *text, token out[MOST_TOKENS + 1])
{
    int32_t n = 0, depth = 0;
    const char *p = text;
    while (*p && n < MOST_TOKENS) {
        token t = read_token(text, p);
        if (is_of_name(p, &t, out, n))
            t.kind = NAME;
        t.apart = depth > 0;
        t.minus = p > text && p[-1] == '-' &&
                  (p - 1 == text || strchr(" (,;", p[-2]));
        depth += (t.kind == OPEN) - (t.kind == CLOSE);
        if (t.kind != END)
            out[n++] = t;
        p += t.n;
    }
    out[n] = (token){.kind = END, .at = ""};
    return !*p;
}

/* ---- what they say together ---- */

enum { MOST_RATES = 4 };

typedef struct told {
    double bps;
    kind of; /* WIRE, DEVICE, NODE; WORD: not said */
    bool apart;
} told;

typedef struct wires {
    int64_t count; /* of a node; 0: not told */
    int32_t n;
    told rates[MOST_RATES];
    bool total;          /* a rate is said to be of all */
    double port_bps;     /* of a generation that is named; 0 */
    int64_t devices;     /* on a node */
    int64_t usual_count; /* wires of a usual node */
} wires;

static bool no_wire(validate_reader *r, const token *t, const char *why)
{
    return validate_skip(r, "inter_link '%.60s': no such wire ('%.*s': %s)",
                         r->row->inter_link, t->n, t->at, why);
}

static bool not_clear(validate_reader *r, const token *t)
{
    return validate_skip(r,
                         "inter_link '%.60s': what its '%.*s' is of is not "
                         "clear (wanted is one such as 200 Gb/s per node, per "
                         "GPU, 8x 200 Gb/s, 8 NICs of 25 GB/s)",
                         r->row->inter_link, t->n, t->at);
}

/* What a PER at `t` is of, behind two words at most; WORD: nothing known. */
static kind noun_behind(const token *t)
{
    const int most = *t->at == '/' ? 1 : 3;
    for (int k = 0; k < most; k++) {
        t++;
        if (t->kind == WIRE || t->kind == DEVICE || t->kind == NODE ||
            t->kind == DIRECTION)
            return t->kind;
        if (t->kind != WORD && t->kind != NAME)
            break;
    }
    return WORD;
}

static bool is_word(const token *t, const char *text)
{
    return (size_t)t->n == strlen(text) &&
           strncasecmp(t->at, text, strlen(text)) == 0;
}

/* What a rate is of: what stands behind it, up to the next number. */
static bool read_of(validate_reader *r, const token *rate, kind *out)
{
    *out = WORD;
    for (const token *t = rate + 1; t->kind != END; t++) {
        if (t->kind == RATE || t->kind == NUMBER)
            return true;
        if (t->kind != PER && t->kind != EACH)
            continue;
        const kind noun = noun_behind(t);
        if (noun == DIRECTION)
            continue;
        if (noun != WORD || t->kind == EACH) {
            *out = noun == WORD ? WIRE : noun;
            return true;
        }
        if (is_word(t, "per") || is_word(t, "every"))
            return not_clear(r, rate);
    }
    return true;
}

/* Of what the number tells how many; TIMES, WIRE: of wires; DEVICE: of wires of
 * each; WORD: of nothing that is known. */
static kind counted(const token *all, const token *number)
{
    const token *t = number + 1;
    const bool spelled = !isdigit((unsigned char)*number->at);
    if (t->kind == TIMES)
        return TIMES;
    if (number > all + 1 && number[-1].kind == TIMES &&
        (number[-2].kind == RATE ||
         (number[-2].kind == OPEN && number > all + 2 &&
          number[-3].kind == RATE)))
        return TIMES;
    if (t->kind == PER || t->kind == EACH)
        return noun_behind(t) == DEVICE ? DEVICE
               : noun_behind(t) == NODE ? WIRE
                                        : WORD;
    if (t->kind == RATE && spelled)
        return WIRE;
    t += t->kind == RATE;
    while ((t->kind == WORD || t->kind == NAME) && t < number + 5)
        t++;
    if (t->kind != WIRE)
        return WORD;
    return (t[1].kind == PER || t[1].kind == EACH) &&
                   noun_behind(t + 1) == DEVICE
               ? DEVICE
               : WIRE;
}

static bool take_count(validate_reader *r, const token *all, const token *t,
                       wires *out)
{
    const kind of = counted(all, t);
    if (of == WORD && t->value == 1 && isalpha((unsigned char)*t->at))
        return true; /* "single switch" */
    if (of == WORD && t == all && t[1].kind == END)
        return validate_skip(r,
                             "inter_link '%.60s' tells a number without a "
                             "unit (Gb/s)",
                             r->row->inter_link);
    if (of == WORD ||
        (of == TIMES && t[1].kind == TIMES && t[2].kind == NUMBER))
        return not_clear(r, of == WORD ? t : &t[2]);
    if (t->minus || !(t->value >= 1 && t->value <= 64) ||
        t->value != floor(t->value))
        return no_wire(r, t, "1 to 64 are known");
    const int64_t count = (int64_t)t->value * (of == DEVICE ? out->devices : 1);
    if (out->count && out->count != count)
        return not_clear(r, t);
    out->count = count;
    return true;
}

static bool take_rate(validate_reader *r, const token *t, wires *out)
{
    if (t->minus || !(t->value > 0 && t->value <= 1e15 / 8))
        return no_wire(r, t, "above 0 and at most 1 Pb/s is wanted");
    if (out->n == MOST_RATES)
        return not_clear(r, t);
    told *rate = &out->rates[out->n++];
    *rate = (told){.bps = t->value, .apart = t->apart};
    return read_of(r, t, &rate->of);
}

static bool read_wires(validate_reader *r, const token *all, wires *out)
{
    for (const token *t = all; t->kind != END; t++) {
        if (t->kind == NUMBER && !take_count(r, all, t, out))
            return false;
        if (t->kind == RATE && !take_rate(r, t, out))
            return false;
        if (t->kind == BOTH)
            return not_clear(r, t);
        out->total |= t->kind == TOTAL;
        if (t->kind == WORD && t->value > 0)
            out->port_bps = 1e9 / 8 * t->value;
    }
    return true;
}

/* Above any wire's: XDR has 800 Gb/s. */
#define ABOVE_WIRES_BPS (1e12 / 8)

/* What a rate makes a node's, what is likely first; how many. */
static int32_t list_meanings(const wires *w, const told *t, double out[2])
{
    const bool alone = t->apart || (w->total && w->n == 1);
    const bool may_be_one = w->count > 1 && t->bps < ABOVE_WIRES_BPS;
    int32_t n = 0;
    if (t->of == DEVICE)
        out[n++] = t->bps * (double)w->devices;
    else if (t->of == WIRE)
        out[n++] = t->bps * (double)w->count;
    else if (may_be_one && !(alone && (t->of == NODE || w->total)))
        out[n++] = t->bps * (double)w->count;
    if (t->of != DEVICE && t->of != WIRE)
        out[n++] = t->bps;
    return n;
}

/* Rates that are told twice may be rounded. */
#define SAME_RATE 0.03

static bool agree(const wires *w, double node_bps)
{
    for (int32_t i = 0; i < w->n; i++) {
        double means[2];
        const int32_t n = list_meanings(w, &w->rates[i], means);
        bool same = false;
        for (int32_t k = 0; k < n; k++)
            same |= fabs(means[k] / node_bps - 1) < SAME_RATE;
        if (!same)
            return false;
    }
    return true;
}

static void say(validate_reader *r, const wires *w, double node_bps)
{
    const told *first = &w->rates[0];
    const bool is_told = first->of == NODE && node_bps == first->bps;
    if (r->usual->groups[0].nodes < 2 || is_told || (w->total && w->n))
        return;
    if (w->count > 1)
        validate_assume(r, "%lld wires of %.4g Gb/s a node",
                        (long long)w->count,
                        8e-9 * node_bps / (double)w->count);
    else
        validate_assume(r, "%.4g Gb/s a node", 8e-9 * node_bps);
}

/* Of no rate the generation's, where the wires are counted; what is told
 * without both is the usual wire's or nothing. */
static bool take_port(validate_reader *r, wires *w)
{
    const char *usual = r->usual->outer.name;
    if (w->count && w->port_bps > 0) {
        w->rates[w->n++] = (told){.bps = w->port_bps, .of = WIRE};
        return true;
    }
    if (w->count && w->count != w->usual_count)
        return validate_skip(r, "inter_link '%.60s' tells no rate",
                             r->row->inter_link);
    token of_usual[MOST_TOKENS + 1];
    double port_bps = 0;
    if (w->port_bps > 0 && split(usual, of_usual))
        for (const token *t = of_usual; t->kind != END; t++)
            if (t->kind == WORD && t->value > 0)
                port_bps = 1e9 / 8 * t->value;
    return w->port_bps == port_bps || w->port_bps <= 0 ||
           validate_skip(r,
                         "inter_link '%.60s' does not tell how many wires a "
                         "node has, and the usual ones are others: %s",
                         r->row->inter_link, usual);
}

bool validate_take_wires(validate_reader *r)
{
    const char *text = in_ascii(r->row->inter_link, r->arena);
    const hw_cluster *usual = r->usual;
    token all[MOST_TOKENS + 1];
    wires w = {.devices = usual->groups[0].devices_per_node,
               .usual_count =
                   usual->nics_per_node > 0 ? usual->nics_per_node : 1};
    if (!split(text, all))
        return validate_skip(r, "inter_link '%.60s': too many words",
                             r->row->inter_link);
    if (!read_wires(r, all, &w) || (!w.n && !take_port(r, &w)))
        return false;
    if (!w.n)
        return true;
    for (int32_t i = 0; i < w.n; i++) {
        if (w.rates[i].of == DEVICE && w.count > 1 && w.count != w.devices)
            return validate_skip(r,
                                 "inter_link '%.60s': of %lld wires on a node "
                                 "of %lld devices a rate per device is not "
                                 "clear",
                                 r->row->inter_link, (long long)w.count,
                                 (long long)w.devices);
        if (w.rates[i].of == DEVICE)
            w.count = w.devices;
        if (w.rates[i].of == WIRE && !w.count)
            w.count = w.usual_count;
    }
    double means[2];
    const int32_t n = list_meanings(&w, &w.rates[0], means);
    for (int32_t k = 0; k < n; k++)
        if (agree(&w, means[k])) {
            r->out->outer_bps = means[k];
            r->out->nics = (int32_t)w.count;
            say(r, &w, means[k]);
            return true;
        }
    return validate_skip(r,
                         "inter_link '%.60s' tells rates that are not of one "
                         "wire",
                         r->row->inter_link);
}
