# host_headers(TARGET FOLDER): an interface library with the headers of /usr/include/FOLDER and nothing else from
# /usr/include, which would put the host's libc before the target's.
function(host_headers target folder)
  if(TARGET ${target})
    return()
  endif()
  if(NOT IS_DIRECTORY /usr/include/${folder})
    message(FATAL_ERROR "there is no /usr/include/${folder}, the headers of ${target}: run ci/setup --cross or --musl")
  endif()
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/host-headers)
  file(CREATE_LINK /usr/include/${folder} ${CMAKE_BINARY_DIR}/host-headers/${folder} SYMBOLIC)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/host-headers)
endfunction()
