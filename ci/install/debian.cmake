# The Debian packages: cmake --preset debian, then the target package.
#   libhakmem0     component library
#   libhakmem-dev  component development
#   hakmem-tools   component suite

# As Debian's own tools name who packages.
set(maintainer "The HAKMEM authors <root@localhost>")
if(DEFINED ENV{DEBFULLNAME} AND DEFINED ENV{DEBEMAIL})
  set(maintainer "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(HAKMEM_MAINTAINER "${maintainer}" CACHE STRING "Maintainer of the Debian packages; default: DEBFULLNAME <DEBEMAIL>")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(version ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
set(changelog ${CMAKE_CURRENT_BINARY_DIR}/changelog.gz)
execute_process(COMMAND ${HAKMEM_GZIP} -9nc ${PROJECT_SOURCE_DIR}/docs/changelog.md OUTPUT_FILE ${changelog}
  COMMAND_ERROR_IS_FATAL ANY)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/changelog.Debian "hakmem (${version}) unstable; urgency=medium

  * Packaged by CPack; changelog.gz has the changes.

 -- ${HAKMEM_MAINTAINER}  ${date}
")
execute_process(COMMAND ${HAKMEM_GZIP} -9nf ${CMAKE_CURRENT_BINARY_DIR}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)
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
set(changelog_debian ${CMAKE_CURRENT_BINARY_DIR}/changelog.Debian.gz)
foreach(pair library:libhakmem0 development:libhakmem-dev suite:hakmem-tools)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 package)
  string(TOUPPER ${component} COMPONENT)
  set(CPACK_DEBIAN_${COMPONENT}_PACKAGE_NAME ${package})
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/copyright ${changelog} ${changelog_debian}
    DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${package} COMPONENT ${component})
  # Symbols of programs and shared libraries; not those of libhakmem.a and the override objects, which are linked.
  install(CODE [[
    foreach(file IN LISTS CMAKE_INSTALL_MANIFEST_FILES)
      set(file "$ENV{DESTDIR}${file}")
      if(file MATCHES "[.][ao]$" OR IS_SYMLINK "${file}")
        continue()
      endif()
      file(READ "${file}" magic LIMIT 4 HEX)
      if(magic STREQUAL "7f454c46")
        execute_process(COMMAND strip --strip-unneeded -R .comment "${file}" COMMAND_ERROR_IS_FATAL ANY)
      endif()
    endforeach()
  ]] COMPONENT ${component})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "${HAKMEM_MAINTAINER}")
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_COMPONENTS_ALL library development suite)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS would call ldconfig in scripts, which Debian leaves to a trigger.
set(shlibs "")
foreach(library IN LISTS libraries)
  string(APPEND shlibs "lib${library} ${HAKMEM_SOVERSION} libhakmem0 (>= ${PROJECT_VERSION})\n")
endforeach()
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/debian/shlibs "${shlibs}")
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA
  "${CMAKE_CURRENT_BINARY_DIR}/debian/shlibs;${CMAKE_CURRENT_BINARY_DIR}/debian/triggers")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_SUITE_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libhakmem0 (= ${version}), libc6-dev")
set(CPACK_DEBIAN_SUITE_PACKAGE_RECOMMENDS "libhakmem0, gdb, python3, binutils")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "A drop-in for malloc by LD_PRELOAD or by linking: libhakmem.so.0, which is
fast, and libhakmem-validate.so.0, the same heap, which names misuse and
corruption.")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Headers, the static library, the override objects, and what CMake and
pkg-config read.")
set(CPACK_COMPONENT_SUITE_DESCRIPTION "hakmem-stress runs any malloc in many threads and checks every block.
hakmem-bench times it. hakmem-run starts a program with libhakmem, and
hakmem-profile shows its heap profiles. hakmem-replay names the function
that made a program crash.")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "multithreaded malloc for Linux, and a test suite for any malloc")
include(CPack)
