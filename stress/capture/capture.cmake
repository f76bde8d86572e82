# capture records any program by a library that is preloaded, plugin/libcapture.so beside the program.
set(CAPTURE_SOURCES capture/convert.cc)
function(capture_recorder)
  add_library(capture-recorder MODULE capture/recorder.c capture/recorder_large.c capture/recorder_operators.c)
  target_include_directories(capture-recorder PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_features(capture-recorder PRIVATE c_std_17)
  # A failed new throws through recorder_operators.c.
  target_compile_options(capture-recorder PRIVATE -O2 -Wall -Wextra -Wshadow -Wconversion -Wundef -fno-builtin -fexceptions)
  target_link_libraries(capture-recorder PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  set_target_properties(capture-recorder PROPERTIES OUTPUT_NAME capture
    LIBRARY_OUTPUT_DIRECTORY $<TARGET_FILE_DIR:hakmem-stress>/plugin)
  add_dependencies(hakmem-stress capture-recorder)
endfunction()
