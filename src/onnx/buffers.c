/* Float initializers that are no parameters though nothing in the file says so:
 * the frequencies of position embeddings, which reach the network only as
 * sines and cosines of constants times them. (Running statistics are told by
 * batch normalisation.) */
#include "config.h"
#include "onnx/finish.h"
#include "onnx/scope.h"

#include <string.h>

typedef struct marks {
    const ir_graph *graph;
    bool *still;  /* [tensor] made of constants and variables only */
    bool *used;   /* [tensor] */
    bool *beyond; /* [tensor] used by more than sines of it */
} marks;

static bool is_wave(const ir_node *node)
{
    return node->op == IR_OP_sin || node->op == IR_OP_cos;
}

static void mark_still(marks *m, const ir_node *node)
{
    bool still = node->op != IR_OP_input;
    for (int32_t i = 0; i < node->n_in; i++)
        still = still && m->still[node->in[i]];
    for (int32_t i = 0; i < node->n_out; i++)
        m->still[node->out[i]] = still;
}

/* Consumers first. */
static void mark_beyond(marks *m, const ir_node *node)
{
    bool beyond = node->n_out == 0;
    for (int32_t i = 0; i < node->n_out; i++)
        beyond = beyond || !m->still[node->out[i]] ||
                 (!is_wave(node) &&
                  (m->beyond[node->out[i]] || !m->used[node->out[i]]));
    for (int32_t i = 0; i < node->n_in; i++) {
        m->used[node->in[i]] = true;
        m->beyond[node->in[i]] |= beyond;
    }
}

/* A tensor of the graph by its name in the file, or -1. */
static int32_t tensor_called(onnx_ctx *c, const char *name)
{
    int32_t id = onnx_find(c, name);
    return id < 0 || c->values.at[id].refused || c->values.at[id].sequence
               ? -1
               : c->values.at[id].tensor;
}

static const char mark[] = "flowsearch.buffer.";

/* An export says which variables are buffers, and what they become. */
void onnx_restore_buffers(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    for (int32_t i = 0; i < c->model->proto.notes.n; i++) {
        const onnx_note_pair *note = &c->model->proto.notes.at[i];
        if (strncmp(note->key, mark, sizeof mark - 1) != 0)
            continue;
        int32_t t = tensor_called(c, note->key + sizeof mark - 1);
        int32_t next = tensor_called(c, note->value);
        if (t < 0 ||
            g->nodes.at[g->tensors.at[t].producer].op != IR_OP_variable)
            continue;
        ir_tensor *buffer = &g->tensors.at[t];
        buffer->role = IR_BUFFER;
        if (next >= 0 && buffer->next < 0 &&
            g->tensors.at[next].dtype == buffer->dtype &&
            ir_shape_equal(&g->tensors.at[next].shape, &buffer->shape))
            buffer->next = next;
    }
}

void onnx_drop_states(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    fs_arena *scratch = fs_arena_create();
    bool *used = fs_new(scratch, bool, g->tensors.n);
    bool *keep = fs_new(scratch, bool, g->nodes.n);
    int32_t n = 0;
    for (int32_t v = 0; v < g->nodes.n; v++) {
        keep[v] = true;
        for (int32_t i = 0; i < g->nodes.at[v].n_in; i++)
            used[g->nodes.at[v].in[i]] = true;
    }
    for (int32_t i = 0; i < c->model->proto.notes.n; i++) {
        const onnx_note_pair *note = &c->model->proto.notes.at[i];
        if (strncmp(note->key, mark, sizeof mark - 1) != 0 || note->value[0])
            continue;
        int32_t t = ir_graph_find(g, note->key + sizeof mark - 1);
        if (t < 0 || used[t] || g->tensors.at[t].role != IR_BUFFER)
            continue;
        keep[g->tensors.at[t].producer] = false;
        n++;
    }
    if (n > 0)
        ir_graph_keep(g, keep);
    fs_arena_destroy(scratch);
}

void onnx_find_buffers(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    fs_arena *scratch = fs_arena_create();
    marks m = {g, fs_new(scratch, bool, g->tensors.n),
               fs_new(scratch, bool, g->tensors.n),
               fs_new(scratch, bool, g->tensors.n)};
    for (int32_t v = 0; v < g->nodes.n; v++)
        mark_still(&m, &g->nodes.at[v]);
    for (int32_t v = g->nodes.n - 1; v >= 0; v--)
        mark_beyond(&m, &g->nodes.at[v]);
    for (int32_t t = 0; t < g->tensors.n; t++) {
        if (g->tensors.at[t].role != IR_PARAM || !m.used[t] || m.beyond[t])
            continue;
        g->tensors.at[t].role = IR_BUFFER;
        onnx_note(c,
                  "%s gives only the frequencies of sines: it is not trained",
                  g->tensors.at[t].name);
    }
    fs_arena_destroy(scratch);
}
