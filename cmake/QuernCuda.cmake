# CUDA, where there is any: QUERN_HAVE_CUDA, QUERN_NVCC and quern::cudart. Of the toolkit the compiler and the static
# runtime alone; looked for in CUDAToolkit_ROOT (variable or environment), then where it installs itself. The runtime
# finds the driver when a program asks for a card: programs start on machines without one.
# quern_cuda_objects(<target> <file.cu>...)     compiles them into the target
set(QUERN_HAVE_CUDA OFF)
if(QUERN_WITH_CUDA AND NOT QUERN_SANITIZE AND NOT QUERN_BUILD_FUZZ)
  set(cuda_places ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT} /usr/local/cuda)
  find_program(QUERN_NVCC nvcc HINTS ${cuda_places} PATH_SUFFIXES bin)
  find_library(QUERN_CUDART cudart_static HINTS ${cuda_places}
    PATH_SUFFIXES lib64 lib targets/${CMAKE_SYSTEM_PROCESSOR}-linux/lib)
  if(QUERN_NVCC AND QUERN_CUDART)
    execute_process(COMMAND ${QUERN_NVCC} --version OUTPUT_VARIABLE cuda_said ERROR_QUIET)
    string(REGEX MATCH "release ([0-9]+)\\.([0-9]+)" cuda_release "${cuda_said}")
    if(CMAKE_MATCH_1 AND NOT CMAKE_MATCH_1 LESS 12)
      set(QUERN_HAVE_CUDA ON)
      message(STATUS "CUDA: ${cuda_release}, ${QUERN_NVCC}")
    else()
      message(STATUS "CUDA: left out, ${QUERN_NVCC} is older than 12.0 or says no release")
    endif()
  else()
    message(STATUS "CUDA: left out, no nvcc or no cudart_static in ${cuda_places}")
  endif()
else()
  message(STATUS "CUDA: left out, by an option")
endif()

if(QUERN_HAVE_CUDA)
  add_library(quern::cudart INTERFACE IMPORTED)
  target_link_libraries(quern::cudart INTERFACE ${QUERN_CUDART} Threads::Threads ${CMAKE_DL_LIBS} rt)
endif()

# Machine code for Hopper, and what drivers make their own code of for others from Ampere on. No multiplication and
# addition is contracted, here either.
set(QUERN_NVCC_OPTIONS -std=c++20 -O3 --expt-relaxed-constexpr -fmad=false -ftz=false -prec-div=true -prec-sqrt=true
  -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_80,code=compute_80
  -Xcompiler=-Wall,-Wextra,-Werror,-ffp-contract=off,-fPIC --Werror all-warnings)

function(quern_cuda_objects target)
  foreach(source IN LISTS ARGN)
    get_filename_component(name ${source} NAME)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${CCACHE_PROGRAM} ${QUERN_NVCC} ${QUERN_NVCC_OPTIONS} -I${PROJECT_SOURCE_DIR}/src -MD -MF ${object}.d
              -c ${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d
      COMMENT "Building CUDA object ${name}.o" VERBATIM)
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    target_sources(${target} PRIVATE ${object})
  endforeach()
endfunction()
