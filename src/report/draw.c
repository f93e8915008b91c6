#include "config.h"
#include "report/draw.h"

#include "base/file.h"

#include <ctype.h>
#include <errno.h>
#include <graphviz/gvc.h>
#include <signal.h>
#include <stdarg.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

fs_status draw_format(const char *file, fs_err *err, const char **format)
{
    static const char *const known[] = {"svg", "png", "pdf", "dot"};
    const char *dot = strrchr(file, '.');
    for (size_t i = 0; dot && i < sizeof known / sizeof known[0]; i++)
        if (strcmp(dot + 1, known[i]) == 0) {
            *format = known[i];
            return FS_OK;
        }
    return fs_fail(
        err, FS_INVALID,
        "%s: the ending must be .svg, .png, .pdf or .dot (of a MODEL "
        ".txt too)",
        file);
}

void draw_begin(draw *d, const char *name)
{
    *d = (draw){.arena = fs_arena_create()};
    d->graph = draw_open(name);
    draw_set(d->graph, "fontname", "Helvetica");
    draw_set(d->graph, "compound", "true");
    agattr(d->graph, AGNODE, "fontname", "Helvetica");
    agattr(d->graph, AGNODE, "fontsize", "10");
    agattr(d->graph, AGEDGE, "fontname", "Helvetica");
    agattr(d->graph, AGEDGE, "fontsize", "8");
}

void draw_set(void *object, const char *name, const char *value)
{
    agsafeset(object, (char *)name, (char *)value, "");
}

void draw_set_html(void *object, const char *name, const char *value)
{
    char *text = agstrdup_html(agraphof(object), (char *)value);
    agsafeset(object, (char *)name, text, "");
    agstrfree(agraphof(object), text);
}

void draw_setf(draw *d, void *object, const char *name, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    draw_set(object, name, fs_strdup(d->arena, text));
}

Agnode_t *draw_node(draw *d, Agraph_t *in, const char *name)
{
    d->drawn.nodes++;
    return agnode(in, (char *)name, 1);
}

Agedge_t *draw_edge(draw *d, Agnode_t *from, Agnode_t *to)
{
    d->drawn.edges++;
    return agedge(d->graph, from, to, NULL, 1);
}

Agraph_t *draw_cluster(draw *d, Agraph_t *in, const char *name,
                       const char *label)
{
    Agraph_t *cluster = agsubg(in, fs_printf(d->arena, "cluster_%s", name), 1);
    draw_set(cluster, "label", label);
    draw_set(cluster, "labeljust", "l"); /* edges come in the middle */
    draw_set(cluster, "fontsize", "12");
    return cluster;
}

/* One picture to be drawn, and the memory through which it comes back. */
typedef struct picture {
    Agraph_t *graph;
    const char *engine, *format, *file;
    int memory;
    fs_err *told; /* shared with the child */
} picture;

/* Through memory: Graphviz answers a full disk by leaving the process. */
static fs_status render(const picture *p, GVC_t *gvc)
{
    char *data = NULL;
    unsigned bytes = 0;
    if (gvRenderData(gvc, p->graph, p->format, &data, &bytes) != 0 || !data)
        return fs_fail(p->told, FS_FAULT, "%s: Graphviz cannot draw it as %s",
                       p->file, p->format);
    for (unsigned at = 0; at < bytes;) {
        ssize_t n = write(p->memory, data + at, bytes - at);
        if (n < 0 && errno != EINTR)
            return fs_write_fail(p->file, errno, p->told);
        at += n > 0 ? (unsigned)n : 0;
    }
    gvFreeRenderData(data);
    return FS_OK;
}

/* Before the child is started, so that its failures are rare. */
static fs_status check_place(const char *file, fs_err *err)
{
    char place[FS_PATH_MAX], dir[FS_PATH_MAX] = ".";
    FS_TRY(fs_write_place(file, err, place));
    const char *slash = strrchr(place, '/');
    if (slash)
        snprintf(dir, sizeof dir, "%.*s", (int)(slash - place + 1), place);
    if (access(dir, W_OK | X_OK) == 0)
        return FS_OK;
    return fs_fail(err, FS_INVALID, "%s: cannot be written: %s", file,
                   strerror(errno));
}

static fs_status lay_out(const picture *p)
{
    GVC_t *gvc = gvContext();
    if (gvLayout(gvc, p->graph, p->engine) != 0)
        return fs_fail(p->told, FS_FAULT, "%s: Graphviz finds no layout",
                       p->file);
    return render(p, gvc);
}

/* How the child ended; what it found stands in `told`. */
static fs_status wait_for_picture(pid_t child, const picture *p, fs_err *err)
{
    int raw = 0;
    while (waitpid(child, &raw, 0) < 0)
        if (errno != EINTR)
            return fs_fail(err, FS_FAULT, "waitpid: %s", strerror(errno));
    if (WIFEXITED(raw) && WEXITSTATUS(raw) == FS_OK)
        return FS_OK;
    if (p->told->text[0])
        return fs_fail(err, p->told->status, "%s", p->told->text);
    return fs_fail(err, FS_FAULT, "%s: not drawn", p->file);
}

static fs_status write_picture(const picture *p, fs_err *err)
{
    char part[1 << 16];
    fs_output out;
    ssize_t n;
    FS_TRY(fs_output_open(&out, p->file, err));
    for (off_t at = 0; (n = pread(p->memory, part, sizeof part, at)) > 0;
         at += n)
        fs_output_write(&out, part, (size_t)n);
    return fs_output_close(&out, err);
}

/* It ends with its parent, whatever ends that. */
static _Noreturn void draw_as_child(const picture *p, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(FS_FAULT);
    _exit(lay_out(p));
}

static fs_status draw_shared(const picture *p, fs_err *err)
{
    pid_t parent = getpid();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        draw_as_child(p, parent);
    if (child < 0)
        return fs_fail(err, FS_FAULT, "fork: %s", strerror(errno));
    FS_TRY(wait_for_picture(child, p, err));
    return write_picture(p, err);
}

/* Graphviz' text plugin keeps a pointer to the last font's name, which dies
 * with its graph: the second picture of a process would read freed memory. So
 * each is drawn by a process of its own; this one writes the file. */
static fs_status draw_apart(picture p, fs_err *err)
{
    p.told = mmap(NULL, sizeof *p.told, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    p.memory = memfd_create("picture", MFD_CLOEXEC);
    fs_status status =
        p.told == MAP_FAILED || p.memory < 0
            ? fs_fail(err, FS_FAULT, "%s: no memory to draw it: %s", p.file,
                      strerror(errno))
            : draw_shared(&p, err);
    if (p.memory >= 0)
        close(p.memory);
    if (p.told != MAP_FAILED)
        munmap(p.told, sizeof *p.told);
    return status;
}

fs_status draw_finish(draw *d, const char *engine, const char *file,
                      fs_err *err, report_drawn *out)
{
    const char *format;
    fs_status status = draw_format(file, err, &format);
    if (status == FS_OK)
        status = check_place(file, err);
    if (status == FS_OK)
        status = draw_apart((picture){.graph = d->graph,
                                      .engine = engine,
                                      .format = format,
                                      .file = file},
                            err);
    agclose(d->graph);
    fs_arena_destroy(d->arena);
    if (status == FS_OK && out)
        *out = d->drawn;
    return status;
}

const char *draw_sbp_colour(draw *d, const ir_nd_sbp *sbp, int32_t n_axes)
{
    static const char *const split[] = {"#8fbce6", "#7fd0c4", "#b7a5e0",
                                        "#9fd68a"};
    fs_text text = {.arena = d->arena};
    for (int32_t a = 0; a < n_axes; a++) {
        const char *colour = "#e8e8e8";
        if (sbp->at[a].kind == IR_S)
            colour = split[sbp->at[a].axis % 4];
        else if (ir_sbp_is_partial(sbp->at[a]))
            colour = "#f2b179";
        fs_text_add(&text, "%s%s", a ? ":" : "", colour);
    }
    return text.n ? text.at : "#e8e8e8";
}

const char *draw_class_colour(ir_op_class op_class)
{
    static const char *const colours[] = {
        [IR_CLASS_SOURCE] = "#d9d9d9",    [IR_CLASS_MATMUL] = "#8fbce6",
        [IR_CLASS_CONV] = "#8fbce6",      [IR_CLASS_ATTENTION] = "#8fbce6",
        [IR_CLASS_POINTWISE] = "#c7e5b4", [IR_CLASS_REDUCE] = "#f2cf8b",
        [IR_CLASS_GATHER] = "#d8b4e2",    [IR_CLASS_COPY] = "#f0c0b0",
        [IR_CLASS_VIEW] = "#f5f5f5",      [IR_CLASS_UPDATE] = "#f2b179",
    };
    return colours[op_class];
}

const char *draw_block_of(fs_arena *arena, const char *name)
{
    const char *start = name + (name[0] == '/');
    for (const char *part = start; *part;) {
        size_t n = strcspn(part, "/");
        if (!part[n])
            return "";
        if (n > 0 && isdigit((unsigned char)part[n - 1]))
            return fs_strndup(arena, start, (size_t)(part + n - start));
        part += n + 1;
    }
    return "";
}

const char *draw_short_name(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash && slash[1] ? slash + 1 : name;
}

Agnode_t *draw_put(draw *d, const char *shape, const char *label, draw_box at)
{
    Agnode_t *n =
        draw_node(d, d->graph, fs_printf(d->arena, "n%d", d->drawn.nodes));
    draw_set(n, "shape", shape);
    draw_set(n, "label", label);
    draw_set(n, "fontsize", "10");
    draw_set(n, "margin", "0");
    draw_set(n, "fixedsize", label[0] ? "false" : "true");
    draw_setf(d, n, "pos", "%.2f,%.2f!", at.x, at.y);
    draw_setf(d, n, "width", "%.5f", fmax(at.width, 0.5) / 72);
    draw_setf(d, n, "height", "%.5f", fmax(at.height, 0.5) / 72);
    return n;
}

Agnode_t *draw_put_filled(draw *d, const char *shape, const char *colour,
                          draw_box at)
{
    Agnode_t *n = draw_put(d, shape, "", at);
    draw_set(n, "style", "filled");
    draw_set(n, "fillcolor", colour);
    draw_set(n, "color", colour);
    draw_set(n, "penwidth", "0");
    return n;
}
