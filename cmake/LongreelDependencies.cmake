# The system's libraries, each as an imported target PkgConfig::<NAME>.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

# Names of the pkg-config modules, for longreel.pc.
set(LR_PKG_MODULES "")
macro(lr_find_module name)
    pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${ARGN})
    foreach(lr_module IN ITEMS ${ARGN})
        list(APPEND LR_PKG_MODULES "${lr_module}")
    endforeach()
endmacro()

lr_find_module(OPENBLAS "openblas >= 0.3.20")
lr_find_module(JANSSON "jansson >= 2.13")
if(LR_KERNELS_ONLY)
    return()
endif()
lr_find_module(LIBAV "libavformat >= 59" "libavcodec >= 59" "libavutil >= 57" "libavfilter >= 8"
    "libswscale >= 6" "libswresample >= 4")
lr_find_module(YAJL "yajl >= 2.1")
lr_find_module(XXHASH "libxxhash >= 0.8")
lr_find_module(PNG "libpng >= 1.6")
lr_find_module(SQLITE "sqlite3 >= 3.35")
