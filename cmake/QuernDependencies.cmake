# Finds what Quern builds with. All of it but blst is in Debian 12; why each is used: doc/dependencies.md.
find_package(Threads REQUIRED)
find_package(OpenSSL 3 REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(RapidJSON REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(SECP256K1 REQUIRED IMPORTED_TARGET libsecp256k1)

find_library(LEVELDB_LIBRARY leveldb REQUIRED)
find_path(LEVELDB_INCLUDE_DIR leveldb/db.h REQUIRED)
add_library(quern::leveldb INTERFACE IMPORTED)
target_include_directories(quern::leveldb INTERFACE ${LEVELDB_INCLUDE_DIR})
target_link_libraries(quern::leveldb INTERFACE ${LEVELDB_LIBRARY})

# Sanitizers bring an allocator of their own.
if(NOT QUERN_SANITIZE AND NOT QUERN_BUILD_FUZZ)
  find_library(JEMALLOC_LIBRARY jemalloc REQUIRED)
  find_path(JEMALLOC_INCLUDE_DIR jemalloc/jemalloc.h REQUIRED)
endif()

# Crypto++ ships no CMake package in Debian.
find_library(CRYPTOPP_LIBRARY NAMES cryptopp crypto++ REQUIRED)
find_path(CRYPTOPP_INCLUDE_DIR cryptopp/keccak.h REQUIRED)
add_library(quern::cryptopp INTERFACE IMPORTED)
target_include_directories(quern::cryptopp INTERFACE ${CRYPTOPP_INCLUDE_DIR})
target_link_libraries(quern::cryptopp INTERFACE ${CRYPTOPP_LIBRARY})

find_library(GMP_LIBRARY gmp REQUIRED)
find_path(GMP_INCLUDE_DIR gmp.h REQUIRED)
add_library(quern::gmp INTERFACE IMPORTED)
target_include_directories(quern::gmp INTERFACE ${GMP_INCLUDE_DIR})
target_link_libraries(quern::gmp INTERFACE ${GMP_LIBRARY})

find_package(Blst REQUIRED)

add_library(quern::rapidjson INTERFACE IMPORTED)
target_include_directories(quern::rapidjson INTERFACE ${RAPIDJSON_INCLUDE_DIRS})

# PNG and JPEG, of quern-compile alone: as_needed keeps them out of programs that link compute/program for other things.
find_library(SPNG_LIBRARY spng REQUIRED)
find_path(SPNG_INCLUDE_DIR spng.h REQUIRED)
find_library(TURBOJPEG_LIBRARY turbojpeg REQUIRED)
find_path(TURBOJPEG_INCLUDE_DIR turbojpeg.h REQUIRED)
set(CMAKE_LINK_LIBRARY_USING_as_needed_SUPPORTED TRUE)
set(CMAKE_LINK_LIBRARY_USING_as_needed LINKER:--push-state,--as-needed <LINK_ITEM> LINKER:--pop-state)
add_library(quern::image_files INTERFACE IMPORTED)
target_include_directories(quern::image_files INTERFACE ${SPNG_INCLUDE_DIR} ${TURBOJPEG_INCLUDE_DIR})
target_link_libraries(quern::image_files INTERFACE $<LINK_LIBRARY:as_needed,${SPNG_LIBRARY},${TURBOJPEG_LIBRARY}>)

# HTTPS and S3, of the programs that call it: as_needed keeps it out of quernd. Since 7.88 it signs what S3 takes.
find_package(CURL 7.88 REQUIRED)
add_library(quern::curl INTERFACE IMPORTED)
target_include_directories(quern::curl INTERFACE ${CURL_INCLUDE_DIRS})
target_link_libraries(quern::curl INTERFACE $<LINK_LIBRARY:as_needed,${CURL_LIBRARIES}>)

# The messages of ONNX files; of the library's parts the one without its checker and its operators.
find_package(Protobuf REQUIRED)
find_library(ONNX_PROTO_LIBRARY onnx_proto REQUIRED)
find_path(ONNX_INCLUDE_DIR onnx/onnx-ml.pb.h REQUIRED)
add_library(quern::onnx_messages INTERFACE IMPORTED)
target_include_directories(quern::onnx_messages SYSTEM INTERFACE ${ONNX_INCLUDE_DIR} ${Protobuf_INCLUDE_DIRS})
target_compile_definitions(quern::onnx_messages INTERFACE ONNX_ML=1 ONNX_NAMESPACE=onnx)
target_link_libraries(quern::onnx_messages INTERFACE $<LINK_LIBRARY:as_needed,${ONNX_PROTO_LIBRARY},${Protobuf_LIBRARIES}>)

find_path(CLI11_INCLUDE_DIR CLI/CLI.hpp REQUIRED)
find_path(EXPECTED_INCLUDE_DIR tl/expected.hpp REQUIRED)
add_library(quern::headers INTERFACE IMPORTED)
target_include_directories(quern::headers INTERFACE ${CLI11_INCLUDE_DIR} ${EXPECTED_INCLUDE_DIR} ${Boost_INCLUDE_DIRS})

# Intel's library exists for x86-64 alone.
if(QUERN_WITH_IPSEC_MB)
  find_library(IPSEC_MB_LIBRARY IPSec_MB REQUIRED)
  find_path(IPSEC_MB_INCLUDE_DIR intel-ipsec-mb.h REQUIRED)
  add_library(quern::ipsec_mb INTERFACE IMPORTED)
  target_include_directories(quern::ipsec_mb INTERFACE ${IPSEC_MB_INCLUDE_DIR})
  target_link_libraries(quern::ipsec_mb INTERFACE ${IPSEC_MB_LIBRARY})
endif()

# Optional in the same way: without it the same bytes come from tables.
if(QUERN_WITH_ISAL)
  pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
endif()

if(QUERN_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(QUERN_WITH_TORCH)
  find_package(Torch REQUIRED)
  pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
endif()
