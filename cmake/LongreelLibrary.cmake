# liblongreel: the objects of all folders in one library, with headers and longreel.pc.

set(objects "")
set(external "")
foreach(folder IN LISTS LR_FOLDERS)
    get_target_property(type lr_${folder} TYPE)
    if(NOT type STREQUAL "INTERFACE_LIBRARY")
        list(APPEND objects "$<TARGET_OBJECTS:lr_${folder}>")
        get_target_property(libraries lr_${folder} LINK_LIBRARIES)
        list(FILTER libraries EXCLUDE REGEX "^lr_|NOTFOUND$")
        list(APPEND external ${libraries})
    endif()
endforeach()
list(REMOVE_DUPLICATES external)

function(lr_add_library target type)
    add_library(${target} ${type} ${objects})
    set_target_properties(${target} PROPERTIES OUTPUT_NAME longreel LINKER_LANGUAGE C)
    target_link_libraries(${target} PRIVATE ${external})
    foreach(folder IN LISTS LR_FOLDERS)
        target_include_directories(${target} PUBLIC
            "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/${folder}/include>")
    endforeach()
    install(TARGETS ${target})
endfunction()

lr_add_library(liblongreel SHARED)
set(version_script "${PROJECT_SOURCE_DIR}/cmake/longreel.map")
set_target_properties(liblongreel PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS "${version_script}")
target_link_libraries(liblongreel PRIVATE $<BUILD_INTERFACE:lr_options>)
target_link_options(liblongreel PRIVATE "LINKER:--version-script=${version_script}")
if(LR_STATIC)
    lr_add_library(liblongreel_static STATIC)
endif()

foreach(folder IN LISTS LR_FOLDERS)
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}/include/longreel"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
endforeach()

# Relative to the .pc file, so that `cmake --install --prefix` and a moved tree work.
set(LR_PC_PREFIX "${CMAKE_INSTALL_PREFIX}")
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
    string(REGEX REPLACE "/$" "" up "${up}")
    set(LR_PC_PREFIX "\${pcfiledir}/${up}")
endif()
set(LR_PC_LIBDIR "${CMAKE_INSTALL_LIBDIR}")
set(LR_PC_INCLUDEDIR "${CMAKE_INSTALL_INCLUDEDIR}")
foreach(directory IN ITEMS LR_PC_LIBDIR LR_PC_INCLUDEDIR)
    if(NOT IS_ABSOLUTE "${${directory}}")
        set(${directory} "\${prefix}/${${directory}}")
    endif()
endforeach()
list(JOIN LR_PKG_MODULES ", " LR_PC_REQUIRES)
configure_file("${PROJECT_SOURCE_DIR}/cmake/longreel.pc.in" "${PROJECT_BINARY_DIR}/longreel.pc"
    @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/longreel.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
