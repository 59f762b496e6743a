# SPDX-License-Identifier: BSD-2-Clause
# weft_rxe_test(NAME name COMMAND word... [PAIR] [IWARP] [NIGHTLY] [LIMIT seconds] [MEMORY MB] [LABELS label...]): one
# ctest entry, rxe.NAME, that runs the command on Soft-RoCE (see run.sh), or with IWARP on the kernel's software iWARP;
# with PAIR two commands with :: between them on two hosts (see pair.sh). tests/nightly.sh runs those with NIGHTLY or
# IWARP, and tests/run.sh the others. A boot takes about ten seconds, so a whole GoogleTest binary is one entry. Skipped
# where the lab cannot run; a failure there if REQUIRE names rxe. Include this file where it is used:
# include(${PROJECT_SOURCE_DIR}/tests/rxe/rxe_test.cmake).
include_guard()
set(WEFT_RXE_FOLDER ${CMAKE_CURRENT_LIST_DIR})

function(weft_rxe_test)
  cmake_parse_arguments(arg "PAIR;IWARP;NIGHTLY" "NAME;LIMIT;MEMORY" "COMMAND;LABELS" ${ARGN})
  if(NOT arg_LIMIT)
    set(arg_LIMIT 300)
  endif()
  set(lab ${WEFT_RXE_FOLDER}/run.sh)
  if(arg_PAIR)
    set(lab ${WEFT_RXE_FOLDER}/pair.sh)
  endif()
  set(driver "")
  if(arg_IWARP)
    set(driver env RXE_DRIVER=siw)
  endif()
  if(arg_IWARP OR arg_NIGHTLY)
    list(APPEND arg_LABELS nightly)
  endif()
  if(arg_MEMORY)
    list(APPEND lab -m ${arg_MEMORY})
  endif()
  add_test(NAME rxe.${arg_NAME} COMMAND ${driver} sh ${lab} -t ${arg_LIMIT} ${arg_COMMAND})
  weft_rxe_properties(rxe.${arg_NAME} ${arg_LIMIT} ${arg_LABELS})
endfunction()

# weft_rxe_properties(TEST LIMIT [LABEL...]): the machine boots one lab at a time, and each gets the time to boot.
function(weft_rxe_properties test limit)
  math(EXPR timeout "${limit} + 180")
  set_tests_properties(${test} PROPERTIES LABELS "rxe;${ARGN}" TIMEOUT ${timeout} SKIP_RETURN_CODE 77 RESOURCE_LOCK rxe)
endfunction()
