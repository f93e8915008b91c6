#include "config.h"
#include "report/draw.h"

#include "base/file.h"

#include <ctype.h>
#include <errno.h>
#include <graphviz/gvc.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
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
    return fs_fail(err, FS_INVALID,
                   "%s: the ending must be .svg, .png, .pdf or .dot", file);
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
    draw_set(cluster, "fontsize", "12");
    return cluster;
}

/* Through memory: Graphviz answers a full disk by leaving the process. */
static fs_status write_picture(GVC_t *gvc, Agraph_t *graph, const char *format,
                               const char *file, fs_err *err)
{
    char *data = NULL;
    unsigned bytes = 0;
    fs_output out;
    if (gvRenderData(gvc, graph, format, &data, &bytes) != 0 || !data)
        return fs_fail(err, FS_FAULT, "%s: Graphviz cannot draw it as %s", file,
                       format);
    fs_status status = fs_output_open(&out, file, err);
    if (status == FS_OK) {
        fs_output_write(&out, data, bytes);
        status = fs_output_close(&out, err);
    }
    gvFreeRenderData(data);
    return status;
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

static fs_status lay_out_and_write(Agraph_t *graph, const char *engine,
                                   const char *format, const char *file,
                                   fs_err *err)
{
    GVC_t *gvc = gvContext();
    if (gvLayout(gvc, graph, engine) != 0)
        return fs_fail(err, FS_FAULT, "%s: Graphviz finds no layout", file);
    return write_picture(gvc, graph, format, file, err);
}

/* How the child ended; what it found stands in `told`. */
static fs_status wait_for_picture(pid_t child, const char *file,
                                  const fs_err *told, fs_err *err)
{
    int raw = 0;
    while (waitpid(child, &raw, 0) < 0)
        if (errno != EINTR)
            return fs_fail(err, FS_FAULT, "waitpid: %s", strerror(errno));
    if (WIFEXITED(raw) && WEXITSTATUS(raw) == FS_OK)
        return FS_OK;
    if (told->text[0])
        return fs_fail(err, told->status, "%s", told->text);
    return fs_fail(err, FS_FAULT, "%s: not drawn", file);
}

/* Graphviz' text plugin keeps a pointer to the last font's name, which dies
 * with its graph: the second picture of a process would read freed memory. So
 * each is drawn by a process of its own. */
static fs_status draw_apart(Agraph_t *graph, const char *engine,
                            const char *format, const char *file, fs_err *err)
{
    fs_err *told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED)
        return fs_fail(err, FS_FAULT, "mmap: %s", strerror(errno));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(lay_out_and_write(graph, engine, format, file, told));
    fs_status status = child < 0
                           ? fs_fail(err, FS_FAULT, "fork: %s", strerror(errno))
                           : wait_for_picture(child, file, told, err);
    munmap(told, sizeof *told);
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
        status = draw_apart(d->graph, engine, format, file, err);
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
        [IR_CLASS_SOURCE] = "#d9d9d9", [IR_CLASS_MATMUL] = "#8fbce6",
        [IR_CLASS_CONV] = "#8fbce6",   [IR_CLASS_POINTWISE] = "#c7e5b4",
        [IR_CLASS_REDUCE] = "#f2cf8b", [IR_CLASS_GATHER] = "#d8b4e2",
        [IR_CLASS_COPY] = "#f0c0b0",   [IR_CLASS_VIEW] = "#f5f5f5",
        [IR_CLASS_UPDATE] = "#f2b179",
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
