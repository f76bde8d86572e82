# hakmem-replay is ci/replay as it is installed: its help is that of ci/replay, its work that of stress/crash/replay.

file(READ ${PROJECT_SOURCE_DIR}/ci/replay text)
string(REGEX MATCH "# usage:.*\n# Exit status[^\n]*(\n#[^\n]*)*" help "${text}")
string(REGEX REPLACE "\n# +\\[" " [" help "${help}") # one line of usage
string(REGEX REPLACE "\n#   --build DIR[^\n]*" "" help "${help}")
string(REPLACE " [--build DIR]" "" help "${help}")
string(REPLACE "ci/replay" "hakmem-replay" help "${help}")
if(NOT help MATCHES "^# usage: hakmem-replay REPORT .*--method.*Exit status")
  message(FATAL_ERROR "the head of ci/replay is not as ci/install/replay.cmake expects it")
endif()
file(RELATIVE_PATH suite_of_bin /${CMAKE_INSTALL_BINDIR} /${suite_folder})
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/install/hakmem-replay @ONLY CONTENT [[#!/bin/sh
@help@
set -eu

case ${1-} in --help | -h) sed -n '2,/^set -eu/{/^#/s/^# \{0,1\}//p;}' "$0"; exit 0 ;; esac
command -v python3 >/dev/null || { echo "hakmem-replay: python3 is not here: install it" >&2; exit 2; }
self=$(readlink -f -- "$0")
exec python3 -BIS "${self%/*}/@suite_of_bin@/replay" "$@" # B: or a package would leave __pycache__ behind
]])
file(CHMOD ${PROJECT_BINARY_DIR}/install/hakmem-replay PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
  WORLD_READ WORLD_EXECUTE)
install(PROGRAMS ${PROJECT_BINARY_DIR}/install/hakmem-replay DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT suite)
install(FILES $<TARGET_FILE:replay-calls> DESTINATION ${suite_folder} COMPONENT suite)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/stress/crash/replay DESTINATION ${suite_folder} COMPONENT suite
  FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
