# SPDX-License-Identifier: BSD-2-Clause
# weft_rxe_test(NAME name COMMAND word... [PAIR] [IWARP] [NIGHTLY] [SHARES boot] [LIMIT seconds] [MEMORY MB]
# [LABELS label...]): one ctest entry, rxe.NAME, that runs the command on Soft-RoCE (see run.sh), or with IWARP on the
# kernel's software iWARP; with PAIR on two hosts (see pair.sh), two commands with :: between them, or one for both.
# tests/nightly.sh runs those with NIGHTLY, IWARP or SHARES, and tests/run.sh the others. A boot takes about ten seconds,
# so a whole GoogleTest binary is one entry, and by day the commands with SHARES run one after the other in one boot
# (weft_rxe_boot). Skipped where the lab cannot run; a failure there if REQUIRE names rxe. Include this file where it is
# used: include(${PROJECT_SOURCE_DIR}/tests/rxe/rxe_test.cmake).
include_guard()
set(WEFT_RXE_FOLDER ${CMAKE_CURRENT_LIST_DIR})

function(weft_rxe_test)
  cmake_parse_arguments(arg "PAIR;IWARP;NIGHTLY" "NAME;SHARES;LIMIT;MEMORY" "COMMAND;LABELS" ${ARGN})
  if(arg_SHARES)
    weft_rxe_share(${arg_SHARES} ${arg_NAME} ${arg_COMMAND})
  endif()
  if(NOT arg_LIMIT)
    set(arg_LIMIT 300)
  endif()
  set(lab ${WEFT_RXE_FOLDER}/run.sh)
  if(arg_PAIR)
    set(lab ${WEFT_RXE_FOLDER}/pair.sh)
    if(NOT :: IN_LIST arg_COMMAND)
      list(APPEND arg_COMMAND :: ${arg_COMMAND})
    endif()
  endif()
  set(driver "")
  if(arg_IWARP)
    set(driver env RXE_DRIVER=siw)
  endif()
  if(arg_IWARP OR arg_NIGHTLY OR arg_SHARES)
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

# weft_rxe_share(BOOT NAME COMMAND...): the command is one of that boot's.
function(weft_rxe_share boot)
  get_property(commands GLOBAL PROPERTY WEFT_RXE_${boot})
  if(commands)
    list(APPEND commands :and:)
  endif()
  set_property(GLOBAL PROPERTY WEFT_RXE_${boot} ${commands} ${ARGN})
endfunction()

# weft_rxe_boot(NAME WORD...): the ctest entry of the commands that share that boot; further words as for weft_rxe_test.
function(weft_rxe_boot name)
  get_property(commands GLOBAL PROPERTY WEFT_RXE_${name})
  if(commands)
    weft_rxe_test(NAME ${name} ${ARGN} COMMAND sh ${WEFT_RXE_FOLDER}/each.sh ${commands})
  endif()
endfunction()
