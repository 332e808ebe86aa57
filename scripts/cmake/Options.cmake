# One INTERFACE target carries every compile and link option; all of our targets link it.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

option(FRESHET_WERROR "Warnings are errors" ON)
set(FRESHET_SANITIZE "" CACHE STRING "address,undefined or thread")

add_library(freshet_options INTERFACE)
target_include_directories(freshet_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_compile_options(freshet_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
  -Wnon-virtual-dtor -Woverloaded-virtual -Wno-missing-field-initializers -fstack-protector-strong
  -fstack-clash-protection -fno-omit-frame-pointer)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(freshet_options INTERFACE -fcf-protection=full)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports these inside libstdc++ and Asio coroutines, not in our code.
  target_compile_options(freshet_options INTERFACE -Wno-mismatched-new-delete)
endif()
if(FRESHET_WERROR)
  target_compile_options(freshet_options INTERFACE -Werror)
endif()
target_compile_definitions(freshet_options INTERFACE _GLIBCXX_ASSERTIONS BOOST_ASIO_NO_DEPRECATED
  FRESHET_VERSION="${PROJECT_VERSION}")
if(FRESHET_SANITIZE)
  target_compile_options(freshet_options INTERFACE -fsanitize=${FRESHET_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(freshet_options INTERFACE -fsanitize=${FRESHET_SANITIZE})
else()
  target_compile_definitions(freshet_options INTERFACE $<$<NOT:$<CONFIG:Debug>>:_FORTIFY_SOURCE=3>)
  target_link_options(freshet_options INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code -pie)
endif()
