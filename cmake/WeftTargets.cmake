# SPDX-License-Identifier: BSD-2-Clause
# Compiler settings and the few functions that every CMakeLists.txt of weft uses.
include_guard()

find_package(Threads REQUIRED)
find_package(tl-expected QUIET)
find_package(fmt QUIET)
if(NOT tl-expected_FOUND OR NOT fmt_FOUND)
  message(FATAL_ERROR "weft needs tl-expected and fmt: sh cmake/install-dependencies.sh installs them on Debian "
                      "(libexpected-dev libfmt-dev)")
endif()

# weft_left_out(PART PACKAGE...): records a part that is not built because these packages of Debian are missing.
function(weft_left_out part)
  set_property(GLOBAL APPEND PROPERTY WEFT_LEFT_OUT "${part}")
  set_property(GLOBAL APPEND PROPERTY WEFT_MISSING_PACKAGES ${ARGN})
endfunction()
# Prints them in one line, at the end of the configuration.
function(weft_report_left_out)
  get_property(parts GLOBAL PROPERTY WEFT_LEFT_OUT)
  if(parts)
    get_property(packages GLOBAL PROPERTY WEFT_MISSING_PACKAGES)
    list(REMOVE_DUPLICATES packages)
    list(JOIN parts ", " parts)
    list(JOIN packages " " packages)
    message(STATUS "weft: not built: ${parts}. To build them on Debian: apt-get install ${packages}")
  endif()
endfunction()

add_library(weft_settings INTERFACE)
target_compile_options(weft_settings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -fno-strict-aliasing)
target_compile_definitions(weft_settings INTERFACE _GNU_SOURCE)
set(weft_static_runtime -static-libstdc++ -static-libgcc)
if(WEFT_STATIC_RUNTIME)
  target_link_options(weft_settings INTERFACE "$<$<LINK_LANGUAGE:CXX>:${weft_static_runtime}>")
endif()
if(WEFT_SANITIZE)
  # Only the library is instrumented for the fuzzer; the code of tests would cost time.
  string(REPLACE "," ";" sanitizers "${WEFT_SANITIZE}")
  list(REMOVE_ITEM sanitizers fuzzer-no-link)
  list(JOIN sanitizers "," sanitizers)
  target_compile_options(weft_settings INTERFACE -fsanitize=${sanitizers} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all
                         -fno-sanitize=enum)  # callers in C may pass any int as an enum
  target_link_options(weft_settings INTERFACE -fsanitize=${WEFT_SANITIZE})
endif()

# ccache needs these to distinguish precompiled headers.
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(weft_settings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(weft_settings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
endif()

# For faster builds of everything. Off by default, because it hides missing includes.
option(WEFT_PRECOMPILE "Precompile the headers that most files include" OFF)
# weft_precompile(NAME GROUP HEADER...): the first target of a group compiles its headers, and the others reuse them: all
# of a group have the same compiler options.
function(weft_precompile name group)
  if(NOT WEFT_PRECOMPILE)
    return()
  endif()
  get_property(first GLOBAL PROPERTY WEFT_PRECOMPILED_${group})
  if(first)
    target_precompile_headers(${name} REUSE_FROM ${first})
    return()
  endif()
  set_property(GLOBAL PROPERTY WEFT_PRECOMPILED_${group} ${name})
  foreach(header fmt/format.h algorithm functional memory mutex string thread vector ${ARGN})
    target_precompile_headers(${name} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:<${header}$<ANGLE-R>>")
  endforeach()
endfunction()

# weft_archive(NAME SOURCE...): a static archive of internal code, hidden visibility.
function(weft_archive name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PRIVATE weft_settings PUBLIC weft_headers Threads::Threads tl::expected weft_fmt)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/prov)
  if(WEFT_SANITIZE MATCHES fuzzer-no-link)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  weft_precompile(${name} archives)
endfunction()

# weft_pkgconfig(NAME): installs NAME.pc. Its paths are relative to it, so that an installation can move; for the prefix
# /usr they are literal, because pkg-config knows the system's folders by their names.
function(weft_pkgconfig name)
  file(RELATIVE_PATH up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" up "${up}")
  set(pc_prefix "\${pcfiledir}/${up}")
  set(pc_libdir "\${pcfiledir}/..")
  configure_file(${name}.pc.in ${name}.pc @ONLY)
  set(folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${folder})
    return()
  endif()
  set(pc_prefix /usr)
  set(pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
  configure_file(${name}.pc.in system/${name}.pc @ONLY)
  install(CODE "set(from \"${CMAKE_CURRENT_BINARY_DIR}\")
    if(CMAKE_INSTALL_PREFIX MATCHES \"/usr\$\")  # cmake --install --prefix may say otherwise
      string(APPEND from /system)
    endif()
    file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/${folder}\" TYPE FILE FILES \"\${from}/${name}.pc\")")
endfunction()

# weft_test(NAME SOURCES... [LIBRARIES ...] [LABELS ...] [TIMEOUT seconds]): one GoogleTest binary, one ctest entry per test.
# Several of its files are compiled as one: GoogleTest's headers take longer to compile than the tests.
function(weft_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LIBRARIES;LABELS" ${ARGN})
  add_executable(${name} ${arg_SOURCES} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE weft_settings weft_headers ${arg_LIBRARIES} GTest::gtest_main)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  weft_precompile(${name} tests gtest/gtest.h)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()

# weft_memory_night(TEST PROGRAM): by day every third allocation fails, with a sanitizer every ninth; at night each one.
function(weft_memory_night test program)
  set(stride 3)
  if(WEFT_SANITIZE)
    set(stride 9)
  endif()
  set_tests_properties(${test} PROPERTIES ENVIRONMENT WEFT_MEMORY_STRIDE=${stride})
  add_test(NAME ${test}.long COMMAND ${program} --gtest_brief=1)
  set_tests_properties(${test}.long PROPERTIES LABELS "unit;nightly" TIMEOUT 600)
endfunction()
