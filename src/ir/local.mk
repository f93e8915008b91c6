noinst_LIBRARIES += src/ir/libfs_ir.a
src_ir_libfs_ir_a_SOURCES = \
  src/ir/tensor.c src/ir/tensor.h \
  src/ir/sbp.c src/ir/sbp.h \
  src/ir/graph.c src/ir/graph.h \
  src/ir/graph_text.c src/ir/graph_check.c src/ir/graph_prune.c \
  src/ir/op.c src/ir/op.h src/ir/ops.def \
  src/ir/op_util.c src/ir/op_util.h src/ir/signatures.c \
  src/ir/op_source.c src/ir/op_view.c src/ir/op_matmul.c \
  src/ir/op_unary.c src/ir/op_binary.c src/ir/op_reduce.c \
  src/ir/op_copy.c src/ir/op_gather.c src/ir/op_softmax.c \
  src/ir/op_norm.c src/ir/op_conv.c src/ir/op_pool.c src/ir/op_update.c \
  src/ir/build.c src/ir/build.h \
  src/ir/backward.c src/ir/backward.h src/ir/train.c src/ir/train.h \
  src/ir/rewrite.c src/ir/rewrite.h
