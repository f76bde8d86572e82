# The Debian packages: cmake --workflow --preset debian.
#   libhakmem0     component library
#   libhakmem-dev  component development
#   hakmem-tools   component suite

set(HAKMEM_MAINTAINER "The HAKMEM authors <root@localhost>" CACHE STRING "Maintainer of the Debian packages")
find_program(HAKMEM_GZIP gzip REQUIRED)
set(changelog ${CMAKE_CURRENT_BINARY_DIR}/changelog.gz)
execute_process(COMMAND ${HAKMEM_GZIP} -9nc ${PROJECT_SOURCE_DIR}/docs/changelog.md OUTPUT_FILE ${changelog}
  COMMAND_ERROR_IS_FATAL ANY)
file(READ ${PROJECT_SOURCE_DIR}/LICENSE license)
string(REGEX REPLACE "^MIT License\n\n" "" license "${license}")
string(REGEX MATCH "Copyright [^\n]*" copyright "${license}")
string(REGEX REPLACE "^Copyright [^\n]*\n\n" "" license "${license}")
string(REGEX REPLACE "\n\n" "\n.\n" license "${license}")
string(REGEX REPLACE "\n(.)" "\n \\1" license "\n${license}")
string(REPLACE "Copyright (c) " "" copyright "${copyright}")
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: hakmem

Files: *
Copyright: ${copyright}
License: Expat${license}")
foreach(pair library:libhakmem0 development:libhakmem-dev suite:hakmem-tools)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 package)
  string(TOUPPER ${component} COMPONENT)
  set(CPACK_DEBIAN_${COMPONENT}_PACKAGE_NAME ${package})
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/copyright ${changelog} DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${package}
    COMPONENT ${component})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "${HAKMEM_MAINTAINER}")
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_COMPONENTS_ALL library development suite)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_SUITE_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libhakmem0 (= ${PROJECT_VERSION}), libc6-dev")
set(CPACK_DEBIAN_SUITE_PACKAGE_RECOMMENDS "libhakmem0, gdb")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "A drop-in for malloc by LD_PRELOAD or by linking: libhakmem.so.0, which is
fast, and libhakmem-validate.so.0, the same heap, which names misuse and
corruption.")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Headers, the static library, the override objects, and what CMake and
pkg-config read.")
set(CPACK_COMPONENT_SUITE_DESCRIPTION "hakmem-stress runs any malloc in many threads and checks every block.
hakmem-bench times it. hakmem-run starts a program with libhakmem.")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "multithreaded malloc for Linux, and a test suite for any malloc")
include(CPack)
