/* Every model of the zoo at a size that the reference kernels run at once. */
#ifndef FS_TESTS_ZOO_TINY_H
#define FS_TESTS_ZOO_TINY_H

#include "interpret.h"

#include "ir/element.h"

static const char *const zoo_tiny[] = {
    "gpt,layers=2,hidden=16,heads=2,vocab=11,seq=6",
    "mlp,in=8,hidden=16,layers=2,classes=5",
    "llama,layers=2,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=11,seq=6",
    "llama,layers=2,hidden=16,heads=4,kv_heads=1,ffn=24,vocab=11,seq=8,"
    "experts=4,active=2,group=4",
    "moe,layers=2,hidden=16,heads=2,vocab=11,seq=8,experts=4,active=2",
    "moe,layers=2,hidden=16,heads=2,vocab=11,seq=8,experts=4,active=1,every=1",
    "bert,layers=2,hidden=16,heads=2,vocab=11,seq=6",
    "t5,layers=2,hidden=16,heads=2,head=8,ffn=24,vocab=11,seq=6,target=5",
    "t5,layers=2,hidden=16,heads=2,head=8,ffn=24,vocab=11,seq=6,target=4,"
    "experts=3",
    "vit,layers=2,hidden=16,heads=2,ffn=24,patch=4,size=8,classes=5",
    "resnet,depth=18,width=4,classes=5,size=32",
    "resnet,depth=50,width=2,classes=5,size=32",
    "vgg,depth=11,width=4,hidden=16,classes=5,size=32",
    "mobilenet,percent=5,classes=5,size=32",
    "efficientnet,percent=5,classes=5,size=32",
    "unet,depth=2,width=4,classes=5,size=8",
    "wide-deep,fields=3,dense=4,rows=20,embedding=4,hidden=16,layers=2",
    "dlrm,tables=10,rows=200,embedding=4,dense=3,bottom=8,top=16",
    "insightface,depth=18,width=4,embedding=8,classes=20,size=16",
    "lstm,layers=2,hidden=16,embedding=8,vocab=11,seq=6",
    "gru,layers=2,hidden=16,embedding=8,vocab=11,seq=6",
};

static inline double zoo_draw_first(const ir_tensor *t, uint64_t seed,
                                    int64_t i)
{
    const uint64_t k = (uint64_t)i;
    switch (t->init.kind) {
    case IR_INIT_CONSTANT:
        return t->init.mean;
    case IR_INIT_NORMAL:
        return t->init.mean + t->init.spread * fs_draw_normal(seed, k);
    case IR_INIT_UNIFORM:
        return t->init.mean + t->init.spread * (2 * fs_draw_unit(seed, k) - 1);
    default:
        return 0;
    }
}

/* Every table has two rows, every loss two classes. */
static inline void zoo_fill(interpreter *in)
{
    for (int32_t i = 0; i < in->graph->tensors.n; i++) {
        const ir_tensor *t = &in->graph->tensors.at[i];
        const uint64_t seed = fs_hash_text(7, t->name);
        const ir_op_kind op = in->graph->nodes.at[t->producer].op;
        const int64_t n = ir_shape_count(&t->shape);
        for (int64_t k = 0; op == IR_OP_variable && k < n; k++)
            ir_element_set_real(t->dtype, in->data[i], k,
                                zoo_draw_first(t, seed, k));
        for (int64_t k = 0; op == IR_OP_input && k < n; k++)
            ir_element_set_real(
                t->dtype, in->data[i], k,
                ir_dtype_is_float(t->dtype)
                    ? fs_draw_normal(seed, (uint64_t)k)
                    : (double)(fs_draw_unit(seed, (uint64_t)k) < 0.5));
    }
}

#endif
