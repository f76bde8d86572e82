include(${CMAKE_CURRENT_LIST_DIR}/host_headers.cmake)
host_headers(nlohmann_json::nlohmann_json nlohmann)
set(nlohmann_json_FOUND ${host_headers_found})
