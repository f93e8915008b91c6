noinst_LIBRARIES += src/onnx/libfs_onnx.a
src_onnx_libfs_onnx_a_SOURCES =
