# SPDX-License-Identifier: BSD-2-Clause
# Run by CPack before it packs.

# Debian's policy wants manual pages and changelogs compressed (12.1, 12.7); without names and times, so that the bytes
# depend on the text only.
file(GLOB_RECURSE files LIST_DIRECTORIES OFF ${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/man/*.[137]
     ${CPACK_TEMPORARY_DIRECTORY}/*/changelog.Debian)
execute_process(COMMAND gzip -9n ${files} COMMAND_ERROR_IS_FATAL ANY)

# dpkg-shlibdeps reads the dependency on libfabric.so.1 here, as in a build of Debian's, and not from a libfabric1 that
# this machine has or lacks. CPack removes the folder.
foreach(component bin kfabric verbs conformance)
  if(EXISTS ${CPACK_TEMPORARY_DIRECTORY}/${component})
    file(COPY ${CPACK_WEFT_SYMBOLS} DESTINATION ${CPACK_TEMPORARY_DIRECTORY}/${component}/debian/weft-libfabric1/DEBIAN)
  endif()
endforeach()
