# Run by cpack before it packs. Folders are 755 whatever the umask of who builds. (CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
# does not reach the folders that `install` makes on its way to a file.)
file(CHMOD_RECURSE ${CPACK_TEMPORARY_INSTALL_DIRECTORY} DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
     GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
# All times in the package are its version's, so the same programs make the same bytes.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/changelog signature REGEX "^ -- " LIMIT_COUNT 1)
string(REGEX REPLACE ".*>  " "" made "${signature}")
execute_process(COMMAND date -d ${made} +%s OUTPUT_VARIABLE made OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(ENV{SOURCE_DATE_EPOCH} ${made})
