// A node of which a worker asks contents and nothing else.
#pragma once

#include <map>
#include <set>

#include "base/mutex.h"
#include "content_parts.h"

namespace quern::compute::worker::test {

using chain::types::Address;

using Files = std::map<Hash32, Bytes, BytesLess>;
struct Contents {
    Mutex mutex;  // of files: states come from a thread of their own
    Files files;
    std::map<Hash32, int, BytesLess> asked;
    std::map<Hash32, std::vector<std::uint64_t>, BytesLess> read;  // where each part began that was asked for
    std::vector<Hash32> asked_leaves;
    std::map<Hash32, crypto::ContentShards, BytesLess> lists;
    std::optional<Error> unreadable;  // what such a question is answered with
    std::function<void(const Hash32&)> when_asked;
    std::function<Status()> when_put;  // before anything is taken
    std::function<Status()> when_dropped;
    std::set<Hash32> held;  // by a duty
    std::function<void()> when_read;
};

inline Expected<Bytes> read_all(std::uint64_t size, const ByteSource& source) {
    Bytes content(size);
    for (std::size_t at = 0; at < size;) {
        QUERN_TRY(const std::size_t more, source(std::span(content).subspan(at)));
        at += more;
    }
    return content;
}

class ContentNode : public NodeView {
public:
    explicit ContentNode(Contents& contents) : contents_(contents) {}
    Expected<Bytes> get_content(const Hash32& id, std::uint64_t) override {
        ++contents_.asked[id];
        if (contents_.when_asked) contents_.when_asked(id);
        const MutexLock lock(contents_.mutex);
        const auto found = contents_.files.find(id);
        if (found == contents_.files.end()) return fail(kContentNotFound);
        return found->second;
    }
    Expected<ContentLeaves> content_leaves(const Hash32& id, std::uint64_t) override {
        const MutexLock lock(contents_.mutex);
        contents_.asked_leaves.push_back(id);
        const auto found = contents_.files.find(id);
        if (found == contents_.files.end()) return fail(kContentNotFound);
        return leaves_of(found->second);
    }
    Expected<crypto::ContentShards> content_shards(const Hash32& id, unsigned) override {
        const auto found = contents_.lists.find(id);
        if (found == contents_.lists.end()) return fail(kContentNotFound);
        return found->second;
    }
    Expected<Bytes> read_content(const Hash32& id, std::uint64_t first, std::uint64_t length) override {
        contents_.read[id].push_back(first);
        if (contents_.when_read) contents_.when_read();
        if (contents_.unreadable) return fail(*contents_.unreadable);
        const MutexLock lock(contents_.mutex);
        return part_of(contents_.files.at(id), first, length);
    }
    Status put_stream(const Hash32& id, std::uint64_t size, const ByteSource& source) override {
        if (contents_.when_put) QUERN_CHECK(contents_.when_put());
        QUERN_TRY(Bytes content, read_all(size, source));
        if (crypto::content_id_of(content) != id) return fail("content.id_mismatch");
        const MutexLock lock(contents_.mutex);
        contents_.files[id] = std::move(content);
        return {};
    }
    Expected<bool> has_content(const Hash32& id) override { return contents_.files.contains(id); }
    Expected<std::vector<Hash32>> drop_contents(std::span<const Hash32> ids) override {
        if (contents_.when_dropped) QUERN_CHECK(contents_.when_dropped());
        std::vector<Hash32> held;
        for (const Hash32& id : ids) {
            if (contents_.held.contains(id))
                held.push_back(id);
            else
                contents_.files.erase(id);
        }
        return held;
    }
    // Nothing else is asked of it.
    Expected<MarketNews> market_news(const std::optional<Head>&) override { return fail("node.down"); }
    Expected<Uint256> gas_price() override { return fail("node.down"); }
    Expected<Uint256> tip() override { return fail("node.down"); }
    Expected<std::uint64_t> pending_nonce(const Address&) override { return fail("node.down"); }
    Expected<std::uint64_t> estimate_gas(const Address&, const Address&, BytesView) override {
        return fail("node.down");
    }
    Expected<Hash32> send_raw(BytesView) override { return fail("node.down"); }
    Expected<std::optional<TransactionOutcome>> outcome(const Hash32&) override { return fail("node.down"); }
    Expected<bool> knows(const Hash32&) override { return fail("node.down"); }
    Expected<std::vector<chain::types::TaskClaim>> live_tasks() override { return fail("node.down"); }
    Expected<DisputeNews> dispute(std::uint64_t) override { return fail("node.down"); }
    Expected<std::vector<Hash32>> revealed_probes(const chain::types::VerifierReport&) override {
        return fail("node.down");
    }
    Expected<chain::params::MarketParams> market_params() override { return fail("node.down"); }
    Expected<std::optional<chain::types::RoleBond>> bond(chain::types::Role, const Address&) override {
        return fail("node.down");
    }

private:
    Contents& contents_;
};

}  // namespace quern::compute::worker::test
