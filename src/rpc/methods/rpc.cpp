// rpc_discover and help: the registry about itself.
#include "rpc/methods/backend.h"

namespace quern::rpc::methods {

Status add_rpc_methods(Registry& registry, const Backend& backend) {
    const Registry* all = &registry;
    QUERN_CHECK(registry.add({"rpc_discover",
                              "All methods with their parameters, results, errors and examples.",
                              {},
                              {"object", "an OpenRPC 1.3 document"},
                              {},
                              {},
                              [all, version = backend.version](const Call&) -> Result { return all->openrpc(version); },
                              Access::open,
                              {"rpc.discover"}}));
    return registry.add({"help",
                         "The list of methods, or one method in detail, as text for people.",
                         {{"method", Kind::string, false, "the method's name"}},
                         {"string", "the text"},
                         {{kServerError, "rpc.unknown_method"}},
                         {},
                         [all](const Call& call) -> Result {
                             if (!call.has(0)) return all->help();
                             QUERN_RPC_TRY(auto text, all->help(call.text(0)));
                             return text;
                         }});
}

}  // namespace quern::rpc::methods
