# What `cmake --install` puts where: the program, the library beside it in a folder of its own, so that no linker takes it
# for a library to link, and what goes with them. Included by the top level; scripts/package.sh packages what it installs.
set(GPUMEM_MAINTAINER "no maintainer named <nobody@gpumem.invalid>" CACHE STRING "Who answers for the packages: Name <address>")
if(GPUMEM_SANITIZE)
  return()
endif()
install(TARGETS gpumem_cli RUNTIME DESTINATION bin COMPONENT gpumem)
install(TARGETS gpumem_preload LIBRARY DESTINATION lib/gpumem COMPONENT gpumem NAMELINK_SKIP)
install(FILES shim/include/gpumem/gpumem.h shim/include/gpumem/memory_resource.hpp DESTINATION include/gpumem COMPONENT gpumem)
# For programs that ask it: headers and nothing to link. find_package(gpumem), gpumem::gpumem; pkg-config --cflags gpumem.
add_library(gpumem_interface INTERFACE)
set_target_properties(gpumem_interface PROPERTIES EXPORT_NAME gpumem)
target_include_directories(gpumem_interface INTERFACE $<INSTALL_INTERFACE:include>)
install(TARGETS gpumem_interface EXPORT gpumem COMPONENT gpumem)
install(EXPORT gpumem NAMESPACE gpumem:: FILE gpumem-config.cmake DESTINATION lib/cmake/gpumem COMPONENT gpumem)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/gpumem-config-version.cmake COMPATIBILITY SameMajorVersion ARCH_INDEPENDENT)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/gpumem.pc @ONLY CONTENT [[prefix=${pcfiledir}/../..
Name: gpumem
Description: What a program may ask of gpumem while it runs
Version: @PROJECT_VERSION@
Cflags: -I${prefix}/include
]])
install(FILES ${CMAKE_BINARY_DIR}/gpumem-config-version.cmake DESTINATION lib/cmake/gpumem COMPONENT gpumem)
install(FILES ${CMAKE_BINARY_DIR}/gpumem.pc DESTINATION lib/pkgconfig COMPONENT gpumem)
install(DIRECTORY config/examples/ DESTINATION share/gpumem/examples COMPONENT gpumem FILES_MATCHING PATTERN "*.toml")
install(FILES core/report/report.schema.json DESTINATION share/gpumem COMPONENT gpumem)
install(FILES README.md CHANGELOG.md config/REFERENCE.md LICENSE scripts/package/copyright DESTINATION share/doc/gpumem COMPONENT gpumem)
if(TARGET documents)
  set(documents ${CMAKE_BINARY_DIR}/documents)
  install(FILES ${documents}/gpumem.1 ${documents}/gpumem-run.1 ${documents}/gpumem-check.1 ${documents}/gpumem-report.1 ${documents}/gpumem-export.1
    DESTINATION share/man/man1 COMPONENT gpumem)
  install(FILES ${documents}/gpumem.bash DESTINATION share/bash-completion/completions COMPONENT gpumem RENAME gpumem)
  install(FILES ${documents}/_gpumem DESTINATION share/zsh/site-functions COMPONENT gpumem)
  install(FILES ${documents}/gpumem.fish DESTINATION share/fish/vendor_completions.d COMPONENT gpumem)
endif()
