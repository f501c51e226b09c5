// Contents: drives the pure plans with requests and files. What is fetched is hashed and written by the content
// threads, from a queue that is bounded by not asking for more.
#include <algorithm>
#include <boost/asio/post.hpp>

#include "base/thread_priority.h"
#include "p2p/network_impl.h"
#include "p2p/transport/host_group.h"

namespace quern::p2p {
namespace {

using content::Manifest;
using content::Store;
using content_exchange::FetchPlan;
using messages::RefusalCode;

constexpr std::size_t kReadsAtOnce = 2;  // chunks for peers that the disk thread has before it
constexpr std::size_t kWorksAtOnce =
    2 * kContentThreads;  // what the content threads have before them; others take turns

// Closes a part where files may be removed, whoever lets go of it last.
struct ClosedElsewhere {
    std::unique_ptr<Store::Part> part;
    std::weak_ptr<asio::thread_pool> where;
    ClosedElsewhere(std::unique_ptr<Store::Part> one, const std::shared_ptr<asio::thread_pool>& threads)
        : part(std::move(one)), where(threads) {}
    ClosedElsewhere(const ClosedElsewhere&) = delete;
    ClosedElsewhere& operator=(const ClosedElsewhere&) = delete;
    ~ClosedElsewhere() {
        if (const auto threads = where.lock()) asio::post(*threads, [closed = std::move(part)] {});
    }
};

// What an earlier run left: the chunks of which there is anything.
struct KeptPart {
    std::shared_ptr<Store::Part> part;
    std::deque<std::uint64_t> chunks;
};
KeptPart kept_part(std::shared_ptr<Store::Part> part) {
    KeptPart kept{std::move(part), {}};
    for (std::uint64_t chunk = 0; chunk * messages::kChunkBytes < kept.part->manifest()->size; ++chunk)
        if (kept.part->has_data(chunk * messages::kChunkBytes, messages::kChunkBytes)) kept.chunks.push_back(chunk);
    return kept;
}

}  // namespace

// --- Contents: fetching ----------------------------------------------------------------------------------------------

template <class Work, class Then>
void Network::Impl::on_content_thread(const Hash32& id, const Fetch& fetch, Work work, Then then) {
    struct Job {
        Work work;
        Then then;
    };
    auto job = std::make_shared<Job>(Job{std::move(work), std::move(then)});
    works.add(to_hex(id), [this, id, number = fetch.number, job = std::move(job)]() mutable {
        asio::post(*content_threads, [this, id, number, job = std::move(job)]() mutable {
            stand_back(kRelayNice);
            auto result = job->work();
            auto tell = std::move(job->then);
            job.reset();  // a chunk's bytes go here
            post([this, id, number, result = std::move(result), tell = std::move(tell)]() mutable {
                --working;
                const auto at = fetches.find(id);
                const bool goes_on = at != fetches.end() && at->second.number == number;
                tell(goes_on ? &at->second : nullptr, std::move(result));
                if (goes_on) go_on(id);
                work_next();
            });
        });
    });
    work_next();
}

// As many as keep the threads busy; the rest waits where fetches take turns.
void Network::Impl::work_next() {
    while (working < kWorksAtOnce && !stopping) {
        auto next = works.next();
        if (!next) return;
        ++working;
        (*next)();
    }
}

template <class Work, class Then>
void Network::Impl::on_file_thread(const Hash32& id, Fetch& fetch, Work work, Then then) {
    fetch.busy = true;
    asio::post(file_threads,
               [this, id, number = fetch.number, work = std::move(work), then = std::move(then)]() mutable {
                   stand_back(kRelayNice);
                   auto result = work();
                   post([this, id, number, result = std::move(result), then = std::move(then)]() mutable {
                       const auto at = fetches.find(id);
                       if (at == fetches.end() || at->second.number != number) return;
                       at->second.busy = false;
                       then(at->second, std::move(result));
                       go_on(id);
                   });
               });
}

std::shared_ptr<Store::Part> Network::Impl::closed_elsewhere(std::unique_ptr<Store::Part> part) {
    Store::Part* const one = part.get();
    return {std::make_shared<ClosedElsewhere>(std::move(part), content_threads), one};
}

void Network::Impl::tick_fetches() {
    ask_for_contents();
    std::vector<Hash32> ids;
    for (auto& [id, fetch] : fetches) {
        (void)fetch.plan.expired(now_ms());
        ids.push_back(id);
    }
    for (const auto& id : ids) go_on(id);
}

void Network::Impl::go_on(const Hash32& id) {
    const auto at = fetches.find(id);
    if (at == fetches.end() || at->second.busy || stopping) return;
    Fetch& fetch = at->second;
    if (now_ms() >= fetch.progress_ms + kFetchStallMs)
        return end_fetch(id, busy("network.fetch_stalled", "nothing came for a while"));
    if (fetch.next_find_ms == 0) find_sources(id, fetch);
    if (!fetch.looked) return look_for_part(id, fetch);
    // Room before the first byte; nobody else gets it until this content is whole or given up.
    if (fetch.plan.manifest() && !fetch.part) return begin_part(id, fetch);
    check_kept(id, fetch);
    if (fetch.plan.is_done()) return store_content(id, fetch);
    if (now_ms() >= fetch.next_find_ms) {
        if (options.contents->size(id)) return end_fetch(id, {});  // it came another way
        find_sources(id, fetch);
    }
    if (!checks.may_ask(fetch.number)) return;  // the disk is slower than the network
    const std::uint64_t number = fetch.number;
    for (const auto& ask : next_asks(id, fetch)) {
        // A question that cannot be sent is answered at once, and may have ended the fetch.
        const auto still = fetches.find(id);
        if (still == fetches.end() || still->second.number != number) return;
        ask_leaves(id, still->second, ask);
    }
}

std::vector<FetchPlan::Ask> Network::Impl::next_asks(const Hash32& id, Fetch& fetch) {
    struct Asked {
        std::size_t chunks = 0;
        std::uint64_t lists = 0;
    };
    std::map<Bytes20, Asked> asked;
    // Of all fetches; only the first that still needs hashes gets them beyond the limit, so that one always goes on.
    std::uint64_t hash_bytes = 0;
    bool is_first = true;
    for (const auto& [other, each] : fetches) {
        hash_bytes += each.plan.hash_bytes();
        is_first &= each.plan.manifest() != nullptr || each.number >= fetch.number;
    }
    bool held = false;
    auto asks = fetch.plan.next_asks(now_ms(), [&](const Bytes20& address, bool hashes) {
        const auto peer = peers.find(address);
        if (peer == peers.end()) return true;  // which is found out when it is asked
        Asked& now = asked[address];
        if (hashes)
            return (is_first || hash_bytes < kMaxHashBytes) && peer->second.list_pace.available(now_us()) > now.lists &&
                   ++now.lists != 0;
        if (peer->second.chunks_asked + now.chunks < content_exchange::kChunksAskedOfPeer) return ++now.chunks != 0;
        held = true;
        return false;
    });
    if (held && !std::exchange(fetch.held_back, true)) held_back.push_back(id);
    return asks;
}

void Network::Impl::go_on_with_held_back() {
    while (!held_back.empty()) {
        const Hash32 id = held_back.front();
        held_back.pop_front();
        const auto at = fetches.find(id);
        if (at == fetches.end() || !std::exchange(at->second.held_back, false)) continue;
        go_on(id);
        const auto still = fetches.find(id);
        if (still != fetches.end() && still->second.held_back) return;
    }
}

void Network::Impl::look_for_part(const Hash32& id, Fetch& fetch) {
    if (now_ms() < fetch.next_look_ms) return;
    fetch.next_look_ms = now_ms() + kTickMs;
    fetch.busy = true;
    on_content_thread(
        id, fetch,
        [this, id]() -> Expected<KeptPart> {
            QUERN_TRY(auto part, options.contents->open_part(id));
            return kept_part(closed_elsewhere(std::move(part)));
        },
        [](Fetch* now, Expected<KeptPart> kept) {
            if (now == nullptr) return;
            now->busy = false;
            // What an earlier fetch of it began may not have ended yet: again at the next tick.
            now->looked = kept || !kept.error().is_busy();
            if (!kept) return;
            now->part = std::move(kept->part);
            now->plan.set_manifest(now->part->manifest());
            now->kept = std::move(kept->chunks);
            for (const auto chunk : now->kept) now->plan.begin_check(chunk);
        });
}

void Network::Impl::begin_part(const Hash32& id, Fetch& fetch) {
    on_file_thread(
        id, fetch,
        [this, id, manifest = fetch.plan.manifest()]() -> Expected<std::shared_ptr<Store::Part>> {
            QUERN_TRY(auto part, options.contents->begin_part(id, manifest));
            return closed_elsewhere(std::move(part));
        },
        [this, id](Fetch& now, Expected<std::shared_ptr<Store::Part>> part) {
            if (!part && part.error().is_busy()) {
                now.looked = false;  // an earlier fetch of it has just begun one: that is the one to go on with
                return;
            }
            if (!part) return end_fetch(id, fail(part.error()));
            now.part = std::move(*part);
        });
}

// A few at a time, so that what comes from peers meanwhile does not wait for all of them.
void Network::Impl::check_kept(const Hash32& id, Fetch& fetch) {
    for (; !fetch.kept.empty() && fetch.kept_checks < kMaxKeptChecks; fetch.kept.pop_front()) {
        const std::uint64_t chunk = fetch.kept.front();
        ++fetch.kept_checks;
        on_content_thread(
            id, fetch,
            [part = fetch.part, chunk] { return part->check(chunk * messages::kChunkBytes, messages::kChunkBytes); },
            [this, chunk](Fetch* now, const quern::Status& status) {
                if (now == nullptr) return;
                --now->kept_checks;
                now->plan.checked(chunk, std::nullopt, status.has_value());
                if (status) now->progress_ms = now_ms();
            });
    }
}

void Network::Impl::find_sources(const Hash32& id, Fetch& fetch) {
    fetch.next_find_ms = now_ms() + kFindContentMs;
    std::vector<Bytes20> targets;
    for (const auto& [address, peer] : peers)
        if (peer.session.has_hello()) targets.push_back(address);
    for (const auto& address : targets) ask_for_content(id, address);
}

// With the others that are wanted of this peer meanwhile.
void Network::Impl::ask_for_content(const Hash32& id, const Bytes20& address) {
    peers.at(address).finds.insert(id);
    if (std::exchange(finds_wait, true)) return;
    post([this] {
        finds_wait = false;
        ask_for_contents();
    });
}

void Network::Impl::ask_for_contents() {
    std::vector<Bytes20> targets;
    for (const auto& [address, peer] : peers)
        if (!peer.finds.empty()) targets.push_back(address);
    for (const auto& address : targets)
        if (const auto peer = peers.find(address); peer != peers.end()) ask_for_contents(peer->second);
}

void Network::Impl::ask_for_contents(Peer& peer) {
    std::erase_if(peer.finds, [this](const Hash32& id) { return !fetches.contains(id); });
    while (!peer.finds.empty() && peer.find_pace.try_take(1, now_us())) {
        std::vector<Hash32> ids;
        while (!peer.finds.empty() && ids.size() < messages::kMaxFindContent)
            ids.push_back(peer.finds.extract(peer.finds.begin()).value());
        request(peer.address, Type::find_content, encode(messages::FindContent{ids}), kRequestMs,
                [this, address = peer.address, ids](const Expected<Bytes>& body) {
                    if (body) take_holdings(address, ids, *body);
                });
    }
}

void Network::Impl::take_holdings(const Bytes20& address, const std::vector<Hash32>& asked, BytesView body) {
    const auto info = messages::decode_content_info(body);
    if (!info) return penalize(address, Offence::malformed, info.error().to_string());
    // Each once at most, and in the order in which they were asked for. A list of changing bitmaps of one content would
    // cost a turn of all its chunks each.
    auto next = asked.begin();
    for (const messages::ContentHolding& holding : info->holdings) {
        next = std::find(next, asked.end(), holding.id);
        if (next == asked.end()) return penalize(address, Offence::malformed, "holdings that were not asked for");
        ++next;
    }
    for (const messages::ContentHolding& holding : info->holdings) {
        const auto now = fetches.find(holding.id);
        const auto peer = peers.find(address);
        if (peer == peers.end()) return;
        if (now == fetches.end()) continue;
        FetchPlan& plan = now->second.plan;
        if (plan.add_source(address, holding, now_ms())) plan.set_round_trip(address, round_trip_ms(peer->second));
        go_on(holding.id);
    }
}

void Network::Impl::ask_leaves(const Hash32& id, const Fetch& fetch, const FetchPlan::Ask& ask) {
    if (const auto peer = peers.find(ask.peer); peer != peers.end()) {
        if (ask.hashes)
            peer->second.list_pace.spend(1);
        else
            ++peer->second.chunks_asked;
    }
    request(ask.peer, ask.hashes ? Type::get_leaf_hashes : Type::get_leaves, encode(ask.request),
            content_exchange::kAnswerMs, [this, id, number = fetch.number, ask](const Expected<Bytes>& body) {
                // A peer that has left took its questions with it.
                if (const auto peer = peers.find(ask.peer); !ask.hashes && peer != peers.end())
                    --peer->second.chunks_asked;
                if (const auto at = fetches.find(id); at != fetches.end() && at->second.number == number)
                    take_answer(id, at->second, ask, body);
                post([this, id] {
                    go_on_with_held_back();
                    go_on(id);
                });
            });
}

void Network::Impl::take_answer(const Hash32& id, Fetch& fetch, const FetchPlan::Ask& ask,
                                const Expected<Bytes>& body) {
    if (!body)
        return body.error().is_busy() ? fetch.plan.refused_for_now(ask, now_ms()) : fetch.plan.failed(ask, now_ms());
    auto leaves = messages::decode_leaves(*body);
    if (!leaves) {
        penalize(ask.peer, Offence::malformed, leaves.error().to_string());
        return fetch.plan.failed(ask, now_ms());
    }
    if (ask.hashes) return take_hashes(id, fetch, ask.peer, *leaves);
    take_chunk(id, fetch, ask, std::move(*leaves));
}

void Network::Impl::take_hashes(const Hash32& id, Fetch& fetch, const Bytes20& from, const messages::Leaves& hashes) {
    auto manifest = fetch.plan.received_hashes(from, hashes);
    if (!manifest) {
        // A request that was given to another meanwhile is no fault of who answers it late.
        if (!manifest.error().is_busy()) penalize(from, Offence::bad_leaf, manifest.error().to_string());
        return;
    }
    if (*manifest == nullptr) return;  // more of them are to come
    on_content_thread(
        id, fetch, [id, manifest = *manifest] { return content::is_manifest_of(*manifest, id); },
        [this, from, manifest = *manifest](Fetch* now, bool good) {
            if (!good) penalize(from, Offence::bad_leaf, "content.id_mismatch");
            if (now != nullptr) now->plan.hashes_checked(from, manifest, good);
        });
}

void Network::Impl::take_chunk(const Hash32& id, Fetch& fetch, const FetchPlan::Ask& ask, messages::Leaves leaves) {
    if (!checks.may_take(fetch.number)) return fetch.plan.refused_for_now(ask, now_ms());
    const auto chunk = fetch.plan.received_leaves(ask.peer, leaves, now_ms());
    if (!chunk) {
        if (!chunk.error().is_busy()) penalize(ask.peer, Offence::bad_leaf, chunk.error().to_string());
        return;
    }
    if (!chunk->is_new) return;
    checks.begin(fetch.number);
    on_content_thread(
        id, fetch,
        [part = fetch.part, offset = chunk->number * messages::kChunkBytes, bytes = std::move(leaves.bytes)] {
            return part->write(offset, bytes);
        },
        [this, id, serial = fetch.number, from = ask.peer, number = chunk->number](Fetch* now, quern::Status status) {
            checks.end(serial);
            const bool bad = !status && !status.error().is_local_fault();
            if (bad) penalize(from, Offence::bad_leaf, status.error().to_string());
            if (now == nullptr) return;
            if (status) now->progress_ms = now_ms();
            if (status || bad) return now->plan.checked(number, from, status.has_value());
            now->plan.not_checked(number);
            end_fetch(id, std::move(status));
        });
}

void Network::Impl::store_content(const Hash32& id, Fetch& fetch) {
    on_file_thread(
        id, fetch, [part = fetch.part] { return part->publish(); },
        [this, id](Fetch&, quern::Status status) { end_fetch(id, std::move(status)); });
}

// What has come stays in the store as a part, for the next who asks for it.
void Network::Impl::end_fetch(const Hash32& id, quern::Status status) {
    const auto at = fetches.find(id);
    if (at == fetches.end()) return;
    const auto done = std::move(at->second.done);
    fetches.erase(at);
    for (const auto& each : done) each(status);
}

// --- Contents: serving -----------------------------------------------------------------------------------------------

std::string Network::Impl::payer(const Peer& peer) const {
    const bool chosen = manager.is_fixed(peer.address) || peer.control->is_outbound();
    return chosen ? to_hex0x(peer.address) : transport::host_key(peer.control->remote_host());
}

void Network::Impl::serve_find(Peer& peer, std::uint32_t stream, const messages::FindContent& asked) {
    const std::string host = payer(peer);
    if (!found_budget.may_spend(host, now_us())) return refuse(peer.address, stream, RefusalCode::busy);
    messages::ContentInfo info;
    std::size_t bitmaps = 0;
    for (auto each = asked.ids.begin(); each != asked.ids.end(); ++each) {
        const Hash32& id = *each;
        if (options.contents == nullptr) break;
        if (std::find(asked.ids.begin(), each, id) != each) continue;  // a bitmap for each time would be long
        if (const auto size = options.contents->size(id)) {
            info.holdings.push_back({id, *size, {}});
            continue;
        }
        // What is on its way here can be passed on already.
        const auto fetch = fetches.find(id);
        if (fetch == fetches.end() || fetch->second.plan.chunks_present() == 0) continue;
        const FetchPlan& plan = fetch->second.plan;
        if (bitmaps + plan.present().size() > kMaxPartBitmaps) continue;
        bitmaps += plan.present().size();
        info.holdings.push_back({id, plan.manifest()->size, plan.present()});
    }
    Bytes body = encode(info);
    found_budget.spend(host, asked.ids.size() * Hash32::kSize + body.size(), now_us());
    answer(peer.address, stream, Type::content_info, std::move(body));
}

void Network::Impl::serve_leaves(Peer& peer, Type type, std::uint32_t stream, const messages::GetLeaves& asked) {
    // Reading and checking a chunk takes a millisecond of the disk thread: not for who does not read what it was given.
    const std::uint64_t bytes = asked.count * (type == Type::get_leaves ? crypto::kContentLeafBytes : sizeof(Hash32));
    if (!peer.answers->has_room(bytes)) return refuse(peer.address, stream, RefusalCode::busy);
    const std::string host = payer(peer);
    if (!list_budget.may_spend(host, now_us())) return refuse(peer.address, stream, RefusalCode::busy);
    Responder reply = responder(peer, type, stream);
    if (options.contents == nullptr) return reply.refuse(RefusalCode::not_found);
    std::shared_ptr<Store::Part> part;
    if (const auto fetch = fetches.find(asked.id); fetch != fetches.end() && fetch->second.part) {
        const FetchPlan& plan = fetch->second.plan;
        const std::uint64_t chunk = asked.first / messages::kLeavesPerChunk;
        const std::uint64_t last = (asked.first + asked.count - 1) / messages::kLeavesPerChunk;
        if (type == Type::get_leaf_hashes || (chunk == last && chunk < plan.chunks() && plan.is_present(chunk)))
            part = fetch->second.part;
    }
    // Hosts take turns.
    reads.add(host, [this, host, asked, type, part, reply]() mutable {
        // The hashes of a large content take longer to read and to check than a chunk, and it may be another one each
        // time.
        if (const std::uint64_t cost = options.contents->unread_leaf_bytes(asked.id); cost != 0)
            post([this, host, cost] { list_budget.spend(host, cost, now_us()); });
        read_leaves(asked, type, part, reply);
    });
    read_next();
}

void Network::Impl::read_next() {
    while (reading < kReadsAtOnce) {
        auto read = reads.next();
        if (!read) return;
        ++reading;
        asio::post(disk, [this, read = std::move(*read)] {
            read();
            post([this] {
                --reading;
                if (!stopping) read_next();
            });
        });
    }
}

// On the disk thread.
void Network::Impl::read_leaves(const messages::GetLeaves& asked, Type type, const std::shared_ptr<Store::Part>& part,
                                Responder& reply) {
    messages::Leaves out{asked.id, asked.first, {}};
    constexpr std::uint64_t kLeaf = crypto::kContentLeafBytes;
    if (type == Type::get_leaf_hashes) {
        const auto stored = options.contents->manifest(asked.id);
        const auto manifest = stored ? *stored : part ? part->manifest() : nullptr;
        if (!manifest || asked.first + asked.count > manifest->leaves.size())
            return reply.refuse(RefusalCode::not_found);
        for (std::uint64_t i = 0; i < asked.count; ++i) append(out.bytes, manifest->leaves[asked.first + i]);
        return reply.answer_leaves(messages::Type::leaf_hashes, out);
    }
    auto bytes = options.contents->read(asked.id, asked.first * kLeaf, asked.count * kLeaf);
    if (!bytes && part) {
        bytes = part->read(asked.first * kLeaf, asked.count * kLeaf);
        if (!bytes && bytes.error().name == content::kBadLeaf)
            post([this, id = asked.id, chunk = asked.first / messages::kLeavesPerChunk] {
                const auto fetch = fetches.find(id);
                if (fetch == fetches.end() || fetch->second.busy) return;
                fetch->second.plan.lost(chunk);
                go_on(id);
            });
    }
    if (!bytes || bytes->empty()) return reply.refuse(RefusalCode::not_found);
    out.bytes = std::move(*bytes);
    reply.answer_leaves(messages::Type::leaves, out);
}

}  // namespace quern::p2p
