# Precompiled headers: external headers that most sources of a library include. Each source still includes what it uses;
# the preset `lint` builds without them.
# Keep the list short: the compiler maps the whole file for each source, and ccache reads it.
set(standard_headers <algorithm> <array> <charconv> <chrono> <cmath> <cstdint> <cstring> <functional> <limits> <map>
    <memory> <optional> <span> <string> <string_view> <unordered_map> <utility> <vector> <tl/expected.hpp>)

# freshet_precompiled(NAME HEADER…): adds a target whose precompiled header others share with freshet_use_precompiled.
function(freshet_precompiled name)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp CONTENT "")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE freshet_options)
  target_precompile_headers(${name} PRIVATE ${standard_headers} ${ARGN})
endfunction()

# freshet_use_precompiled(NAME TARGET…): the targets must be compiled with the same options as NAME.
function(freshet_use_precompiled name)
  foreach(target ${ARGN})
    target_precompile_headers(${target} REUSE_FROM ${name})
  endforeach()
endfunction()
