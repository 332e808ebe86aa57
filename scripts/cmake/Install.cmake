# Install paths and the Debian package: `cpack -G DEB` in the build tree, or scripts/install without a package.
# The component `freshet` is always installed, `debian` only by the package.
# The prefix is always /usr, since units, nginx's files and the programs refer to each other by these paths.
include(GNUInstallDirs)
set(examples ${CMAKE_INSTALL_DATADIR}/doc/freshet/examples)

install(TARGETS freshetd DESTINATION ${CMAKE_INSTALL_SBINDIR} COMPONENT freshet)
install(TARGETS freshetctl DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT freshet)

# freshet_install(DESTINATION FILE…): installs plain files in the component freshet.
function(freshet_install destination)
  install(FILES ${ARGN} DESTINATION ${destination} COMPONENT freshet)
endfunction()

freshet_install(/etc/freshet systemd/freshet.toml)
install(DIRECTORY DESTINATION /etc/freshet/conf.d COMPONENT freshet)
# Administrators edit these (limits, auth_request, trusted proxies), so they are in /etc.
set(snippets freshet-auth.conf freshet-http.conf freshet-internal.conf freshet-locations.conf freshet-pages.conf freshet-params.conf
    freshet-problem.conf freshet-public.conf)
list(TRANSFORM snippets PREPEND nginx/ OUTPUT_VARIABLE snippet_sources)
freshet_install(/etc/nginx/freshet ${snippet_sources})
freshet_install(${examples} nginx/freshet-alerts.yml nginx/freshet-dashboard.json nginx/nginx.conf systemd/redis-acl.conf systemd/redis-tcp.conf
                systemd/valkey.conf)
freshet_install(${CMAKE_INSTALL_DATADIR}/doc/freshet API.md INTEGRATION.md OPERATIONS.md README.md SECURITY.md)
install(DIRECTORY nginx/html DESTINATION ${CMAKE_INSTALL_DATADIR}/freshet COMPONENT freshet
        FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)

install(DIRECTORY scripts/clients DESTINATION ${CMAKE_INSTALL_DATADIR}/freshet COMPONENT freshet
        FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ PATTERN __pycache__ EXCLUDE)
set(plugin ${CMAKE_CURRENT_BINARY_DIR}/freshet.zip)
file(GLOB_RECURSE plugin_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/scripts/wordpress/freshet/*)
add_custom_command(OUTPUT ${plugin} COMMAND ${CMAKE_SOURCE_DIR}/scripts/wordpress/build-zip ${CMAKE_CURRENT_BINARY_DIR}
                   DEPENDS scripts/wordpress/build-zip scripts/clients/php/Freshet.php LICENSE ${plugin_sources} VERBATIM)
freshet_install(${CMAKE_INSTALL_DATADIR}/freshet/wordpress ${plugin})

freshet_install(/usr/lib/systemd/system systemd/freshet.service systemd/freshet.socket systemd/freshet-train.service
                systemd/freshet-train.timer systemd/freshet-tune.service systemd/freshet-tune.timer systemd/freshet-fill.service systemd/freshet-fill.timer
                systemd/freshet-check.service systemd/freshet-check.timer systemd/freshet-fetch-model.service
                systemd/freshet-fetch-model.timer systemd/freshet-import@.service systemd/freshet-import@.timer systemd/freshet-search@.service)
install(FILES systemd/freshet.sysusers DESTINATION /usr/lib/sysusers.d RENAME freshet.conf COMPONENT freshet)

# freshet_compressed(SOURCE DESTINATION COMPONENT): installs NAME.gz, byte-identical in every build.
set(compressed "")
function(freshet_compressed source destination component)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/installed/${destination}.gz)
  get_filename_component(folder ${output} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${output} COMMAND gzip -9nc ${source} > ${output} DEPENDS ${source} ${ARGN} VERBATIM)
  set(compressed ${compressed} ${output} PARENT_SCOPE)
  get_filename_component(target_folder ${destination} DIRECTORY)
  install(FILES ${output} DESTINATION ${target_folder} COMPONENT ${component})
endfunction()

# nginx sends these to clients that accept gzip (gzip_static).
file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/nginx/html/*)
foreach(page ${pages})
  get_filename_component(name ${page} NAME)
  freshet_compressed(${page} ${CMAKE_INSTALL_DATADIR}/freshet/html/${name} freshet)
  file(CREATE_LINK ${page} ${CMAKE_CURRENT_BINARY_DIR}/installed/${CMAKE_INSTALL_DATADIR}/freshet/html/${name} SYMBOLIC)  # scripts/run serves this folder
endforeach()

set(documents ${CMAKE_BINARY_DIR}/scripts/man)
foreach(page freshetd.8 freshetctl.1 freshet.toml.5 freshet-metrics.7)
  string(REGEX MATCH "[0-9]$" section ${page})
  freshet_compressed(${documents}/${page} ${CMAKE_INSTALL_MANDIR}/man${section}/${page} freshet freshet_documents)
endforeach()
freshet_install(${CMAKE_INSTALL_DATADIR}/bash-completion/completions ${documents}/completion/freshetd
                ${documents}/completion/freshetctl)
# These call bash's completion.
install(FILES scripts/completion/zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _freshetctl COMPONENT freshet)
foreach(program freshetctl freshetd)
  install(FILES scripts/completion/fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME ${program}.fish
          COMPONENT freshet)
endforeach()

# --- Debian ----------------------------------------------------------------------------------------------------------
set(package ${CMAKE_SOURCE_DIR}/scripts/package)
freshet_compressed(${CMAKE_SOURCE_DIR}/CHANGELOG.md ${CMAKE_INSTALL_DATADIR}/doc/freshet/changelog debian)
freshet_compressed(${package}/changelog ${CMAKE_INSTALL_DATADIR}/doc/freshet/changelog.Debian debian)
install(FILES ${package}/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/freshet COMPONENT debian)
install(FILES ${package}/lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME freshet
        COMPONENT debian)
add_custom_target(freshet_compressed_files ALL DEPENDS ${compressed} ${plugin})

list(TRANSFORM snippets PREPEND /etc/nginx/freshet/ OUTPUT_VARIABLE conffiles)
list(JOIN conffiles "\n" conffiles)
file(WRITE ${CMAKE_BINARY_DIR}/conffiles "/etc/freshet/freshet.toml\n${conffiles}\n")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME freshet)
set(CPACK_PACKAGE_VENDOR "The Freshet authors")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PRE_BUILD_SCRIPTS ${package}/permissions.cmake)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
# Set the maintainer when you build the package for others: -DFRESHET_MAINTAINER="Name <address>".
set(FRESHET_MAINTAINER "The Freshet authors <freshet@example.org>" CACHE STRING "Maintainer of the Debian package")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER ${FRESHET_MAINTAINER})
set(CPACK_DEBIAN_PACKAGE_SECTION web)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "systemd | systemd-sysusers, init-system-helpers (>= 1.54), libjs-chart.js (>= 3), procps")
# Not Depends, since Redis may be on another host (redis-tcp.conf). EXPIRE GT needs Redis 7.0.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "redis-server (>= 5:7.0) | valkey-server, nginx, ca-certificates")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "xapian-tools")  # freshet-search@.service
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "feed and hot-list engine for content sites, over FastCGI")
set(CPACK_PACKAGE_DESCRIPTION "Freshet serves hot lists, personal feeds, recommendations and timelines to
news sites, blogs and forums. The site reports page views, reading time,
reactions and follows. Hot lists fade with time, feeds never repeat an item,
and recommendations come with reasons.

It is deployed like PHP-FPM: pre-forked workers behind nginx, with their
state in Redis.")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${package}/postinst ${package}/prerm ${package}/postrm
    ${CMAKE_BINARY_DIR}/conffiles)
include(CPack)
