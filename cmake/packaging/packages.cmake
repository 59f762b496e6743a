# SPDX-License-Identifier: BSD-2-Clause
# Debian packages, one for each component of the installation: `sh cmake/package.sh` makes them, docs/packages.md says what
# they are for. Debian's policy governs the fields, deb-symbols(5) and deb-shlibs(5) the files beside them.
set(WEFT_PACKAGE_CONTACT "the weft authors <maintainers@weft.example>" CACHE STRING
    "Maintainer field of the packages: name and address of the person who distributes them")
# The release of Debian 12. Its libfabric-dev accepts no other one, and the tests show that weft has all of its symbols.
set(stock_release 1.17.0)
set(stock_version ${stock_release}-3)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "${WEFT_PACKAGE_CONTACT}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/staged_files.cmake)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/src/core ${PROJECT_BINARY_DIR}/src/kfabric)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(version ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})

# The date of the changelog: the environment's SOURCE_DATE_EPOCH, else now.
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(work ${PROJECT_BINARY_DIR}/packaging)
file(WRITE ${work}/changelog.Debian
"weft (${version}) unstable; urgency=medium

  * Release ${PROJECT_VERSION}.

 -- ${WEFT_PACKAGE_CONTACT}  ${date}
")

file(READ ${PROJECT_SOURCE_DIR}/LICENSE license)
string(REGEX REPLACE "^.*All rights reserved\\.\n+" "" license "${license}")
string(REGEX REPLACE "\n+$" "" license "${license}")
string(REPLACE "\n\n" "\n.\n" license "${license}")
string(REPLACE "\n" "\n " license "${license}")
file(WRITE ${work}/copyright
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: weft

Files: *
Copyright: 2026, the weft authors
License: BSD-2-Clause

Files: html/_static/*
Copyright: 2007-2022, the Sphinx team
 2020, Pradyun Gedam
 2019, Chris Ferdinandi
 OpenJS Foundation and the jQuery authors
 2009-2022, Jeremy Ashkenas and the Underscore authors
License: BSD-2-Clause and Expat
Comment: scripts and styles of the site in weft-doc

License: BSD-2-Clause
 ${license}

License: Expat
 Permission is hereby granted, free of charge, to any person obtaining a copy of
 this software and associated documentation files (the \"Software\"), to deal in
 the Software without restriction, including without limitation the rights to
 use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of
 the Software, and to permit persons to whom the Software is furnished to do so,
 subject to the following conditions:
 .
 The above copyright notice and this permission notice shall be included in all
 copies or substantial portions of the Software.
 .
 THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
 IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS
 FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
 COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER
 IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
 CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
")

# weft_package(COMPONENT NAME SECTION SUMMARY DESCRIPTION [FIELD VALUE]...): FIELD as in CPACK_DEBIAN_<COMPONENT>_PACKAGE_<FIELD>.
macro(weft_package component name section summary description)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER ${component} prefix)
  set(CPACK_DEBIAN_${prefix}_DESCRIPTION "${summary}\n${description}")
  string(PREPEND prefix CPACK_DEBIAN_)
  set(${prefix}_PACKAGE_NAME ${name})
  set(${prefix}_PACKAGE_SECTION ${section})
  set(fields ${ARGN})
  while(fields)
    list(POP_FRONT fields field value)
    set(${prefix}_PACKAGE_${field} "${value}")
  endwhile()
  install(FILES ${work}/changelog.Debian ${work}/copyright DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${name}
          COMPONENT ${component} EXCLUDE_FROM_ALL)
endmacro()
set(library "weft-libfabric1 (= ${version})")

# The symbols of the list that the tests compare with the library, with the oldest release known here to have each.
file(STRINGS ${PROJECT_SOURCE_DIR}/tests/abi/symbols.list symbols REGEX "^[^#]")
set(text "libfabric.so.1 weft-libfabric1 #MINVER# | libfabric1 #MINVER#\n")
foreach(node RANGE 0 10)
  set(release ${PROJECT_VERSION})
  if(node LESS 7)
    set(release ${stock_release})
  elseif(node LESS 10)
    set(release 2.6.0)
  endif()
  set(of_node ${symbols})
  list(FILTER of_node INCLUDE REGEX "@FABRIC_1\\.${node}$")
  if(of_node)
    foreach(symbol IN LISTS of_node ITEMS FABRIC_1.${node}@FABRIC_1.${node})
      string(REPLACE "@@" "@" symbol ${symbol})
      string(APPEND text " ${symbol} ${release}\n")
    endforeach()
  endif()
endforeach()
file(WRITE ${work}/symbols "${text}")
file(WRITE ${work}/shlibs "libfabric 1 weft-libfabric1 (>= ${PROJECT_VERSION}) | libfabric1 (>= ${PROJECT_VERSION})\n")
file(WRITE ${work}/triggers "activate-noawait ldconfig\n")

weft_package(library weft-libfabric1 libs "libfabric.so.1 with clear errors and fast small messages"
"weft replaces libfabric: programs that were linked against libfabric run on
it without being rebuilt. This package has the library with the providers
tcp, udp and ofi_rxm. It takes the place of the package libfabric1."
  PROVIDES "libfabric1 (= ${version}), libfabric1 (= ${stock_version})" CONFLICTS libfabric1 REPLACES libfabric1
  RECOMMENDS "weft-verbs (= ${version})")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${work}/symbols ${work}/shlibs ${work}/triggers)
set(CPACK_WEFT_SYMBOLS ${work}/symbols)

weft_package(kfabric weft-libkfabric1 libs "kernel's fabric interface in user space"
"libkfabric.so.1 has kfabric, the kernel's spelling of libfabric's interface, so
that code written for it runs in user space. It works over weft and over the
distribution's libfabric1.")
file(WRITE ${work}/kfabric/shlibs "libkfabric 1 weft-libkfabric1 (>= ${PROJECT_VERSION})\n")
file(COPY ${work}/triggers DESTINATION ${work}/kfabric)
set(CPACK_DEBIAN_KFABRIC_PACKAGE_CONTROL_EXTRA ${work}/kfabric/shlibs ${work}/kfabric/triggers)

weft_package(dev weft-libfabric-dev libdevel "Development files of weft's libfabric.so.1"
"Headers, pkg-config and CMake files, and the manual pages of the interface.
Programs that are built with them run on weft and on libfabric."
  DEPENDS "${library}, weft-libkfabric1 (= ${version})" PROVIDES "libfabric-dev (= ${version})" CONFLICTS libfabric-dev REPLACES libfabric-dev
  SHLIBDEPS OFF)  # no binaries

weft_package(bin weft-libfabric-bin net "Tools of weft's libfabric.so.1"
"fi_info lists what is available on a host, fi_pingpong measures latency and
bandwidth between two hosts, fi_mcast sends to multicast groups, and
fi_strerror explains error numbers."
  DEPENDS "${library}" PROVIDES "libfabric-bin (= ${version})" CONFLICTS libfabric-bin REPLACES libfabric-bin)

if(TARGET verbs-fi)
  weft_package(verbs weft-verbs libs "RDMA provider verbs of weft, a plug-in"
"Connected endpoints and datagrams over RDMA devices. The plug-in also loads
into the distribution's libfabric1, where it is preferred to the provider
verbs that is linked into that library."
    DEPENDS ibverbs-providers)
endif()

if(TARGET fi_conform)
  weft_package(conformance weft-conformance net "Tests of the promises of libfabric's manual pages"
"fi_conform checks, through the public interface only, that a provider of any
libfabric.so.1 keeps the sentences of the manual pages, on one host and on two,
and reports those that do not hold."
    DEPENDS libfabric1)
endif()

weft_package(doc weft-doc doc "Documents of weft"
"Guides to the providers, to threads, limits and parameters, the reasons for
the design, and examples."
  ARCHITECTURE all SHLIBDEPS OFF)
set(folder ${CMAKE_INSTALL_DATAROOTDIR}/doc/weft-doc)
install(FILES ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${folder} COMPONENT doc EXCLUDE_FROM_ALL)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${folder} COMPONENT doc EXCLUDE_FROM_ALL
        PATTERN man EXCLUDE PATTERN site EXCLUDE PATTERN CMakeLists.txt EXCLUDE)
# The site where it was built, as cmake/package.sh does where its generator is installed.
install(DIRECTORY ${PROJECT_BINARY_DIR}/docs/site/html DESTINATION ${folder} COMPONENT doc EXCLUDE_FROM_ALL OPTIONAL)

foreach(component library kfabric dev verbs)
  string(TOUPPER ${component} component)
  set(CPACK_DEBIAN_${component}_PACKAGE_MULTIARCH same)
endforeach()
include(CPack)
