# Third-party packages, in the versions of Debian 12 or later; scripts/deps lists the package names.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
# Boost's own package configuration where it is installed; CMake's FindBoost is deprecated (CMP0167).
if(POLICY CMP0167)
  cmake_policy(SET CMP0167 NEW)
endif()
find_package(Boost 1.74 REQUIRED)
find_package(tl-expected REQUIRED)
find_package(spdlog REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)  # 3.4 on Debian 12 and 13
find_package(OpenSSL REQUIRED)
pkg_check_modules(hiredis REQUIRED IMPORTED_TARGET hiredis)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(systemd REQUIRED IMPORTED_TARGET libsystemd)
pkg_check_modules(sqlite REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(xapian REQUIRED IMPORTED_TARGET xapian-core)
pkg_check_modules(icu REQUIRED IMPORTED_TARGET icu-uc)
pkg_check_modules(icu_i18n REQUIRED IMPORTED_TARGET icu-i18n)  # only when building
pkg_check_modules(libxml REQUIRED IMPORTED_TARGET libxml-2.0)
pkg_check_modules(md4c REQUIRED IMPORTED_TARGET md4c)
pkg_check_modules(curl REQUIRED IMPORTED_TARGET libcurl)  # only freshetctl
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(yaml_cpp REQUIRED IMPORTED_TARGET yaml-cpp)  # 0.7 on Debian 12, 0.8 on Debian 13
# Not by pkg-config, which needs 15 s to resolve all of Abseil on Debian 13.
find_library(RE2_LIBRARY re2 REQUIRED)
find_path(RAPIDJSON_INCLUDE_DIR rapidjson/reader.h REQUIRED)
find_path(FCGI_INCLUDE_DIR fcgiapp.h REQUIRED)
find_library(FCGI_STATIC_LIBRARY libfcgi.a REQUIRED)

# libfcgi is linked statically, so the fix for CVE-2025-23016 must be present at build time; no package dependency could
# ensure it.
find_program(DPKG_QUERY dpkg-query)
if(DPKG_QUERY)
  execute_process(COMMAND ${DPKG_QUERY} -W -f "\${Version}" libfcgi-dev OUTPUT_VARIABLE fcgi_version ERROR_QUIET)
  execute_process(COMMAND dpkg --compare-versions "${fcgi_version}" ge 2.4.2-2+deb12u1 RESULT_VARIABLE fcgi_is_old)
  if(fcgi_version AND fcgi_is_old)
    message(FATAL_ERROR "libfcgi-dev ${fcgi_version} has CVE-2025-23016; 2.4.2-2+deb12u1 does not")
  endif()
endif()
