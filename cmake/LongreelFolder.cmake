# Compile options of all of Longreel, and lr_add_folder().

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(LR_CCACHE ccache)
if(LR_CCACHE AND NOT DEFINED CMAKE_C_COMPILER_LAUNCHER)
    set(CMAKE_C_COMPILER_LAUNCHER "${LR_CCACHE}")
    set(CMAKE_CXX_COMPILER_LAUNCHER "${LR_CCACHE}")
endif()

# -ffp-contract=off: a kernel's result is what its code says, on every ISA; where a fused
# multiply-add is wanted it is written out.
add_library(lr_options INTERFACE)
target_compile_definitions(lr_options INTERFACE _GNU_SOURCE LR_VERSION="${PROJECT_VERSION}")
target_compile_options(lr_options INTERFACE
    -Wall -Wextra -Wshadow -Wconversion
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
    -fno-math-errno -ffp-contract=off
    $<$<BOOL:${LR_WERROR}>:-Werror>)
if(LR_SANITIZE)
    set(sanitize -fsanitize=${LR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(lr_options INTERFACE ${sanitize})
    target_link_options(lr_options INTERFACE ${sanitize})
endif()
# Coverage for libFuzzer to go by; LR_FUZZING lowers bounds that a fuzz target's memory could not meet.
if(LR_FUZZ)
    target_compile_options(lr_options INTERFACE -fsanitize=fuzzer-no-link)
    target_compile_definitions(lr_options INTERFACE LR_FUZZING)
endif()

set(LR_PLUGIN_OUTPUT "${PROJECT_BINARY_DIR}/lib/longreel") # where the program looks for plugins of its own build

# lr_add_folder(NAME [SOURCES ...]): the static library lr_NAME of the folder NAME/. Its users see
# NAME/include; only itself sees NAME/src. Without sources it carries only the headers.
function(lr_add_folder name)
    cmake_parse_arguments(arg "" "" "SOURCES" ${ARGN})
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "lr_add_folder(${name}): what is ${arg_UNPARSED_ARGUMENTS}?")
    endif()
    if(arg_SOURCES)
        add_library(lr_${name} STATIC ${arg_SOURCES})
        target_include_directories(lr_${name}
            PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}/include"
            PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/src")
        target_link_libraries(lr_${name} PRIVATE lr_options)
    else()
        add_library(lr_${name} INTERFACE)
        target_include_directories(lr_${name} INTERFACE "${CMAKE_CURRENT_SOURCE_DIR}/include")
    endif()
endfunction()
