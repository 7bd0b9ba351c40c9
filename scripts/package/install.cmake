# What `cmake --install` puts where: the program, the library beside it in a folder of its own, so that no linker takes it
# for a library to link, and what goes with them. Included by the top level; scripts/package.sh packages what it installs.
set(GPUMEM_MAINTAINER "no maintainer named <nobody@gpumem.invalid>" CACHE STRING "Who answers for the packages: Name <address>")
if(GPUMEM_SANITIZE)
  return()
endif()
install(TARGETS gpumem_cli RUNTIME DESTINATION bin COMPONENT gpumem)
install(TARGETS gpumem_preload LIBRARY DESTINATION lib/gpumem COMPONENT gpumem NAMELINK_SKIP)
install(DIRECTORY config/examples/ DESTINATION share/gpumem/examples COMPONENT gpumem FILES_MATCHING PATTERN "*.toml")
install(FILES README.md CHANGELOG.md config/REFERENCE.md LICENSE scripts/package/copyright DESTINATION share/doc/gpumem COMPONENT gpumem)
if(TARGET documents)
  set(documents ${CMAKE_BINARY_DIR}/documents)
  install(FILES ${documents}/gpumem.1 ${documents}/gpumem-run.1 ${documents}/gpumem-check.1 ${documents}/gpumem-report.1
    DESTINATION share/man/man1 COMPONENT gpumem)
  install(FILES ${documents}/gpumem.bash DESTINATION share/bash-completion/completions COMPONENT gpumem RENAME gpumem)
  install(FILES ${documents}/_gpumem DESTINATION share/zsh/site-functions COMPONENT gpumem)
  install(FILES ${documents}/gpumem.fish DESTINATION share/fish/vendor_completions.d COMPONENT gpumem)
endif()
