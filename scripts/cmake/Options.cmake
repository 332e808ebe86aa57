# All our targets link this INTERFACE target, which carries the compile and link options.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Debug information costs a third of the build time; the preset `package` builds it as a separate package.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# Paths relative to the checkout let two checkouts share ccache's results. ccache must be told that a precompiled header
# does not use __TIME__.
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

# Keep the build path out of debug information. (Nothing else contains it: tests/package/reproducible.)
if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
  add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
endif()

option(FRESHET_WERROR "Warnings are errors" ON)
set(FRESHET_SANITIZE "" CACHE STRING "address,undefined or thread")

add_library(freshet_options INTERFACE)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/generated)  # ccache names existing and missing folders differently
target_include_directories(freshet_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_compile_options(freshet_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
  -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers -fstack-protector-strong
  -fstack-clash-protection -fno-omit-frame-pointer -fPIE -pthread)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(freshet_options INTERFACE -fcf-protection=full)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False positives of GCC 12 inside libstdc++ and Asio coroutines.
  target_compile_options(freshet_options INTERFACE -Wno-mismatched-new-delete -Wno-array-bounds
    -Wno-restrict -Wno-stringop-overflow)
  target_compile_options(freshet_options INTERFACE -fpch-preprocess)  # needed by ccache
  if(CMAKE_UNITY_BUILD)  # in a unity build GCC mistakes file-local types for types of a header
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
    # TSan does not support fences, and GCC warns about each: those of Asio, and those of the scoreboard, whose words
    # are atomic.
    target_compile_options(freshet_options INTERFACE -Wno-tsan)
  endif()
else()
  target_compile_definitions(freshet_options INTERFACE $<$<NOT:$<CONFIG:Debug>>:_FORTIFY_SOURCE=3>)
  target_link_options(freshet_options INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code -pie)
endif()
