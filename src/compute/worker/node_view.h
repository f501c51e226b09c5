// What a worker asks of its node, as an interface: NodeClient is the node over HTTP; tests put a chain of their own
// behind it. An error of the kind busy says nothing about what was asked for: the node did not answer, answered
// nonsense, or asks to come again. Each instance is used by one thread; a worker makes one for each of its threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/expected.h"
#include "base/json.h"
#include "chain/api/content_gateway.h"
#include "chain/params/params.h"
#include "chain/types/native_objects.h"
#include "crypto/content_shards.h"

namespace quern::compute::worker {

struct TransactionOutcome {
    bool success = false;
    std::uint64_t block = 0;
    std::string failure;  // result code of a failed native transaction
};
inline constexpr std::string_view kOutOfGas = "out of gas";           // such a failure, as chain/exec names it
inline constexpr std::string_view kTickedAlready = "tick.too_early";  // a tick's, when somebody's tick came first

// A node's newest block.
struct Head {
    std::uint64_t height = 0;
    Hash32 hash;
    std::uint64_t market_ms = 0;
    friend bool operator==(const Head&, const Head&) = default;
};

// What changed of a live task: fields of its record and of its unsettled claims' with their values now; null: none did.
struct TaskNews {
    std::uint64_t id = 0;
    json::Value task;
    json::Value claim;  // the present one
    json::Value next;   // the one after it
};
struct MarketNews {
    Head head;
    bool complete = false;                // else the node cannot tell since that block: all is to be read anew
    std::vector<TaskNews> tasks;          // new ones whole
    std::vector<std::uint64_t> ended;     // tasks that are live no more
    std::vector<std::uint64_t> disputes;  // that changed
    std::size_t bytes = 0;                // of the answer
};

inline constexpr std::string_view kBadAnswer = "node.bad_answer";
inline constexpr std::string_view kIdMismatch = "content.id_mismatch";
// No connected node has the content, or sends it.
inline constexpr std::string_view kContentNotFound = "content.not_found";
[[nodiscard]] inline bool is_not_found(const Error& error) { return error.name == kContentNotFound; }
inline constexpr std::string_view kContentTooLarge = "content.too_large";
// The node has too much else to do to fetch it.
inline constexpr std::string_view kContentBusy = "content.busy";
[[nodiscard]] inline bool is_on_its_way(const Error& error) { return error.name == chain::api::kContentOnItsWay; }

// Fills the buffer with the next bytes and says how many; 0 at the end.
using ByteSource = std::function<Expected<std::size_t>(std::span<std::uint8_t>)>;

// What parts of a content are checked with (crypto/content_id.h).
struct ContentLeaves {
    std::uint64_t size = 0;
    std::vector<Hash32> leaves;
};

struct DisputeNews {
    chain::types::Dispute dispute;
    Bytes post;  // that waits for the rival, not checked; empty: none does, or the node does not know it
};

// That these bytes are the leaves of the content `id` from number `first` on, one at least; `leaves` are all of them.
// Error content.id_mismatch (busy).
[[nodiscard]] Status check_leaves(const Hash32& id, BytesView bytes, std::span<const Hash32> leaves,
                                  std::uint64_t first);

class NodeView {
public:
    virtual ~NodeView() = default;

    // The same node over a connection of its own, for another thread; null: there is no other one.
    [[nodiscard]] virtual std::unique_ptr<NodeView> another() const { return nullptr; }

    // The newest block, and what changed since a block that it told of before. Error node.bad_answer (busy).
    [[nodiscard]] virtual Expected<MarketNews> market_news(const std::optional<Head>& since) = 0;
    // Grains per gas: what a transaction costs now, and the part of it above the base fee.
    [[nodiscard]] virtual Expected<Uint256> gas_price() = 0;
    [[nodiscard]] virtual Expected<Uint256> tip() = 0;
    [[nodiscard]] virtual Expected<std::uint64_t> pending_nonce(const chain::types::Address& address) = 0;
    // Of a call to a reserved address; a call that would fail is an error with the failure's text.
    [[nodiscard]] virtual Expected<std::uint64_t> estimate_gas(const chain::types::Address& from,
                                                               const chain::types::Address& to, BytesView data) = 0;
    [[nodiscard]] virtual Expected<Hash32> send_raw(BytesView encoded) = 0;
    [[nodiscard]] virtual Expected<std::optional<TransactionOutcome>> outcome(const Hash32& transaction) = 0;
    // Whether it waits in the mempool or is in a block.
    [[nodiscard]] virtual Expected<bool> knows(const Hash32& transaction) = 0;

    // Tasks that are live with their present claims, by id; one with two unsettled claims once with each.
    [[nodiscard]] virtual Expected<std::vector<chain::types::TaskClaim>> live_tasks() = 0;
    // Any task, also one that has ended; nullopt: none, or it was deleted. Errors: the node's.
    [[nodiscard]] virtual Expected<std::optional<chain::types::Task>> task(std::uint64_t /*id*/) {
        return busy(kBadAnswer);
    }
    [[nodiscard]] virtual Expected<DisputeNews> dispute(std::uint64_t id) = 0;
    // Hashes of the probe tiles that the report's verifier has revealed; not checked against its result root.
    [[nodiscard]] virtual Expected<std::vector<Hash32>> revealed_probes(const chain::types::VerifierReport& report) = 0;
    // The chain's parameters of the market.
    [[nodiscard]] virtual Expected<chain::params::MarketParams> market_params() = 0;
    // The bond of a role; nullopt: none.
    [[nodiscard]] virtual Expected<std::optional<chain::types::RoleBond>> bond(
        chain::types::Role role, const chain::types::Address& address) = 0;

    // What all whistleblowers have bonded; zero where that is not told.
    [[nodiscard]] virtual Expected<Uint256> watch_bonds() { return Uint256(); }

    // Contents up to `max_bytes`; the id is checked. Errors: content.not_found (no connected node has it),
    // content.too_large; busy: content.on_its_way and content.busy (ask again), content.id_mismatch (the node's fault).
    [[nodiscard]] virtual Expected<Bytes> get_content(const Hash32& id, std::uint64_t max_bytes) = 0;
    // The size and the leaves of a content of up to `max_bytes`; they make the id. Errors as get_content.
    [[nodiscard]] virtual Expected<ContentLeaves> content_leaves(const Hash32& id, std::uint64_t max_bytes) = 0;
    // The list of the shards of a content that is larger than one; it makes the id. Errors as get_content.
    [[nodiscard]] virtual Expected<crypto::ContentShards> content_shards(const Hash32& id, unsigned /*level*/) {
        return fail(kContentNotFound, to_hex(id));
    }
    // Bytes [first, first + length), at least one, which lie within the content; not checked. Errors:
    // content.not_found; busy: content.on_its_way, content.busy, node.bad_answer.
    [[nodiscard]] virtual Expected<Bytes> read_content(const Hash32& id, std::uint64_t first, std::uint64_t length) = 0;
    // Uploads the content `id`, of `size` bytes that nobody need hold at once, unless the node has it. Errors:
    // content.upload_refused; the source's, which end it.
    [[nodiscard]] virtual Status put_stream(const Hash32& id, std::uint64_t size, const ByteSource& source) = 0;
    // The same of bytes in memory; returns their id.
    [[nodiscard]] Expected<Hash32> put_content(BytesView content);
    // Uploads the list of shards that are all there. Error content.upload_refused.
    [[nodiscard]] virtual Status put_shards(const crypto::ContentShards& list) {
        return fail("content.upload_refused", to_hex(list.id()));
    }
    // Whether the node has it itself, without asking others.
    [[nodiscard]] virtual Expected<bool> has_content(const Hash32& id) = 0;
    // Says which contents will be asked for next, in this order, so that a node that lacks them gets them meanwhile,
    // none that is larger than `max_bytes`; gives those that it has itself.
    [[nodiscard]] virtual Expected<std::set<Hash32>> want_contents(std::span<const Hash32> ids,
                                                                   std::uint64_t max_bytes);
    // Takes contents out of the node's store, but for those that it has a duty to serve: these are given. Errors:
    // node.rpc_error (a node that lets this worker take none, for instance).
    [[nodiscard]] virtual Expected<std::vector<Hash32>> drop_contents(std::span<const Hash32> ids) = 0;
};

using NodeFactory = std::function<std::unique_ptr<NodeView>()>;

}  // namespace quern::compute::worker
