// quern-rpcdoc: prints doc/rpc.md (default) or the OpenRPC document (--openrpc) from the methods' declarations. Calls
// no method, so it needs no node.
#include <cstdio>
#include <string_view>

#include "quern_version.h"
#include "rpc/methods/backend.h"

int main(int argc, char** argv) {
    const std::string_view mode = argc > 1 ? argv[1] : "";
    if (argc > 2 || (!mode.empty() && mode != "--openrpc")) {
        std::fputs("usage: quern-rpcdoc [--openrpc]\n", stderr);
        return 2;
    }
    quern::rpc::methods::Backend backend;
    backend.version = QUERN_VERSION;
    const auto registry = quern::rpc::methods::make_registry(backend);
    if (!registry) {
        std::fprintf(stderr, "quern-rpcdoc: %s\n", registry.error().to_string().c_str());
        return 1;
    }
    const std::string text =
        mode.empty() ? (*registry)->markdown() : (*registry)->openrpc(backend.version).dump_pretty() + "\n";
    std::fputs(text.c_str(), stdout);
    return 0;
}
