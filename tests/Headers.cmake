# Every public header compiles on its own and twice over, in C and (with a compiler at hand) in C++.

include(CheckLanguage)
check_language(CXX)
set(languages c)
if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
    set(CMAKE_CXX_STANDARD 17)
    list(APPEND languages cpp)
endif()

set(sources "")
set(directories "")
foreach(folder IN LISTS LR_FOLDERS)
    list(APPEND directories "${PROJECT_SOURCE_DIR}/${folder}/include")
    file(GLOB headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/${folder}/include"
        "${PROJECT_SOURCE_DIR}/${folder}/include/longreel/*.h")
    foreach(header IN LISTS headers)
        get_filename_component(stem "${header}" NAME_WE)
        foreach(language IN LISTS languages)
            set(source "${CMAKE_CURRENT_BINARY_DIR}/headers/${folder}_${stem}.${language}")
            file(CONFIGURE OUTPUT "${source}"
                CONTENT "#include <${header}>\n#include <${header}>\nextern int lr_header_seen;\n")
            list(APPEND sources "${source}")
        endforeach()
    endforeach()
endforeach()

add_library(lr_headers OBJECT ${sources})
target_include_directories(lr_headers PRIVATE ${directories})
target_link_libraries(lr_headers PRIVATE lr_options)
