// admin_*: local administration with the node's cookie.
#include "rpc/methods/backend.h"

namespace quern::rpc::methods {

Status add_admin_methods(Registry& registry, const Backend& backend) {
    return registry.add({"admin_stop",
                         "Stops the node cleanly.",
                         {},
                         {"boolean", "true: the node is stopping"},
                         {},
                         {{"[]", "true"}},
                         [stop = backend.request_stop](const Call&) -> Result {
                             if (!stop) return rpc_fail(kServerError, "this node cannot be stopped from here");
                             stop();
                             return json::Value(true);
                         },
                         Access::cookie});
}

}  // namespace quern::rpc::methods
