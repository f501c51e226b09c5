// JSON-RPC calls and content transfers to a node, over one kept HTTP connection. Used by quern-cli and tests. A Client
// belongs to one thread at a time.
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/http_client.h"
#include "crypto/content_shards.h"
#include "rpc/error.h"

namespace quern::rpc {

class Client {
public:
    Client(std::string host, std::uint16_t port, http::ClientOptions options = {});

    // "user:password", the node's cookie for instance: for administration and to have contents fetched. A node that
    // does not know them is asked without.
    void set_cookie(std::string_view cookie);

    // The inner value or error is the node's answer. Errors: http.*, json.*, rpc.bad_answer (not a JSON-RPC response),
    // rpc.refused (another status than 200; the detail has it).
    [[nodiscard]] Expected<Result> call(std::string_view method, json::Value params = json::Value::array());
    struct Request {
        std::string method;
        json::Value params = json::Value::array();
    };
    // One batch; answers in the order of the requests.
    [[nodiscard]] Expected<std::vector<Result>> batch(const std::vector<Request>& requests);

    // Streams a content to `sink`. Errors: content.not_found, content.on_its_way (busy: the node gets it from others),
    // content.busy (the node has too much to do), content.refused, http.*, and the sink's.
    [[nodiscard]] Status get_content(const Hash32& id, const http::Sink& sink);
    // The content's size. Errors: content.not_found, content.busy (also when it is on its way: an answer to HEAD cannot
    // say why), content.refused, http.*.
    [[nodiscard]] Expected<std::uint64_t> content_size(const Hash32& id);
    // Streams `size` bytes from `source` into the store, unless it has the content. Errors: content.busy,
    // content.refused, http.*.
    [[nodiscard]] Status put_content(const Hash32& id, std::uint64_t size, const http::Source& source);
    // The list of the shards of a content that is stored by shard; it makes the id. Errors: those of get_content,
    // content.id_mismatch.
    [[nodiscard]] Expected<crypto::ContentShards> get_shards(const Hash32& id);
    // Stores the list, unless it is there. Errors as put_content.
    [[nodiscard]] Status put_shards(const crypto::ContentShards& list);

private:
    void authorize(http::Request& request) const;
    [[nodiscard]] Expected<json::Value> post(const json::Value& document);

    http::Client http_;
    std::string authorization_;
    std::uint64_t next_id_ = 1;
};

}  // namespace quern::rpc
