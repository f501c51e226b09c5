# CUDA, where there is any: QUERN_HAVE_CUDA, QUERN_NVCC and quern::cudart. Of the toolkit the compiler and the static
# runtime alone, both of one toolkit: nvcc is looked for in CUDAToolkit_ROOT (variable or environment), in PATH and where
# it installs itself, as contrib/cuda.sh does. The runtime finds the driver when a program asks for a card: programs
# start on machines without one.
# quern_cuda_objects(<target> <file.cu>...)     compiles them into the target

# Machine code for Hopper, and what drivers make their own code of for others from Ampere on. No multiplication and
# addition is contracted, here either.
set(QUERN_NVCC_OPTIONS -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 -O3 --expt-relaxed-constexpr -fmad=false -ftz=false
  -prec-div=true -prec-sqrt=true -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_80,code=compute_80
  -Xcompiler=-Wall,-Wextra,-Werror,-ffp-contract=off,-fPIC --Werror all-warnings)

# The static runtime of nvcc's toolkit; empty: it has none. A script that starts nvcc is asked where that is.
# Distributions that install nvcc as /usr/bin/nvcc have it among the system's libraries.
function(quern_find_cudart nvcc result)
  get_filename_component(real ${nvcc} REALPATH)
  get_filename_component(toolkit ${real}/../.. ABSOLUTE)
  execute_process(COMMAND ${nvcc} --dryrun -c ${CMAKE_BINARY_DIR}/none.cu OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(said MATCHES "TOP=([^\n]+)")
    get_filename_component(toolkit "${CMAKE_MATCH_1}" REALPATH)
  endif()
  set(places ${toolkit}/lib64 ${toolkit}/targets/${CMAKE_SYSTEM_PROCESSOR}-linux/lib ${toolkit}/lib)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
    list(APPEND places ${toolkit}/targets/sbsa-linux/lib)
  endif()
  if(nvcc STREQUAL "/usr/bin/nvcc")
    list(APPEND places /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} /usr/lib64 /usr/lib)
  endif()
  set(${result} "" PARENT_SCOPE)
  foreach(place IN LISTS places)
    if(EXISTS ${place}/libcudart_static.a)
      set(${result} ${place}/libcudart_static.a PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# Whether nvcc compiles for this compiler and its library: not every release knows every compiler. What it says where it
# does not is in `why`. Once for each pair.
function(quern_try_nvcc release result why)
  set(${result} ON PARENT_SCOPE)
  set(tried "${QUERN_NVCC} ${release} ${CMAKE_CXX_COMPILER_VERSION} ${QUERN_NVCC_OPTIONS}")
  if(QUERN_CUDA_TRIED STREQUAL tried)
    return()
  endif()
  set(trial ${CMAKE_BINARY_DIR}/CMakeFiles/cuda-trial)
  file(WRITE ${trial}.cu "#include <cuda_runtime.h>\n#include <memory>\n#include <string>\n#include <variant>\n"
    "__global__ void run(const std::variant<int, float>* from, int* to) { *to = static_cast<int>(from->index()); }\n"
    "std::unique_ptr<std::string> start() { run<<<1, 1>>>(nullptr, nullptr); return nullptr; }\n")
  execute_process(COMMAND ${QUERN_NVCC} ${QUERN_NVCC_OPTIONS} -c ${trial}.cu -o ${trial}.o
    RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(status EQUAL 0)
    set(QUERN_CUDA_TRIED "${tried}" CACHE INTERNAL "what nvcc has compiled for")
    return()
  endif()
  if(NOT said MATCHES "[^\n]*error[^\n]*")
    string(REGEX MATCH "[^\n]+" said "${said}")
  else()
    set(said "${CMAKE_MATCH_0}")
  endif()
  set(${result} OFF PARENT_SCOPE)
  set(${why} "${said}" PARENT_SCOPE)
endfunction()

set(QUERN_HAVE_CUDA OFF)
if(QUERN_WITH_CUDA AND NOT QUERN_SANITIZE AND NOT QUERN_BUILD_FUZZ)
  set(cuda_default /usr/local/cuda)
  if(DEFINED ENV{QUERN_CUDA_DEFAULT})
    set(cuda_default $ENV{QUERN_CUDA_DEFAULT})
  endif()
  find_program(QUERN_NVCC nvcc HINTS ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT} PATHS ${cuda_default}
    PATH_SUFFIXES bin NO_CMAKE_SYSTEM_PATH)
  if(QUERN_NVCC)
    execute_process(COMMAND ${QUERN_NVCC} --version OUTPUT_VARIABLE cuda_said ERROR_QUIET)
    string(REGEX MATCH "release ([0-9]+)\\.([0-9]+)" cuda_release "${cuda_said}")
    set(cuda_major ${CMAKE_MATCH_1})
    quern_find_cudart(${QUERN_NVCC} cudart)
    if(NOT cuda_major OR cuda_major LESS 12)
      message(STATUS "CUDA: left out, ${QUERN_NVCC} is older than 12.0 or says no release")
    elseif(NOT cudart)
      message(STATUS "CUDA: left out, the toolkit of ${QUERN_NVCC} has no libcudart_static.a")
    else()
      quern_try_nvcc("${cuda_release}" QUERN_HAVE_CUDA cuda_why)
      if(QUERN_HAVE_CUDA)
        message(STATUS "CUDA: ${cuda_release}, ${QUERN_NVCC}, ${cudart}")
      else()
        message(STATUS "CUDA: left out, ${QUERN_NVCC} (${cuda_release}) does not compile: ${cuda_why}")
      endif()
    endif()
  else()
    message(STATUS "CUDA: left out, no nvcc in CUDAToolkit_ROOT, PATH or ${cuda_default}")
  endif()
else()
  message(STATUS "CUDA: left out, by an option")
endif()

if(QUERN_HAVE_CUDA)
  add_library(quern::cudart INTERFACE IMPORTED)
  target_link_libraries(quern::cudart INTERFACE ${cudart} Threads::Threads ${CMAKE_DL_LIBS} rt)
endif()

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
