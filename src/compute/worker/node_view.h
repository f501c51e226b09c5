// What a worker asks of its node, as an interface: NodeClient is the node over HTTP; tests put a chain of their own
// behind it. An error of the kind busy says nothing about what was asked for: the node did not answer, answered
// nonsense, or asks to come again. Each instance is used by one thread; a worker makes one for each of its threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/expected.h"
#include "chain/api/content_gateway.h"
#include "chain/types/native_objects.h"

namespace quern::compute::worker {

struct TransactionOutcome {
    bool success = false;
    std::uint64_t block = 0;
    std::string failure;  // result code of a failed native transaction
};

// The newest block.
struct Head {
    std::uint64_t height = 0;
    std::uint64_t market_ms = 0;
};

// No connected node has the content, or sends it.
inline constexpr std::string_view kContentNotFound = "content.not_found";
[[nodiscard]] inline bool is_not_found(const Error& error) { return error.name == kContentNotFound; }
[[nodiscard]] inline bool is_on_its_way(const Error& error) { return error.name == chain::api::kContentOnItsWay; }

// Fills the buffer with the next bytes and says how many; 0 only at the end.
using ByteSource = std::function<Expected<std::size_t>(std::span<std::uint8_t>)>;

class NodeView {
public:
    virtual ~NodeView() = default;

    [[nodiscard]] virtual Expected<Head> head() = 0;
    [[nodiscard]] virtual Expected<Uint256> gas_price() = 0;
    [[nodiscard]] virtual Expected<std::uint64_t> pending_nonce(const chain::types::Address& address) = 0;
    // Of a call to a reserved address; a call that would fail is an error with the failure's text.
    [[nodiscard]] virtual Expected<std::uint64_t> estimate_gas(const chain::types::Address& from,
                                                               const chain::types::Address& to, BytesView data) = 0;
    [[nodiscard]] virtual Expected<Hash32> send_raw(BytesView encoded) = 0;
    [[nodiscard]] virtual Expected<std::optional<TransactionOutcome>> outcome(const Hash32& transaction) = 0;
    // Whether it waits in the mempool or is in a block.
    [[nodiscard]] virtual Expected<bool> knows(const Hash32& transaction) = 0;

    // Tasks that are not final with their claims, by id.
    [[nodiscard]] virtual Expected<std::vector<chain::types::TaskClaim>> live_tasks() = 0;
    [[nodiscard]] virtual Expected<chain::types::Dispute> dispute(std::uint64_t id) = 0;
    // The bond of a role; nullopt: none.
    [[nodiscard]] virtual Expected<std::optional<chain::types::RoleBond>> bond(
        chain::types::Role role, const chain::types::Address& address) = 0;

    // Contents up to `max_bytes`; the id is checked. Errors: content.not_found (no connected node has it),
    // content.too_large; busy: content.on_its_way and content.busy (ask again), content.id_mismatch (the node's fault).
    [[nodiscard]] virtual Expected<Bytes> get_content(const Hash32& id, std::uint64_t max_bytes) = 0;
    // Uploads unless the node has it; returns the id.
    [[nodiscard]] virtual Expected<Hash32> put_content(BytesView content) = 0;
    // The same of `size` bytes that nobody holds at once and whose id is known.
    [[nodiscard]] virtual Status put_stream(const Hash32& id, std::uint64_t size, const ByteSource& source) = 0;
};

using NodeFactory = std::function<std::unique_ptr<NodeView>()>;

}  // namespace quern::compute::worker
