// A worker's view of its node: JSON-RPC calls and the content store over one HTTP connection. Nothing is kept; every
// answer is checked for shape. Used by one thread.
#pragma once

#include <optional>
#include <vector>

#include "base/http_client.h"
#include "base/json.h"
#include "chain/types/native_objects.h"

namespace quern::compute::worker {

struct RpcFailure {
    std::int64_t code = 0;
    std::string message;
};

struct TransactionOutcome {
    bool success = false;
    std::uint64_t block = 0;
    std::string failure;  // result code of a failed native transaction
};

// The node did not answer: says nothing about what was asked for.
[[nodiscard]] inline bool node_was_away(const Error& error) {
    return error.name.starts_with("http.") || error.name.starts_with("node.");
}

class NodeClient {
public:
    NodeClient(std::string host, std::uint16_t port);

    // One call. Errors: http.*, node.bad_answer, node.rpc_error (the detail is the node's message).
    [[nodiscard]] Expected<json::Value> call(std::string_view method, json::Value params);

    [[nodiscard]] Expected<std::uint64_t> chain_id();
    [[nodiscard]] Expected<std::uint64_t> block_number();
    [[nodiscard]] Expected<Uint256> gas_price();
    [[nodiscard]] Expected<std::uint64_t> pending_nonce(const chain::types::Address& address);
    [[nodiscard]] Expected<Uint256> balance(const chain::types::Address& address);
    // Of a call to a reserved address; a call that would fail is an error with the failure's text.
    [[nodiscard]] Expected<std::uint64_t> estimate_gas(const chain::types::Address& from,
                                                       const chain::types::Address& to, BytesView data);
    [[nodiscard]] Expected<Hash32> send_raw(BytesView encoded);
    [[nodiscard]] Expected<std::optional<TransactionOutcome>> outcome(const Hash32& transaction);

    // Tasks that are not final, by id.
    [[nodiscard]] Expected<std::vector<chain::types::Task>> live_tasks();
    [[nodiscard]] Expected<chain::types::Dispute> dispute(std::uint64_t id);
    [[nodiscard]] Expected<chain::types::Task> task(std::uint64_t id);

    // The bond of a role; nullopt: none.
    [[nodiscard]] Expected<std::optional<chain::types::RoleBond>> bond(chain::types::Role role,
                                                                       const chain::types::Address& address);

    // Contents up to `max_bytes`; the id is checked. Errors: content.not_found, content.too_large, content.id_mismatch.
    [[nodiscard]] Expected<Bytes> get_content(const Hash32& id, std::uint64_t max_bytes);
    // Uploads unless the node has it; returns the id.
    [[nodiscard]] Expected<Hash32> put_content(BytesView content);

private:
    http::Client http_;
    std::uint64_t next_id_ = 1;
};

}  // namespace quern::compute::worker
