// jemalloc's settings in a program that links it as a node does (quern_allocator in cmake/QuernModule.cmake): it reads
// this name at its start. What a block of some thousands of transactions needs, single tables of more than 8 MiB among
// it, stays with the process for the next block; without the first setting each such table is fetched from the kernel
// page by page and given back. What is not used again goes back after ten seconds (jemalloc's default), of threads that
// have nothing to do, too: by itself jemalloc looks at the time only when a thread of the same arena allocates or
// frees, and what a flood of requests took would stay until the next one. The second setting has a thread of its own
// look.
extern "C" {
extern const char* const malloc_conf;  // NOLINT(readability-identifier-naming)
const char* const malloc_conf = "oversize_threshold:0,background_thread:true";
}
