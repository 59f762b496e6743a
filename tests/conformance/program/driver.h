// SPDX-License-Identifier: BSD-2-Clause
// fi_conform itself: fi_conform(1).
#pragma once

namespace conform {

int run_program(int argc, char** argv);

}  // namespace conform
