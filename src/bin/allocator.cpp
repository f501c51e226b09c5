// jemalloc's settings in a program that links it as a node does (quern_allocator in cmake/QuernModule.cmake): it reads
// this name at its start. What a block of some thousands of transactions needs, single tables of more than 8 MiB among
// it, stays with the process for the next block; without the setting each such table is fetched from the kernel page by
// page and given back. What is not used again goes back after ten seconds (jemalloc's default).
extern "C" {
extern const char* const malloc_conf;  // NOLINT(readability-identifier-naming)
const char* const malloc_conf = "oversize_threshold:0";
}
