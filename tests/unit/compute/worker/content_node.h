// A node of which a worker asks contents and nothing else.
#pragma once

#include "compute/worker/node_view.h"
#include "crypto/content_id.h"
#include "lifecycle_fixture.h"

namespace quern::compute::worker::test {

using namespace chain::exec::test;

struct Contents {
    std::map<Hash32, Bytes, BytesLess> files;
    std::map<Hash32, int, BytesLess> asked;
    std::function<void(const Hash32&)> when_asked;
};

class ContentNode final : public NodeView {
public:
    explicit ContentNode(Contents& contents) : contents_(contents) {}
    Expected<Bytes> get_content(const Hash32& id, std::uint64_t) override {
        ++contents_.asked[id];
        if (contents_.when_asked) contents_.when_asked(id);
        const auto found = contents_.files.find(id);
        if (found == contents_.files.end()) return fail(kContentNotFound);
        return found->second;
    }
    Expected<Hash32> put_content(BytesView content) override {
        const Hash32 id = crypto::content_id_of(content);
        contents_.files[id] = Bytes(content.begin(), content.end());
        return id;
    }
    // Nothing else is asked of it.
    Expected<MarketNews> market_news(const std::optional<Head>&) override { return fail("node.down"); }
    Expected<Uint256> gas_price() override { return fail("node.down"); }
    Expected<std::uint64_t> pending_nonce(const Address&) override { return fail("node.down"); }
    Expected<std::uint64_t> estimate_gas(const Address&, const Address&, BytesView) override {
        return fail("node.down");
    }
    Expected<Hash32> send_raw(BytesView) override { return fail("node.down"); }
    Expected<std::optional<TransactionOutcome>> outcome(const Hash32&) override { return fail("node.down"); }
    Expected<bool> knows(const Hash32&) override { return fail("node.down"); }
    Expected<std::vector<TaskClaim>> live_tasks() override { return fail("node.down"); }
    Expected<Dispute> dispute(std::uint64_t) override { return fail("node.down"); }
    Expected<std::optional<chain::types::RoleBond>> bond(Role, const Address&) override { return fail("node.down"); }

private:
    Contents& contents_;
};

}  // namespace quern::compute::worker::test
