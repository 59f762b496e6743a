#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# find_package.sh BUILD WORK_FOLDER CC CXX: a CMake project in C and C++ finds the installed files with find_package(weft).
set -eu
. "$(dirname "$0")/installed.sh"
mkdir project
cp "$here/consumer.c" project/consumer.c
cp "$here/consumer.c" project/consumer.cc
cat >project/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(consumer C CXX)
find_package(weft 2.0 REQUIRED)
foreach(language c cc)
  add_executable(consumer_${language} consumer.${language})
  target_link_libraries(consumer_${language} PRIVATE weft::fabric)
endforeach()
add_executable(kfabric kfabric.c)
target_link_libraries(kfabric PRIVATE weft::kfabric)
END
cp "$here/../../docs/examples/kfabric.c" project/kfabric.c
cmake -S project -B project/build -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
  >configure.log 2>&1 || { cat configure.log; exit 1; }
cmake --build project/build >build.log 2>&1 || { cat build.log; exit 1; }
run_consumer project/build/consumer_c
run_consumer project/build/consumer_cc
run_kfabric project/build/kfabric
