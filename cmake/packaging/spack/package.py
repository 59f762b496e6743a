# SPDX-License-Identifier: BSD-2-Clause
"""Spack recipe of weft: copy it to packages/weft of a repository of your own; docs/packages.md has the commands."""

from spack.package import *


class Weft(CMakePackage):
    """A libfabric.so.1 in C++20 that takes libfabric's place without rebuilding programs."""

    license("BSD-2-Clause")

    # From a checkout: spack develop -p /path/to/weft weft@main
    version("main")

    variant("verbs", default=True, description="Build the plug-in for RDMA devices")
    variant("static_runtime", default=False, description="Link libstdc++ and libgcc in")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("fmt@9:")
    depends_on("tl-expected")
    depends_on("rdma-core", when="+verbs")

    generator("ninja")
    conflicts("%gcc@:10", msg="weft is written in C++20")
    conflicts("%clang@:12", msg="weft is written in C++20")
    conflicts("platform=darwin", msg="weft uses epoll and other interfaces of Linux")

    def cmake_args(self):
        return [
            self.define("WEFT_BUILD_TESTS", False),
            self.define("CMAKE_DISABLE_FIND_PACKAGE_PkgConfig", not self.spec.satisfies("+verbs")),
            self.define_from_variant("WEFT_STATIC_RUNTIME", "static_runtime"),
        ]
