noinst_LIBRARIES += src/ir/libfs_ir.a
src_ir_libfs_ir_a_SOURCES = \
  src/ir/tensor.c src/ir/tensor.h src/ir/dtypes.def \
  src/ir/element.c src/ir/element.h \
  src/ir/first_values.c src/ir/first_values.h \
  src/ir/sbp.c src/ir/sbp.h \
  src/ir/graph.c src/ir/graph.h \
  src/ir/graph_text.c src/ir/graph_check.c src/ir/graph_prune.c \
  src/ir/op.c src/ir/op.h src/ir/ops.def src/ir/functions.def \
  src/ir/op_util.c src/ir/op_util.h src/ir/signatures.c src/ir/tiles.c src/ir/tiles.h \
  src/ir/words.c src/ir/words.h \
  src/ir/works.c src/ir/works.h \
  src/ir/op_source.c src/ir/op_view.c src/ir/op_matmul.c \
  src/ir/op_random.c src/ir/op_unary.c src/ir/op_binary.c src/ir/op_reduce.c \
  src/ir/op_copy.c src/ir/op_gather.c src/ir/op_softmax.c \
  src/ir/op_index.c src/ir/op_along.c src/ir/op_loss.c src/ir/op_loss_rows.c \
  src/ir/losses.c src/ir/losses.h \
  src/ir/op_norm.c src/ir/op_batch_norm.c src/ir/op_conv.c src/ir/op_pool.c src/ir/op_update.c \
  src/ir/window.h src/ir/window.c \
  src/ir/op_resample.c src/ir/op_grid.c \
  src/ir/build.c src/ir/build.h \
  src/ir/backward.c src/ir/backward.h src/ir/train.c src/ir/train.h src/ir/optimizers.def \
  src/ir/narrow_states.c src/ir/narrow_states.h src/ir/states.def \
  src/ir/loss_groups.c src/ir/loss_groups.h \
  src/ir/compress.c src/ir/compress.h src/ir/compress.def src/ir/op_compress.c \
  src/ir/rate.c src/ir/rate.h src/ir/clip.c src/ir/clip.h \
  src/ir/recompute.c src/ir/recompute.h src/ir/recompute.def src/ir/recompute_choose.c src/ir/recompute_casts.c \
  src/ir/recompute_core.h src/ir/recompute_core.c \
  src/ir/rewrite_fold.c \
  src/ir/samples.c src/ir/samples.h src/ir/sample_axes.c src/ir/blocks.c src/ir/blocks.h \
  src/ir/blocks_alike.c src/ir/blocks_parts.h \
  src/ir/layers.c src/ir/layers.h src/ir/layers_parts.h \
  src/ir/layers_check.c src/ir/fold.c src/ir/resize.c src/ir/resize.h \
  src/ir/compact.c src/ir/compact.h \
  src/ir/rewrite.c src/ir/rewrite.h src/ir/rewrites.def \
  src/ir/rewrite_match.c src/ir/rewrite_match.h src/ir/rewrite_common.c src/ir/rewrite_shared.c \
  src/ir/rewrite_attention.c src/ir/rewrite_precision.c \
  src/ir/precision.h src/ir/precision.def src/ir/loss_scale.c src/ir/loss_scale.h \
  src/ir/rewrite_chain.c src/ir/op_chain.c src/ir/chain.h \
  src/ir/op_attention.c src/ir/op_rotary.c src/ir/rewrite_gelu.c \
  src/ir/rewrite_apart.c src/ir/rewrite_norm.c src/ir/rewrite_parts.c \
  src/ir/rewrite_rotary.c src/ir/rewrite_steps.c
src_ir_libfs_ir_a_SOURCES += src/ir/op_recurrent.c src/ir/recurrent.h \
  src/ir/activations.def

check_PROGRAMS += tests/ir_compress_test
tests_ir_compress_test_SOURCES = tests/ir_compress_test.c tests/tap.h
tests_ir_compress_test_LDADD = $(ir_libs)
check_PROGRAMS += tests/ir_rate_test tests/ir_samples_test tests/ir_blocks_test tests/ir_sbp_test tests/ir_signatures_test \
  tests/ir_graph_test tests/ir_train_test tests/ir_rewrite_test \
  tests/ir_rewrite_attention_test
tests_ir_samples_test_SOURCES = tests/ir_samples_test.c tests/tap.h
tests_ir_samples_test_LDADD = $(ir_libs)
tests_ir_blocks_test_SOURCES = tests/ir_blocks_test.c tests/tap.h
tests_ir_blocks_test_LDADD = $(ir_libs)
tests_ir_rate_test_SOURCES = tests/ir_rate_test.c tests/tap.h
tests_ir_rate_test_LDADD = $(ir_libs)
tests_ir_sbp_test_SOURCES = tests/ir_sbp_test.c tests/tap.h
tests_ir_sbp_test_LDADD = $(ir_libs)
tests_ir_signatures_test_SOURCES = tests/ir_signatures_test.c \
  $(op_cases) tests/tap.h
tests_ir_signatures_test_LDADD = $(ir_libs)
tests_ir_graph_test_SOURCES = tests/ir_graph_test.c tests/tap.h
tests_ir_graph_test_LDADD = $(ir_libs)
tests_ir_train_test_SOURCES = tests/ir_train_test.c tests/tap.h
tests_ir_train_test_LDADD = $(ir_libs)
tests_ir_rewrite_attention_test_SOURCES = tests/ir_rewrite_attention_test.c \
  tests/rewritten.h tests/interpret.h tests/tap.h
tests_ir_rewrite_attention_test_LDADD = $(kernels_libs) $(ir_libs)
tests_ir_rewrite_test_SOURCES = tests/ir_rewrite_test.c tests/rewritten.h \
  tests/interpret.h \
  tests/tap.h
tests_ir_rewrite_test_LDADD = $(kernels_libs) $(ir_libs)
check_PROGRAMS += tests/ir_rewrite_steps_test
tests_ir_rewrite_steps_test_SOURCES = tests/ir_rewrite_steps_test.c \
  tests/zoo_build.h tests/interpret_fill.h tests/interpret.h tests/tap.h
tests_ir_rewrite_steps_test_LDADD = $(zoo_libs) $(kernels_libs) $(ir_libs)
check_PROGRAMS += tests/ir_losses_test
tests_ir_losses_test_SOURCES = tests/ir_losses_test.c tests/interpret.h \
  tests/tap.h
tests_ir_losses_test_LDADD = $(kernels_libs) $(ir_libs)
check_PROGRAMS += tests/ir_fold_test tests/ir_layers_test
tests_ir_layers_test_SOURCES = tests/ir_layers_test.c tests/fold_check.h \
  tests/tap.h
tests_ir_layers_test_LDADD = $(ir_libs)
tests_ir_fold_test_SOURCES = tests/ir_fold_test.c tests/fold_check.h \
  tests/zoo_build.h tests/tap.h
tests_ir_fold_test_LDADD = $(zoo_libs) $(ir_libs)
EXTRA_DIST += src/ir/README.md
check_PROGRAMS += tests/ir_works_test
tests_ir_works_test_SOURCES = tests/ir_works_test.c tests/zoo_build.h \
  tests/zoo_tiny.h tests/tap.h
tests_ir_works_test_LDADD = $(zoo_libs) $(ir_libs)
