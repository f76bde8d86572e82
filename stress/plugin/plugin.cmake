# The libraries of the Dlopen op, plugin/lib<name>.so beside the program; engine/team/dlopen_op.cc has their names.
foreach(plugin IN ITEMS dynamic_tls.c static_tls.c objects.cc base.c dependent.c)
  get_filename_component(name ${plugin} NAME_WE)
  add_library(plugin-${name} MODULE plugin/${plugin})
  target_compile_options(plugin-${name} PRIVATE -Wall -Wextra -fno-builtin)
  set_target_properties(plugin-${name} PROPERTIES OUTPUT_NAME ${name} C_STANDARD 17 CXX_STANDARD 20
    INTERPROCEDURAL_OPTIMIZATION OFF BUILD_RPATH "\$ORIGIN" BUILD_RPATH_USE_ORIGIN ON
    LIBRARY_OUTPUT_DIRECTORY $<TARGET_FILE_DIR:hakmem-stress>/plugin)
  add_dependencies(hakmem-stress plugin-${name})
endforeach()
add_dependencies(plugin-dependent plugin-base)
# Passed as a library, not as an option: a linker with --as-needed drops libraries that come before the objects.
target_link_directories(plugin-dependent PRIVATE $<TARGET_FILE_DIR:hakmem-stress>/plugin)
target_link_libraries(plugin-dependent PRIVATE -l:libbase.so)
