# The C++ side of an installation (component `library`): liblevee.so with its C header, the vocabulary headers, and a CMake package
# with the targets levee::levee and levee::headers. The Python package (component `python`, which `pip install` takes) is installed
# by torch_plugin, into `levee/`.

if(TARGET levee)
  include(GNUInstallDirs)
  include(CMakePackageConfigHelpers)

  # Consumers write <levee/levee.h> with a build tree as with an installation.
  configure_file("${PROJECT_SOURCE_DIR}/allocator/c_api/levee.h" "${PROJECT_BINARY_DIR}/include/levee/levee.h" COPYONLY)
  target_include_directories(levee INTERFACE
    "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  if(NOT TARGET levee::levee)
    add_library(levee::levee ALIAS levee)
  endif()

  set(levee_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/levee")
  install(TARGETS levee EXPORT leveeTargets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library)
  install(FILES "${PROJECT_SOURCE_DIR}/allocator/c_api/levee.h"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/levee" COMPONENT library)
  install(TARGETS levee_headers EXPORT leveeTargets
    FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT library)
  install(EXPORT leveeTargets NAMESPACE levee:: DESTINATION "${levee_config_dir}" COMPONENT library)
  configure_package_config_file("${PROJECT_SOURCE_DIR}/tools/cmake/leveeConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/leveeConfig.cmake" INSTALL_DESTINATION "${levee_config_dir}")
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/leveeConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/leveeConfig.cmake" "${PROJECT_BINARY_DIR}/leveeConfigVersion.cmake"
    DESTINATION "${levee_config_dir}" COMPONENT library)
endif()
