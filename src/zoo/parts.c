/* What the builders share: names, variables, linear layers, losses. */
#include "config.h"
#include "zoo/model.h"

#include "ir/losses.h"

#include <math.h>

/* ---- names ---- */

zoo_part zoo_whole(const char *name)
{
    return (zoo_part){-1, name, NULL};
}

zoo_part zoo_block(const char *stack, int64_t block, const char *name)
{
    return (zoo_part){block, name, stack};
}

static const char *stack_of(const zoo_part *part)
{
    return part->stack ? part->stack : "blocks";
}

void zoo_scope(ir_graph *graph, zoo_part part)
{
    graph->scope = part.block < 0
                       ? fs_printf(graph->arena, "/%s", part.name)
                       : fs_printf(graph->arena, "/%s.%lld/%s", stack_of(&part),
                                   (long long)part.block, part.name);
}

static const char *variable_name(ir_graph *graph, const zoo_part *part,
                                 const char *what)
{
    char *name = part->block < 0
                     ? fs_printf(graph->arena, "%s.%s", part->name, what)
                     : fs_printf(graph->arena, "%s.%lld.%s.%s", stack_of(part),
                                 (long long)part->block, part->name, what);
    for (char *at = name; *at; at++)
        if (*at == '/')
            *at = '.';
    return name;
}

/* ---- variables ---- */

ir_init zoo_normal(double spread)
{
    return (ir_init){.kind = IR_INIT_NORMAL, .spread = spread};
}

ir_init zoo_constant(double value)
{
    return (ir_init){.kind = IR_INIT_CONSTANT, .mean = value};
}

ir_init zoo_uniform(int64_t fan_in)
{
    return (ir_init){.kind = IR_INIT_UNIFORM,
                     .spread = 1 / sqrt((double)fan_in)};
}

int32_t zoo_parameter(ir_graph *graph, zoo_part part, const char *what,
                      ir_shape shape, ir_init init)
{
    return ir_parameter(graph, variable_name(graph, &part, what), IR_F32, shape,
                        init);
}

int32_t zoo_buffer(ir_graph *graph, zoo_part part, const char *what,
                   ir_shape shape, ir_init init)
{
    ir_variable_spec spec = {
        .role = IR_BUFFER, .dtype = IR_F32, .shape = shape, .init = init};
    return ir_variable(graph, variable_name(graph, &part, what), &spec);
}

ir_shape zoo_vector(int64_t n)
{
    return ir_shape_make(1, &n);
}

ir_shape zoo_matrix(int64_t rows, int64_t columns)
{
    return ir_shape_make(2, (int64_t[]){rows, columns});
}

/* ---- layers ---- */

int32_t zoo_linear(ir_graph *graph, int32_t x, const zoo_linear_spec *spec)
{
    zoo_scope(graph, spec->part);
    int32_t w = zoo_parameter(graph, spec->part, "weight",
                              zoo_matrix(spec->out, spec->in), spec->weight);
    if (spec->unbiased)
        return ir_matmul(graph, x, w, false, true);
    int32_t b = zoo_parameter(graph, spec->part, "bias", zoo_vector(spec->out),
                              spec->bias);
    return ir_binary(graph, IR_OP_add, ir_matmul(graph, x, w, false, true), b);
}

int32_t zoo_dense(ir_graph *graph, int32_t x, zoo_part part, int64_t out)
{
    const ir_shape shape = ir_shape_of(graph, x);
    int64_t in = shape.rank > 0 ? shape.dim[shape.rank - 1] : 1;
    zoo_linear_spec spec = {part, in, out, zoo_uniform(in), zoo_uniform(in),
                            false};
    return zoo_linear(graph, x, &spec);
}

int32_t zoo_embed(ir_graph *graph, int32_t ids, zoo_table *table)
{
    zoo_scope(graph, table->part);
    table->parameter = zoo_parameter(graph, table->part, "weight",
                                     zoo_matrix(table->rows, table->width),
                                     zoo_normal(table->spread));
    return ir_gather(graph, table->parameter, ids);
}

/* ---- inputs and losses ---- */

int32_t zoo_ids(ir_graph *graph, const char *name, int64_t samples,
                int64_t length)
{
    return ir_input(graph, name, IR_I64, zoo_matrix(samples, length), 0);
}

bool zoo_answer(ir_graph *graph, int32_t x, const char *name)
{
    if (!graph->infer)
        return false;
    ir_graph_rename(graph, x, name);
    graph->scope = NULL;
    ir_mark_output(graph, x);
    return true;
}

void zoo_classify(ir_graph *graph, int32_t logits)
{
    if (zoo_answer(graph, logits, "logits"))
        return;
    const ir_shape rows = ir_shape_of(graph, logits);
    int32_t labels =
        ir_input(graph, "labels", IR_I64, zoo_vector(rows.dim[0]), 0);
    zoo_scope(graph, zoo_whole("loss"));
    graph->loss = ir_cross_entropy(graph, logits, labels);
}

void zoo_decide(ir_graph *graph, int32_t logits)
{
    if (zoo_answer(graph, logits, "logits"))
        return;
    const ir_shape rows = ir_shape_of(graph, logits);
    int32_t labels = ir_input(graph, "labels", IR_BOOL, rows, 0);
    zoo_scope(graph, zoo_whole("loss"));
    graph->loss = ir_bce_logits(graph, logits, ir_cast(graph, labels, IR_F32));
}
