// Lists of shards (crypto/content_shards.h): one question and one answer each. A list is checked by folding it, on the
// content threads, and put into the store there.
#include <boost/asio/post.hpp>

#include "base/thread_priority.h"
#include "p2p/network_impl.h"

namespace quern::p2p {
namespace {

using messages::RefusalCode;

constexpr std::size_t kShardsAskedAtOnce = 3;         // peers for one list
constexpr std::uint64_t kShardSearchUs = 20'000'000;  // silent peers hold the search's place for no longer

}  // namespace

void Network::Impl::search_shards(const Hash32& id) {
    for (;;) {
        // A question that cannot be sent is answered at once, and may have ended the search.
        const auto at = shard_searches.find(id);
        if (at == shard_searches.end()) return;
        ShardSearch& search = at->second;
        if (now_us() >= search.until_us && !search.left.empty()) {
            search.left.clear();
            search.unsure = true;
        }
        if (search.left.empty() && search.asked == 0)
            return end_search(id, search.unsure ? busy("network.shards_not_given") : fail("content.not_found"));
        if (search.left.empty() || search.asked >= kShardsAskedAtOnce) return;
        const Bytes20 peer = search.left.back();
        search.left.pop_back();
        if (const auto known = peers.find(peer); known != peers.end()) {
            if (known->second.shards_pace.available(now_us()) < 1) {  // it may be asked by the next search
                search.unsure = true;
                continue;
            }
            known->second.shards_pace.spend(1);
        }
        ++search.asked;
        request(peer, Type::get_shards, encode(messages::GetShards{id}), kRequestMs,
                [this, id, peer, number = search.number](const Expected<Bytes>& body) {
                    take_shards(id, number, peer, body);
                });
    }
}

void Network::Impl::take_shards(const Hash32& id, std::uint64_t number, const Bytes20& from,
                                const Expected<Bytes>& answer) {
    const auto search_of = [this, id, number]() -> ShardSearch* {
        const auto at = shard_searches.find(id);
        return at == shard_searches.end() || at->second.number != number ? nullptr : &at->second;
    };
    ShardSearch* const search = search_of();
    if (search == nullptr || stopping) return;
    if (!answer) {
        --search->asked;
        search->unsure = search->unsure || answer.error().is_busy();
        return search_shards(id);
    }
    auto shards = messages::decode_shards(*answer);
    if (!shards) {
        penalize(from, Offence::malformed, shards.error().to_string());
        if (ShardSearch* const now = search_of()) --now->asked;
        return search_shards(id);
    }
    asio::post(*content_threads, [this, id, from, search_of, encoded = std::move(shards->list)] {
        stand_back(kRelayNice);
        const auto list = crypto::decode_content_shards(encoded, options.contents->shard_level());
        const bool good = list && list->id() == id;
        quern::Status stored = good ? options.contents->put_shards(*list) : fail("content.id_mismatch");
        post([this, id, from, search_of, good, stored = std::move(stored)] {
            if (!good) penalize(from, Offence::bad_leaf, "shards that do not make the id");
            ShardSearch* const now = search_of();
            if (now == nullptr) return;
            if (good) return end_search(id, stored);
            --now->asked;
            search_shards(id);
        });
    });
}

void Network::Impl::end_search(const Hash32& id, const quern::Status& status) {
    const auto at = shard_searches.find(id);
    if (at == shard_searches.end()) return;
    const auto done = std::move(at->second.done);
    shard_searches.erase(at);
    for (const auto& each : done) each(status);
}

void Network::Impl::serve_shards(Peer& peer, std::uint32_t stream, const messages::GetShards& asked) {
    if (!peer.answers->has_room(crypto::kMaxShardListBytes)) return refuse(peer.address, stream, RefusalCode::busy);
    const std::string host = payer(peer);
    if (!list_budget.may_spend(host, now_us())) return refuse(peer.address, stream, RefusalCode::busy);
    Responder reply = responder(peer, Type::get_shards, stream);
    if (options.contents == nullptr) return reply.refuse(RefusalCode::not_found);
    reads.add(host, [this, host, id = asked.id, reply]() mutable {
        // One that was not asked for lately is read and folded.
        if (const std::uint64_t cost = options.contents->unread_list_bytes(id); cost != 0)
            post([this, host, cost] { list_budget.spend(host, cost, now_us()); });
        const auto list = options.contents->shards(id);
        if (!list) return reply.refuse(RefusalCode::not_found);
        reply.answer(messages::Shards{crypto::encode(**list)});
    });
    read_next();
}

void Network::fetch_shards(const Hash32& id, std::function<void(quern::Status)> done) {
    impl_->post([impl = impl_.get(), id, done = std::move(done)]() mutable {
        if (impl->options.contents == nullptr || impl->stopping)
            return done(fail(impl->stopping ? "network.stopped" : "network.no_store"));
        const auto known = impl->shard_searches.find(id);
        if (known != impl->shard_searches.end()) return known->second.done.push_back(std::move(done));
        if (impl->shard_searches.size() >= kMaxShardSearches) return done(busy("network.too_many_fetches"));
        ShardSearch& search = impl->shard_searches[id];
        search.number = ++impl->fetches_begun;
        search.until_us = impl->now_us() + kShardSearchUs;
        search.done.push_back(std::move(done));
        for (const auto& [address, peer] : impl->peers)
            if (peer.session.has_hello()) search.left.push_back(address);
        for (std::size_t n = search.left.size(); n > 1; --n)
            std::swap(search.left[n - 1], search.left[impl->rng.below(n)]);
        impl->search_shards(id);
    });
}

}  // namespace quern::p2p
