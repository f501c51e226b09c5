# The tag's archive as GitHub serves it; Debian's orig tarball is the same file, byte by byte.
leveldb_version := 1.23
leveldb_file := leveldb-1.23.tar.gz
leveldb_sha256 := 9a37f8a6174f09bd622bc723b55881dc541cd50747cbd08831c2a82d620f6d76
leveldb_urls := https://github.com/google/leveldb/archive/refs/tags/1.23.tar.gz \
                https://deb.debian.org/debian/pool/main/l/leveldb/leveldb_1.23.orig.tar.gz

# Static, without what a host may or may not have (Snappy, CRC32C, tcmalloc). Arguments: source, build, stage.
define leveldb_build
cmake -S $(1) -B $(2) -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=$(3) -DCMAKE_INSTALL_LIBDIR=lib \
  -DCMAKE_C_COMPILER=$(CC) -DCMAKE_CXX_COMPILER=$(CXX) -DCMAKE_C_FLAGS="$(CFLAGS)" -DCMAKE_CXX_FLAGS="$(CXXFLAGS)" \
  -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF -DLEVELDB_BUILD_TESTS=OFF -DLEVELDB_BUILD_BENCHMARKS=OFF \
  -DHAVE_SNAPPY=OFF -DHAVE_CRC32C=OFF -DHAVE_TCMALLOC=OFF \
&& cmake --build $(2) --parallel $(JOBS) && cmake --install $(2)
endef
