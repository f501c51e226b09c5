# BLS12-381 by Supranational's blst. In no package of Debian; whole, C and generated assembler, in the npm package c-kzg
# of the Ethereum Foundation, whose version is the one below. npm fetches it from the registry that it is set up with.
blst_version := 4.1.0
blst_file := c-kzg-4.1.0.tgz
blst_sha256 := c56d9ed6aaa17bafa95c337c28837c68d2e54dabd76d91a185e2600a26480965
blst_urls := npm:c-kzg@4.1.0

# One C file that includes the others, and one of assembler. __BLST_PORTABLE__: whether the processor has ADX is asked at
# run time, so that what is built on one machine runs on each of its kind. Arguments: source, build, stage.
blst_sources = $(1)/deps/blst
blst_flags := -O2 -fno-builtin -fPIC -D__BLST_PORTABLE__
define blst_build
mkdir -p $(2) $(3)/lib $(3)/include \
&& $(CC) $(CFLAGS) $(blst_flags) -c $(blst_sources)/src/server.c -o $(2)/server.o \
&& $(CC) $(CFLAGS) $(blst_flags) -c $(blst_sources)/build/assembly.S -o $(2)/assembly.o \
&& rm -f $(3)/lib/libblst.a && $(AR) rcs $(3)/lib/libblst.a $(2)/server.o $(2)/assembly.o \
&& cp $(blst_sources)/bindings/blst.h $(blst_sources)/bindings/blst_aux.h $(3)/include/
endef
