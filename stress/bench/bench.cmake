# hakmem-bench, and the tiny program of its memory rows. Neither links the engine, whose loops cost more than a malloc.
# Sanitizer trees have neither, since they have no library to preload.
if(STRESS_SANITIZED)
  return()
endif()

add_executable(hakmem-bench
  bench/handover.cc
  bench/larson.cc
  bench/local.cc
  bench/main.cc
  bench/mstress.cc
  bench/output.cc
  bench/patterns.cc
  bench/rows.cc
  bench/rss.cc
  bench/status.cc
  bench/team.cc
  engine/base/file.cc)
hakmem_read_once(bench/main.cc bench/output.cc)
add_executable(hakmem-bench-tiny bench/tiny.c)
set(bench_options -Wall -Wextra -Wshadow -Wconversion -Wundef
  # Keeps the compiler from dropping the very calls that are measured.
  -fno-builtin-malloc -fno-builtin-free)
target_include_directories(hakmem-bench PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_features(hakmem-bench PRIVATE cxx_std_20)
target_compile_options(hakmem-bench PRIVATE ${bench_options})
target_compile_options(hakmem-bench-tiny PRIVATE ${bench_options})
target_link_libraries(hakmem-bench PRIVATE fmt::fmt CLI11::CLI11 nlohmann_json::nlohmann_json Threads::Threads
  ${CMAKE_DL_LIBS})

add_library(bench-count MODULE bench/count_for_test.c)
target_compile_options(bench-count PRIVATE -Wall -Wextra -Wshadow -Wconversion -Wundef -fno-builtin)
set_target_properties(bench-count PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
add_dependencies(hakmem-bench bench-count)
