// A worker's view of its node over one HTTP connection: JSON-RPC calls and the content store. Nothing is kept; every
// answer is checked for shape. Used by one thread.
#pragma once

#include <chrono>

#include "base/http_client.h"
#include "base/json.h"
#include "compute/worker/node_view.h"

namespace quern::compute::worker {

// Of the answer to one call: a task with the largest header, in hex, is a quarter of it.
inline constexpr std::uint64_t kMaxAnswerBytes = 4U << 20;

// What task_changes answers. Errors: json.*, hex.*, bytes.*.
[[nodiscard]] Expected<MarketNews> read_news(const json::Value& answer);

class NodeClient final : public NodeView {
public:
    // `credentials_file`: "user:password" for the node, its .cookie for instance; read when it is needed and again when
    // the node does not know them any more. Empty: none.
    struct Options {
        http::ClientOptions http;         // how long one call may take
        std::uint64_t list_ms = 120'000;  // all pages of the list of tasks
        unsigned shard_level = crypto::kContentShardLevel;
    };
    NodeClient(std::string host, std::uint16_t port, std::string credentials_file, const Options& options);
    NodeClient(std::string host, std::uint16_t port, std::string credentials_file = {})
        : NodeClient(std::move(host), port, std::move(credentials_file), Options{}) {}

    // One call, whose answer has so many bytes at most. Errors: http.* and node.bad_answer (busy), node.rpc_error (the
    // detail is the node's message).
    [[nodiscard]] Expected<json::Value> call(std::string_view method, json::Value params,
                                             std::uint64_t max_bytes = kMaxAnswerBytes);

    [[nodiscard]] std::unique_ptr<NodeView> another() const override;
    [[nodiscard]] Expected<std::uint64_t> chain_id();
    [[nodiscard]] Expected<MarketNews> market_news(const std::optional<Head>& since) override;
    [[nodiscard]] Expected<Uint256> gas_price() override;
    [[nodiscard]] Expected<Uint256> tip() override;
    [[nodiscard]] Expected<std::uint64_t> pending_nonce(const chain::types::Address& address) override;
    [[nodiscard]] Expected<std::uint64_t> estimate_gas(const chain::types::Address& from,
                                                       const chain::types::Address& to, BytesView data) override;
    [[nodiscard]] Expected<Hash32> send_raw(BytesView encoded) override;
    [[nodiscard]] Expected<std::optional<TransactionOutcome>> outcome(const Hash32& transaction) override;
    [[nodiscard]] Expected<bool> knows(const Hash32& transaction) override;

    [[nodiscard]] Expected<std::vector<chain::types::TaskClaim>> live_tasks() override;
    [[nodiscard]] Expected<std::optional<chain::types::Task>> task(std::uint64_t id) override;
    [[nodiscard]] Expected<DisputeNews> dispute(std::uint64_t id) override;
    [[nodiscard]] Expected<std::vector<Hash32>> revealed_probes(const chain::types::VerifierReport& report) override;

    [[nodiscard]] Expected<chain::params::MarketParams> market_params() override;
    [[nodiscard]] Expected<Uint256> watch_bonds() override;
    [[nodiscard]] Expected<std::optional<chain::types::RoleBond>> bond(chain::types::Role role,
                                                                       const chain::types::Address& address) override;

    [[nodiscard]] Expected<Bytes> get_content(const Hash32& id, std::uint64_t max_bytes) override;
    [[nodiscard]] Expected<ContentLeaves> content_leaves(const Hash32& id, std::uint64_t max_bytes) override;
    [[nodiscard]] Expected<crypto::ContentShards> content_shards(const Hash32& id, unsigned level) override;
    [[nodiscard]] Expected<Bytes> read_content(const Hash32& id, std::uint64_t first, std::uint64_t length) override;
    [[nodiscard]] Status put_stream(const Hash32& id, std::uint64_t size, const ByteSource& source) override;
    [[nodiscard]] Status put_shards(const crypto::ContentShards& list) override;
    [[nodiscard]] Expected<bool> has_content(const Hash32& id) override;
    [[nodiscard]] Expected<std::set<Hash32>> want_contents(std::span<const Hash32> ids,
                                                           std::uint64_t max_bytes) override;
    [[nodiscard]] Expected<std::vector<Hash32>> drop_contents(std::span<const Hash32> ids) override;

private:
    enum class As : bool { anybody, owner };  // without credentials, or with them
    [[nodiscard]] Expected<json::Value> call_as(As who, std::string_view method, json::Value params,
                                                std::uint64_t max_bytes);
    [[nodiscard]] Expected<std::vector<Hash32>> contents_of(std::string_view method, std::string_view field,
                                                            std::span<const Hash32> ids,
                                                            std::optional<std::uint64_t> max_bytes = {});
    // False when there are none.
    bool read_credentials();
    // With credentials; once more with new ones when the node refuses the old.
    template <class Send>
    [[nodiscard]] Expected<http::Response> with_credentials(http::Request& request, Send&& send);
    // What comes with this status for a request about a content. Errors: content.too_large beyond `max_bytes`, and
    // those of get_content.
    [[nodiscard]] Expected<Bytes> download(http::Request request, unsigned status, const Hash32& id,
                                           std::uint64_t max_bytes);

    [[nodiscard]] Status upload(const std::string& target, std::uint64_t size, const ByteSource& source);
    [[nodiscard]] Expected<Bytes> get_whole(const Hash32& id, std::uint64_t max_bytes);

    const std::string host_;
    const std::uint16_t port_;
    const Options options_;
    http::Client http_;
    const std::string credentials_file_;
    std::string authorization_;
    std::uint64_t next_id_ = 1;
    std::size_t answer_bytes_ = 0;  // of the newest answer
};

}  // namespace quern::compute::worker
