# Install rules of the C++ library (component `library`). The Python package (component `python`, what `pip install` takes) is
# installed by torch_plugin, into `levee/`.
if(TARGET levee)
  include(GNUInstallDirs)
  include(CMakePackageConfigHelpers)
  set(levee_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/levee")
  install(TARGETS levee EXPORT leveeTargets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library)
  install(TARGETS levee_headers EXPORT leveeTargets
    FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT library)
  install(EXPORT leveeTargets NAMESPACE levee:: DESTINATION "${levee_config_dir}" COMPONENT library)
  configure_package_config_file("${PROJECT_SOURCE_DIR}/tools/cmake/leveeConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/leveeConfig.cmake" INSTALL_DESTINATION "${levee_config_dir}")
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/leveeConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/leveeConfig.cmake" "${PROJECT_BINARY_DIR}/leveeConfigVersion.cmake"
    DESTINATION "${levee_config_dir}" COMPONENT library)
endif()
