noinst_LIBRARIES += src/ir/libfs_ir.a
src_ir_libfs_ir_a_SOURCES =
