noinst_LIBRARIES += src/onnx/libfs_onnx.a
src_onnx_libfs_onnx_a_SOURCES = src/onnx/import.h src/onnx/message.h \
  src/onnx/file.h src/onnx/context.h src/onnx/inputs.h src/onnx/finish.h \
  src/onnx/shapes.h src/onnx/operators.h src/onnx/import.def src/onnx/read.c src/onnx/file.c src/onnx/tensor.c \
  src/onnx/context.c src/onnx/shapes.c src/onnx/rebatch.c src/onnx/fold.c \
  src/onnx/inputs.c src/onnx/finish.c src/onnx/margin.c src/onnx/import.c src/onnx/op_math.c \
  src/onnx/op_point.c src/onnx/op_random.c \
  src/onnx/op_move.c src/onnx/op_norm.c src/onnx/op_attention.c
src_onnx_libfs_onnx_a_SOURCES += src/onnx/op_reduce.c src/onnx/op_loss.c
src_onnx_libfs_onnx_a_SOURCES += src/onnx/scope.c src/onnx/scope.h \
  src/onnx/join.c src/onnx/join.h src/onnx/op_control.c \
  src/onnx/bags.h src/onnx/op_bags.c src/onnx/declared.h src/onnx/declared.c \
  src/onnx/op_sequence.c src/onnx/op_index.c src/onnx/op_einsum.c src/onnx/op_training.c src/onnx/old_forms.c src/onnx/fold_index.c
EXTRA_DIST += src/onnx/README.md datasets/README.md datasets/models \
  datasets/train_cases datasets/data/moby-dick.txt
src_onnx_libfs_onnx_a_SOURCES += src/onnx/op_recurrent.c
src_onnx_libfs_onnx_a_SOURCES += src/onnx/buffers.c \
  src/onnx/signature.h src/onnx/signature.c src/onnx/signatures.def

check_PROGRAMS += tests/onnx_import_test tests/onnx_inputs_test \
  tests/onnx_operators_test tests/onnx_hostile_test tests/onnx_values_test \
  tests/onnx_attributes_test
tests_onnx_attributes_test_SOURCES = tests/onnx_attributes_test.c \
  tests/onnx_imported.h tests/onnx_make.h tests/tap.h
tests_onnx_attributes_test_LDADD = $(onnx_libs) $(ir_libs)
tests_onnx_import_test_SOURCES = tests/onnx_import_test.c \
  tests/onnx_imported.h tests/onnx_make.h tests/tap.h
tests_onnx_import_test_LDADD = $(onnx_libs) $(ir_libs)
tests_onnx_inputs_test_SOURCES = tests/onnx_inputs_test.c \
  tests/onnx_imported.h tests/onnx_make.h tests/tap.h
tests_onnx_inputs_test_LDADD = $(onnx_libs) $(ir_libs)
tests_onnx_operators_test_SOURCES = tests/onnx_operators_test.c \
  tests/onnx_imported.h tests/onnx_make.h tests/tap.h
tests_onnx_operators_test_LDADD = $(onnx_libs) $(ir_libs)
tests_onnx_hostile_test_SOURCES = tests/onnx_hostile_test.c tests/onnx_make.h \
  tests/tap.h
tests_onnx_hostile_test_LDADD = $(onnx_libs) $(ir_libs)
tests_onnx_values_test_SOURCES = tests/onnx_values_test.c tests/tap.h
tests_onnx_values_test_LDADD = $(onnx_libs) $(kernels_libs) $(ir_libs)

src_onnx_libfs_onnx_a_SOURCES += src/onnx/window.h src/onnx/op_window.c \
  src/onnx/op_pool.c src/onnx/op_space.c src/onnx/op_resize.c src/onnx/op_pad.c
src_onnx_libfs_onnx_a_SOURCES += src/onnx/export.h src/onnx/export.def \
  src/onnx/writer.h src/onnx/export.c src/onnx/export_lines.c \
  src/onnx/export_ops.c src/onnx/export_math.c src/onnx/export_plan.c src/onnx/export_layout.c src/onnx/export_bodies.c src/onnx/export_formula.c src/onnx/export_windows.c \
  src/onnx/export_attention.c src/onnx/export_places.c src/onnx/export_cells.c \
  src/onnx/op_own.c

check_PROGRAMS += tests/onnx_nodes_test
tests_onnx_nodes_test_SOURCES = tests/onnx_nodes_test.c \
  tests/onnx_imported.h tests/onnx_make.h tests/interpret.h tests/tap.h
tests_onnx_nodes_test_LDADD = $(onnx_libs) $(kernels_libs) $(ir_libs)

check_PROGRAMS += tests/onnx_export_test
tests_onnx_export_test_SOURCES = tests/onnx_export_test.c \
  tests/onnx_imported.h tests/onnx_make.h tests/interpret.h tests/tap.h
tests_onnx_export_test_LDADD = $(onnx_libs) $(zoo_libs) $(kernels_libs) \
  $(ir_libs)

check_PROGRAMS += tests/onnx_forms_test
tests_onnx_forms_test_SOURCES = tests/onnx_forms_test.c \
  tests/onnx_imported.h tests/onnx_make.h tests/interpret.h $(op_cases) \
  tests/tap.h
tests_onnx_forms_test_LDADD = $(onnx_libs) $(kernels_libs) $(ir_libs)

check_PROGRAMS += tests/onnx_fold_test
tests_onnx_fold_test_SOURCES = tests/onnx_fold_test.c tests/fold_check.h \
  tests/onnx_imported.h tests/onnx_make.h tests/tap.h
tests_onnx_fold_test_LDADD = $(onnx_libs) $(ir_libs)
