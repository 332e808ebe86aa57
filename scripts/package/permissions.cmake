# Run by cpack before packing. Folders get mode 755 whatever the builder's umask.
# (CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS does not cover parent folders that `install` creates.)
file(CHMOD_RECURSE ${CPACK_TEMPORARY_INSTALL_DIRECTORY} DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
     GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
# All timestamps in the package are those of its version, so that builds are reproducible.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/changelog signature REGEX "^ -- " LIMIT_COUNT 1)
string(REGEX REPLACE ".*>  " "" made "${signature}")
execute_process(COMMAND date -d ${made} +%s OUTPUT_VARIABLE made OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(ENV{SOURCE_DATE_EPOCH} ${made})
