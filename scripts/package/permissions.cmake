# Run by cpack before it packs: folders are 755 whatever the umask of who builds. (CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
# does not reach the folders that `install` makes on its way to a file.)
file(CHMOD_RECURSE ${CPACK_TEMPORARY_INSTALL_DIRECTORY} DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
     GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
