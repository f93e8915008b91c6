/* The rows of import.def: handlers, and the arguments that tell apart the
 * operators of one handler. */
#ifndef FS_ONNX_OPERATORS_H
#define FS_ONNX_OPERATORS_H

#include "onnx/context.h"

#include "ir/recurrent.h"

enum { ONNX_RESHAPE, ONNX_FLATTEN, ONNX_SQUEEZE, ONNX_UNSQUEEZE };
/* Folded element-wise operators. */
enum {
    ONNX_ADD,
    ONNX_SUB,
    ONNX_MUL,
    ONNX_DIV,
    ONNX_MOD,
    ONNX_POW,
    ONNX_MIN,
    ONNX_MAX,
    ONNX_EQUAL,
    ONNX_LESS,
    ONNX_LESS_EQUAL,
    ONNX_GREATER,
    ONNX_GREATER_EQUAL,
    ONNX_AND,
    ONNX_OR
};
enum {
    ONNX_NEG,
    ONNX_ABS,
    ONNX_SQRT,
    ONNX_EXP,
    ONNX_LOG,
    ONNX_FLOOR,
    ONNX_CEIL,
    ONNX_RELU,
    ONNX_NOT
};
/* Functions of one formula; Mean, which is no op. */
enum { ONNX_ELU, ONNX_SELU, ONNX_CELU };
enum { ONNX_MEAN_OF = -1 };
enum { ONNX_HANN, ONNX_HAMMING, ONNX_BLACKMAN };
enum {
    ONNX_SUM,
    ONNX_MEAN,
    ONNX_PROD,
    ONNX_REDUCE_MIN,
    ONNX_REDUCE_MAX,
    ONNX_L1,
    ONNX_L2,
    ONNX_LOG_SUM,
    ONNX_LOG_SUM_EXP,
    ONNX_SUM_SQUARE
};

/* Handlers: onnx_import_<name>, onnx_fold_<name>, onnx_arg. */
typedef fs_status onnx_handler(onnx_ctx *c);
typedef struct onnx_row {
    const char *op;
    bool widens;
    onnx_handler *import, *fold;
    int32_t arg, fold_arg;
} onnx_row;
const onnx_row *onnx_find_row(const char *op);

#define ONNX_OP(type, types, import, fold, ...)                                \
    onnx_handler onnx_import_##import, onnx_fold_##fold;
#include "onnx/import.def"
#undef ONNX_OP
onnx_handler onnx_import_own; /* nodes of the domain "flowsearch" */
bool onnx_is_own(const onnx_node *node);

#endif
