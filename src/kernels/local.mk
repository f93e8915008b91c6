noinst_LIBRARIES += src/kernels/libfs_kernels.a
src_kernels_libfs_kernels_a_SOURCES = src/kernels/kernel.h \
  src/kernels/evaluate.h src/kernels/evaluate.c src/kernels/kernel.c src/kernels/tiled.h src/kernels/tiled.c src/kernels/table.h src/kernels/loops.h \
  src/kernels/loops.c src/kernels/math.h src/kernels/real_f32.h \
  src/kernels/real_f64.h src/kernels/indices.h src/kernels/indices.c \
  src/kernels/matmul.h src/kernels/window.h src/kernels/cpu_binary.c \
  src/kernels/cpu_binary.inc src/kernels/cpu_chain.c src/kernels/cpu_pointwise.c \
  src/kernels/cpu_pointwise.inc src/kernels/functions.inc src/kernels/cpu_random.c src/kernels/cpu_random.inc src/kernels/cpu_select.c src/kernels/cpu_cast.c src/kernels/cpu_cast.inc \
  src/kernels/cpu_matmul.c src/kernels/cpu_matmul.inc \
  src/kernels/cpu_reduce.c src/kernels/cpu_reduce.inc \
  src/kernels/cpu_softmax.c src/kernels/cpu_softmax.inc \
  src/kernels/cpu_attention.c src/kernels/cpu_attention.inc \
  src/kernels/attention.h src/kernels/attention.c src/kernels/dnnl_attention.c \
  src/kernels/cpu_rotary.c src/kernels/cpu_rotary.inc \
  src/kernels/cpu_batch_norm.c src/kernels/cpu_batch_norm.inc \
  src/kernels/cpu_compress.c src/kernels/cpu_compress.inc \
  src/kernels/cpu_along.c src/kernels/cpu_along.inc \
  src/kernels/cpu_loss.c src/kernels/cpu_loss.inc \
  src/kernels/cpu_norm.c src/kernels/cpu_norm.inc src/kernels/cpu_move.c \
  src/kernels/cpu_gather.c src/kernels/cpu_index.c src/kernels/cpu_gather.inc \
  src/kernels/cpu_conv.c src/kernels/cpu_conv.inc src/kernels/cpu_pool.c \
  src/kernels/cpu_pool.inc \
  src/kernels/cpu_resample.c src/kernels/cpu_resample.inc \
  src/kernels/cpu_grid.c src/kernels/cpu_grid.inc src/kernels/cpu_update.c \
  src/kernels/cpu_update.inc src/kernels/dnnl_call.h \
  src/kernels/dnnl_call.c src/kernels/product.h src/kernels/product.c \
  src/kernels/product.inc src/kernels/packed_matmul.c src/kernels/dnnl_matmul.c src/kernels/dnnl_conv.c \
  src/kernels/layout.h src/kernels/layout.c src/kernels/cpu_blocked.c
# Neither errno nor floating point traps are looked at; keeping them exact
# would forbid vector code. Infinities and NaN stay exact. Integers wrap.
src_kernels_libfs_kernels_a_CFLAGS = $(AM_CFLAGS) -fno-math-errno \
  -fno-trapping-math -fwrapv
src_kernels_libfs_kernels_a_SOURCES += src/kernels/cpu_recurrent.c \
  src/kernels/cpu_recurrent.inc src/kernels/cpu_activation.inc

check_PROGRAMS += tests/kernels_grad_test
tests_kernels_grad_test_SOURCES = tests/kernels_grad_test.c tests/tap.h \
  tests/interpret.h $(op_cases)
tests_kernels_grad_test_LDADD = $(kernels_libs) $(ir_libs)
check_PROGRAMS += tests/kernels_sbp_test
tests_kernels_sbp_test_SOURCES = tests/kernels_sbp_test.c tests/tap.h \
  tests/op_cut.c tests/op_cut.h tests/interpret.h $(op_cases)
tests_kernels_sbp_test_LDADD = $(kernels_libs) $(ir_libs)
check_PROGRAMS += tests/kernels_compress_test
tests_kernels_compress_test_SOURCES = tests/kernels_compress_test.c \
  tests/tap.h
tests_kernels_compress_test_LDADD = $(kernels_libs) $(ir_libs)
check_PROGRAMS += tests/kernels_product_test
tests_kernels_product_test_SOURCES = tests/kernels_product_test.c tests/tap.h
tests_kernels_product_test_LDADD = $(kernels_libs) $(ir_libs)
check_PROGRAMS += tests/kernels_math_test tests/kernels_dnnl_test \
  tests/kernels_update_test tests/kernels_states_test
tests_kernels_math_test_SOURCES = tests/kernels_math_test.c tests/tap.h
tests_kernels_math_test_LDADD = -lm
tests_kernels_dnnl_test_SOURCES = tests/kernels_dnnl_test.c tests/tap.h \
  tests/interpret.h $(op_cases)
tests_kernels_dnnl_test_LDADD = $(kernels_libs) $(ir_libs)
tests_kernels_update_test_SOURCES = tests/kernels_update_test.c tests/tap.h
tests_kernels_update_test_LDADD = $(kernels_libs) $(ir_libs)
tests_kernels_states_test_SOURCES = tests/kernels_states_test.c tests/tap.h
tests_kernels_states_test_LDADD = $(kernels_libs) $(ir_libs)
check_PROGRAMS += tests/kernels_chain_test
tests_kernels_chain_test_SOURCES = tests/kernels_chain_test.c $(op_cases) \
  tests/interpret.h tests/tap.h
tests_kernels_chain_test_LDADD = $(kernels_libs) $(ir_libs)
check_PROGRAMS += tests/kernels_float_test tests/kernels_point_test \
  tests/kernels_tiles_test
tests_kernels_tiles_test_SOURCES = tests/kernels_tiles_test.c tests/tap.h \
  tests/interpret.h $(op_cases)
tests_kernels_tiles_test_LDADD = $(kernels_libs) $(ir_libs)
tests_kernels_point_test_SOURCES = tests/kernels_point_test.c tests/tap.h \
  tests/interpret.h
tests_kernels_point_test_LDADD = $(kernels_libs) $(ir_libs)
tests_kernels_float_test_SOURCES = tests/kernels_float_test.c tests/tap.h \
  tests/interpret.h $(op_cases)
tests_kernels_float_test_LDADD = $(kernels_libs) $(ir_libs)

check_PROGRAMS += tests/kernels_blocked_test
tests_kernels_blocked_test_SOURCES = tests/kernels_blocked_test.c \
  tests/interpret.h tests/tap.h
tests_kernels_blocked_test_LDADD = $(kernels_libs) $(ir_libs)
check_PROGRAMS += tests/kernels_unlisted_test
tests_kernels_unlisted_test_SOURCES = tests/kernels_unlisted_test.c \
  tests/tap.h tests/op_cut.c tests/op_cut.h tests/interpret.h $(op_cases)
tests_kernels_unlisted_test_LDADD = $(kernels_libs) $(ir_libs)
EXTRA_DIST += tests/unlisted.tsv

EXTRA_DIST += src/kernels/README.md
