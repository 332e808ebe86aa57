# One INTERFACE target carries every compile and link option; all of our targets link it.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Debug information costs a third of a build; the preset `package` makes it, as a package of its own.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# Names relative to the checkout let two checkouts share what was compiled; ccache must be told that a precompiled
# header is no source that might use __TIME__.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

# Nor does debug information say where it was made. (Without it nothing does: tests/package/reproducible.)
if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
  add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
endif()

option(FRESHET_WERROR "Warnings are errors" ON)
set(FRESHET_SANITIZE "" CACHE STRING "address,undefined or thread")

add_library(freshet_options INTERFACE)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated)  # ccache names what is there and what is not differently
target_include_directories(freshet_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_compile_options(freshet_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
  -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers -fstack-protector-strong
  -fstack-clash-protection -fno-omit-frame-pointer -fPIE -pthread)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(freshet_options INTERFACE -fcf-protection=full)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports these inside libstdc++ and Asio coroutines, not in our code.
  target_compile_options(freshet_options INTERFACE -Wno-mismatched-new-delete -Wno-array-bounds
    -Wno-restrict -Wno-stringop-overflow)
  target_compile_options(freshet_options INTERFACE -fpch-preprocess)  # without it ccache cannot preprocess
  if(CMAKE_UNITY_BUILD)  # units are included, and GCC takes what is local to one for what a header lets out
    target_compile_options(freshet_options INTERFACE -Wno-subobject-linkage)
  endif()
else()
  set(CMAKE_DISABLE_PRECOMPILE_HEADERS ON)
endif()
if(FRESHET_WERROR)
  target_compile_options(freshet_options INTERFACE -Werror)
endif()
target_compile_definitions(freshet_options INTERFACE _FILE_OFFSET_BITS=64 _GLIBCXX_ASSERTIONS BOOST_ASIO_NO_DEPRECATED
  FRESHET_VERSION="${PROJECT_VERSION}")
if(FRESHET_SANITIZE)
  target_compile_options(freshet_options INTERFACE -fsanitize=${FRESHET_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(freshet_options INTERFACE -fsanitize=${FRESHET_SANITIZE})
  if(FRESHET_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # TSan knows no fences, and GCC says so of each: Asio's, and the scoreboard's, whose words are atomic themselves.
    target_compile_options(freshet_options INTERFACE -Wno-tsan)
  endif()
else()
  target_compile_definitions(freshet_options INTERFACE $<$<NOT:$<CONFIG:Debug>>:_FORTIFY_SOURCE=3>)
  target_link_options(freshet_options INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code -pie)
endif()
