#include "config.h"
#include "onnx/file.h"

#include "base/file.h"
#include "base/hash.h"

#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static fs_status map_descriptor(int fd, const char *what, fs_err *err,
                                onnx_mapping *out)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fs_fail(err, FS_INVALID, "%s: %s", what, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return fs_fail(err, FS_INVALID, "%s: not a regular file", what);
    if (st.st_size == 0)
        return fs_fail(err, FS_INVALID, "%s: byte 0: the file is empty", what);
    out->bytes = (size_t)st.st_size;
    void *data = mmap(NULL, out->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return fs_fail(err, FS_INVALID, "%s: %s", what, strerror(errno));
    out->data = data;
    return FS_OK;
}

static fs_status map_file(const char *path, fs_err *err, onnx_mapping *out)
{
    int fd;
    FS_TRY(fs_input_open(path, err, &fd));
    fs_status status = map_descriptor(fd, path, err, out);
    close(fd);
    return status;
}

static fs_status refuse_location(const char *location, const char *why,
                                 fs_err *err)
{
    return fs_fail(err, FS_INVALID, "external data \"%.80s\": %s", location,
                   why);
}

static bool is_sane_location(const char *location)
{
    if (location[0] == '\0' || location[0] == '/')
        return false;
    for (const char *at = location; at;) {
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == '\0'))
            return false;
        at = strchr(at, '/');
        at = at ? at + 1 : NULL;
    }
    return true;
}

/* Opens a relative location component by component; a symbolic link anywhere
 * below the model's folder is an error, so nothing outside can be reached. */
static int open_below(int folder, char *location)
{
    for (char *at = location; folder >= 0;) {
        char *slash = strchr(at, '/');
        if (slash)
            *slash = '\0';
        int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
        int next = *at ? openat(folder, at, slash ? flags | O_DIRECTORY : flags)
                       : dup(folder);
        int error = errno;
        close(folder);
        errno = error;
        if (!slash || next < 0)
            return next;
        folder = next;
        at = slash + 1;
    }
    return folder;
}

static fs_status map_external(onnx_model *model, const char *location,
                              fs_err *err)
{
    for (int32_t i = 1; i < model->files.n; i++)
        if (strcmp(model->files.at[i].location, location) == 0)
            return FS_OK;
    if (!is_sane_location(location))
        return refuse_location(location,
                               "must be a relative path without \"..\"", err);
    const char *slash = strrchr(model->path, '/');
    char *folder = slash ? fs_strndup(model->arena, model->path,
                                      (size_t)(slash - model->path) + 1)
                         : fs_strdup(model->arena, ".");
    int fd = open_below(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                        fs_strdup(model->arena, location));
    if (fd < 0)
        return refuse_location(location,
                               errno == ELOOP || errno == ENOTDIR
                                   ? "symbolic links are not followed"
                                   : strerror(errno),
                               err);
    onnx_mapping file = {.location = location};
    fs_status status = map_descriptor(fd, location, err, &file);
    close(fd);
    if (status == FS_OK)
        fs_push(model->arena, &model->files, file);
    else
        fs_err_prefix(err, "external data");
    return status;
}

/* Its faults name the model, the node of a tensor that is one's attribute, and
 * the tensor. */
static fs_status map_tensor(onnx_model *model, const onnx_tensor *tensor,
                            const char *node, fs_err *err)
{
    fs_status status = FS_OK;
    if (tensor->external && !tensor->location)
        status = fs_fail(err, FS_INVALID, "external data has no location");
    else if (tensor->external)
        status = map_external(model, tensor->location, err);
    if (status != FS_OK)
        fs_err_prefix(err, "%s: %stensor \"%.80s\"", model->path, node,
                      tensor->name);
    return status;
}

static fs_status map_attributes(onnx_model *model, int32_t i, fs_err *err)
{
    const onnx_node *node = &model->proto.nodes.at[i];
    char name[200];
    snprintf(name, sizeof name, "node %d \"%.80s\" (%.60s): ", i, node->name,
             node->op);
    for (int32_t a = 0; a < node->attrs.n; a++)
        if (node->attrs.at[a].t)
            FS_TRY(map_tensor(model, node->attrs.at[a].t, name, err));
    return FS_OK;
}

static fs_status map_all_external(onnx_model *model, fs_err *err)
{
    const onnx_proto *proto = &model->proto;
    for (int32_t i = 0; i < proto->initializers.n; i++)
        FS_TRY(map_tensor(model, &proto->initializers.at[i], "", err));
    for (int32_t i = 0; i < proto->nodes.n; i++)
        FS_TRY(map_attributes(model, i, err));
    return FS_OK;
}

static fs_status load_initializers(onnx_model *model, fs_err *err)
{
    int32_t n = model->proto.initializers.n;
    onnx_const *init = fs_new(model->arena, onnx_const, n);
    for (int32_t i = 0; i < n; i++)
        FS_TRY(onnx_tensor_load(model, &model->proto.initializers.at[i],
                                model->arena, err, &init[i]));
    model->init = init;
    return FS_OK;
}

static void mark_made(fs_map *made, const onnx_proto *proto)
{
    for (int32_t i = 0; i < proto->inputs.n; i++)
        *fs_map_at(made, proto->inputs.at[i].name) = 1;
    for (int32_t i = 0; i < proto->initializers.n; i++)
        *fs_map_at(made, proto->initializers.at[i].name) = 1;
    for (int32_t i = 0; i < proto->nodes.n; i++)
        for (int32_t k = 0; k < proto->nodes.at[i].out.n; k++)
            *fs_map_at(made, proto->nodes.at[i].out.at[k]) = 1;
}

/* Exporters that leave the parameters out keep only their shapes: a name that
 * nodes read, nobody makes and value_info describes is an input. */
static void adopt_undeclared(onnx_model *model)
{
    onnx_proto *proto = &model->proto;
    fs_map made = {.arena = model->arena}, told = {.arena = model->arena};
    if (proto->values.n == 0)
        return;
    mark_made(&made, proto);
    for (int32_t i = 0; i < proto->values.n; i++)
        if (proto->values.at[i].rank >= 0)
            *fs_map_at(&told, proto->values.at[i].name) = i;
    for (int32_t i = 0; i < proto->nodes.n; i++)
        for (int32_t k = 0; k < proto->nodes.at[i].in.n; k++) {
            const char *name = proto->nodes.at[i].in.at[k];
            int32_t info = name[0] ? fs_map_get(&told, name) : -1;
            if (info < 0 || fs_map_get(&made, name) >= 0)
                continue;
            *fs_map_at(&made, name) = 1;
            fs_push(model->arena, &proto->inputs, proto->values.at[info]);
        }
}

static fs_status read_files(onnx_model *model, fs_err *err)
{
    const onnx_mapping *file = &model->files.at[0];
    FS_TRY(onnx_read_model(fs_wire_open(model->path, file->data, file->bytes),
                           model->arena, err, &model->proto));
    adopt_undeclared(model);
    FS_TRY(map_all_external(model, err));
    FS_TRY(load_initializers(model, err));
    for (int32_t i = 0; i < model->files.n; i++)
        model->digest = fs_hash(model->digest, model->files.at[i].data,
                                model->files.at[i].bytes);
    return FS_OK;
}

fs_status onnx_file_open(const char *path, fs_err *err, onnx_model **out)
{
    onnx_mapping file = {0};
    FS_TRY(map_file(path, err, &file));
    fs_arena *arena = fs_arena_create();
    onnx_model *model = fs_new(arena, onnx_model, 1);
    model->arena = arena;
    model->path = fs_strdup(arena, path);
    fs_push(arena, &model->files, file);
    *out = model;
    return FS_OK;
}

fs_status onnx_model_open(const char *path, fs_err *err, onnx_model **out)
{
    onnx_model *model;
    FS_TRY(onnx_file_open(path, err, &model));
    fs_status status = read_files(model, err);
    if (status != FS_OK)
        onnx_model_close(model);
    else
        *out = model;
    return status;
}

const char *onnx_model_input(const onnx_model *model, int32_t n, int32_t k)
{
    const onnx_proto *proto = &model->proto;
    fs_map init = {.arena = model->arena};
    int32_t plain = 0;
    for (int32_t i = 0; i < proto->initializers.n; i++)
        *fs_map_at(&init, proto->initializers.at[i].name) = i;
    for (int32_t i = 0; i < proto->inputs.n; i++)
        plain += fs_map_get(&init, proto->inputs.at[i].name) < 0;
    for (int32_t i = 0; i < proto->inputs.n; i++)
        if (n > plain || fs_map_get(&init, proto->inputs.at[i].name) < 0)
            if (k-- == 0)
                return proto->inputs.at[i].name;
    return NULL;
}

int32_t onnx_model_outputs(const onnx_model *model)
{
    return model->proto.outputs.n;
}

void onnx_model_close(onnx_model *model)
{
    if (!model)
        return;
    for (int32_t i = 0; i < model->files.n; i++)
        munmap((void *)(uintptr_t)model->files.at[i].data,
               model->files.at[i].bytes);
    fs_arena_destroy(model->arena);
}

fs_status onnx_digest(const char *path, fs_err *err, uint64_t *digest)
{
    onnx_model *model;
    FS_TRY(onnx_model_open(path, err, &model));
    *digest = model->digest;
    onnx_model_close(model);
    return FS_OK;
}

fs_status onnx_lone_operator(const char *path, fs_arena *arena, fs_err *err,
                             const char **out)
{
    onnx_model *model;
    *out = "";
    FS_TRY(onnx_model_open(path, err, &model));
    if (model->proto.nodes.n == 1)
        *out = fs_strdup(arena, model->proto.nodes.at[0].op);
    onnx_model_close(model);
    return FS_OK;
}
