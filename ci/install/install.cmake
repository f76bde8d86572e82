# What `cmake --install` and cpack put where. Components:
#   library      the shared libraries
#   development  headers, libhakmem.a, the override objects, and what find_package and pkg-config read
#   suite        hakmem-stress, hakmem-bench, hakmem-replay, hakmem-run and hakmem-profile; the first two need no other
#                component, and find the library if that is there
# The suite's program stands with its helpers in libexec, where it looks for them, and bin has a link to it.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(install_folder ${PROJECT_SOURCE_DIR}/ci/install)
set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/hakmem)
set(suite_folder ${CMAKE_INSTALL_LIBEXECDIR}/hakmem)

# hakmem-run finds the libraries from its own place: beside it in the build tree, else as installed.
file(RELATIVE_PATH library_of_bin /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
foreach(program hakmem-run hakmem-profile)
  configure_file(${install_folder}/${program} ${PROJECT_BINARY_DIR}/${program} @ONLY
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endforeach()
install(PROGRAMS ${PROJECT_BINARY_DIR}/hakmem-run ${PROJECT_BINARY_DIR}/hakmem-profile DESTINATION ${CMAKE_INSTALL_BINDIR}
  COMPONENT suite)

# hakmem_install_link(TARGET FOLDER NAME COMPONENT): a link with that name.
function(hakmem_install_link target folder name component)
  set(link ${CMAKE_CURRENT_BINARY_DIR}/links/${component}/${name})
  get_filename_component(parent ${link} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  file(CREATE_LINK ${target} ${link} SYMBOLIC)
  install(FILES ${link} DESTINATION ${folder} COMPONENT ${component})
endfunction()

set(libraries hakmem hakmem-validate)
if(HAKMEM_DL)
  list(APPEND libraries hakmem-dl)
endif()
foreach(library IN LISTS libraries)
  install(FILES $<TARGET_FILE:${library}> DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME lib${library}.so.${PROJECT_VERSION}
    COMPONENT library)
  hakmem_install_link(lib${library}.so.${PROJECT_VERSION} ${CMAKE_INSTALL_LIBDIR} lib${library}.so.${HAKMEM_SOVERSION} library)
endforeach()
install(FILES $<TARGET_FILE:hakmem-nodeepbind> $<TARGET_FILE:hakmem-exit> DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)

# The drop-in for services of systemd names the libraries' folder, which is known when they are installed; in a package it is
# that of the tree. LD_PRELOAD cannot name a folder with a space or a colon: a drop-in with one would be copied and do nothing.
set(drop_in ${CMAKE_CURRENT_BINARY_DIR}/systemd.conf)
set(prefix_of_drop_in "\${CMAKE_INSTALL_PREFIX}")
if(HAKMEM_DEBIAN)
  set(prefix_of_drop_in ${CMAKE_INSTALL_PREFIX})
endif()
install(CODE "set(HAKMEM_FOLDER \"${prefix_of_drop_in}/${CMAKE_INSTALL_LIBDIR}\")
  set(HAKMEM_LIBRARY libhakmem.so.${HAKMEM_SOVERSION})
  if(HAKMEM_FOLDER MATCHES \"[ :]\")
    message(STATUS \"no systemd.conf: LD_PRELOAD cannot name \${HAKMEM_FOLDER}, since it ends names at spaces and colons\")
  else()
    configure_file(\"${install_folder}/systemd.conf.in\" \"${drop_in}\" @ONLY)
    file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATAROOTDIR}/hakmem\" TYPE FILE FILES \"${drop_in}\")
  endif()" COMPONENT library)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/alloc/include/hakmem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
hakmem_install_link(libhakmem.so.${HAKMEM_SOVERSION} ${CMAKE_INSTALL_LIBDIR} libhakmem.so development)
install(FILES ${PROJECT_BINARY_DIR}/libhakmem.a DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(FILES ${PROJECT_BINARY_DIR}/hakmem-override.o ${PROJECT_BINARY_DIR}/hakmem-override-cxx.o
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/hakmem COMPONENT development)
configure_package_config_file(${install_folder}/hakmem-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/hakmem-config.cmake
  INSTALL_DESTINATION ${config_folder} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/hakmem-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/hakmem-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/hakmem-config-version.cmake
  DESTINATION ${config_folder} COMPONENT development)
# Relative to the file itself, so that the folder may be moved.
file(RELATIVE_PATH prefix_of_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" prefix_of_pc "${prefix_of_pc}")
configure_file(${install_folder}/hakmem.pc.in ${CMAKE_CURRENT_BINARY_DIR}/hakmem.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/hakmem.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# A tree for another machine has libraries alone to install: the suite's helpers and the benchmark are not made there.
set(suite OFF)
if(TARGET conform-fresh AND TARGET hakmem-bench)
  set(suite ON)
endif()
if(suite)
  install(PROGRAMS $<TARGET_FILE:hakmem-stress> DESTINATION ${suite_folder} COMPONENT suite)
  foreach(name conform-fresh conform-secure conform-tls conform-static_tls conform-constructor conform-reenter
      conform-begin_once conform-late conform-keys conform-own_new)
    install(PROGRAMS $<TARGET_FILE:${name}> DESTINATION ${suite_folder}/conform COMPONENT suite)
  endforeach()
  foreach(name dynamic_tls static_tls objects base dependent)
    install(PROGRAMS $<TARGET_FILE:plugin-${name}> DESTINATION ${suite_folder}/plugin COMPONENT suite)
  endforeach()
  if(TARGET capture-recorder)
    install(PROGRAMS $<TARGET_FILE:capture-recorder> DESTINATION ${suite_folder}/plugin COMPONENT suite)
  endif()
  install(PROGRAMS $<TARGET_FILE:hakmem-bench> DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT suite)
  file(RELATIVE_PATH up /${CMAKE_INSTALL_BINDIR} /${suite_folder})
  hakmem_install_link(${up}/hakmem-stress ${CMAKE_INSTALL_BINDIR} hakmem-stress suite)
  # --allocator hakmem and validate: beside the program, as in a build tree.
  file(RELATIVE_PATH up /${suite_folder} /${CMAKE_INSTALL_LIBDIR})
  foreach(library hakmem hakmem-validate)
    hakmem_install_link(${up}/lib${library}.so.${HAKMEM_SOVERSION} ${suite_folder} lib${library}.so suite)
  endforeach()
endif()

if(suite AND TARGET replay-calls)
  include(${install_folder}/replay.cmake)
endif()

# Manual pages and completions, made of --help when they are installed; libhakmem(7) of the pages' tables of variables.
set(manual hakmem-run hakmem-profile)
if(suite)
  list(APPEND manual hakmem-stress hakmem-bench)
endif()
if(Python3_Interpreter_FOUND AND NOT CMAKE_CROSSCOMPILING)
  list(TRANSFORM manual PREPEND ${PROJECT_BINARY_DIR}/ OUTPUT_VARIABLE programs)
  if(TARGET replay-calls AND suite)
    list(APPEND manual hakmem-replay)
    list(APPEND programs ${PROJECT_BINARY_DIR}/install/hakmem-replay)
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/manual)
  list(JOIN programs "\" \"" programs)
  install(CODE "execute_process(COMMAND \"${Python3_EXECUTABLE}\" \"${install_folder}/manual\" \"${folder}\"
    ${PROJECT_VERSION} \"${programs}\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT suite)
  install(CODE "execute_process(COMMAND \"${Python3_EXECUTABLE}\" \"${install_folder}/manual\" \"${folder}\"
    ${PROJECT_VERSION} COMMAND_ERROR_IS_FATAL ANY)" COMPONENT library)
  install(FILES ${folder}/libhakmem.7.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man7 COMPONENT library)
  foreach(name IN LISTS manual)
    install(FILES ${folder}/${name}.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT suite)
    install(FILES ${folder}/${name} DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions COMPONENT suite)
  endforeach()
endif()

if(HAKMEM_DEBIAN)
  include(${install_folder}/debian.cmake)
endif()

add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -D "FOLDER=${PROJECT_BINARY_DIR}" -P ${install_folder}/uninstall.cmake VERBATIM)
