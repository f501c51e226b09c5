# blst (BLS12-381), of which Debian has no package: quern::blst. Looked for in CMAKE_PREFIX_PATH (what make -C depends
# builds), then where contrib/install-deps.sh builds it, outside of the clone, then in the system.
if(NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
  set(blst_hint $ENV{XDG_CACHE_HOME}/quern-depends/${CMAKE_LIBRARY_ARCHITECTURE})
else()
  set(blst_hint $ENV{HOME}/.cache/quern-depends/${CMAKE_LIBRARY_ARCHITECTURE})
endif()
find_library(BLST_LIBRARY blst HINTS ${blst_hint}/lib)
find_path(BLST_INCLUDE_DIR blst.h HINTS ${blst_hint}/include)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Blst REQUIRED_VARS BLST_LIBRARY BLST_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "contrib/install-deps.sh builds it into ${blst_hint}")
if(Blst_FOUND AND NOT TARGET quern::blst)
  add_library(quern::blst INTERFACE IMPORTED)
  target_include_directories(quern::blst SYSTEM INTERFACE ${BLST_INCLUDE_DIR})
  target_link_libraries(quern::blst INTERFACE ${BLST_LIBRARY})
endif()
